from fedrela_sk.__main__ import main
from fedrela_sk._main import _problem, _study


def test_whole_job(small_problem, study, tmp_path, monkeypatch, capsys):
    """All but the study itself, which is long and has tests of its own."""
    asked = []
    monkeypatch.setattr(_problem, "load_problem", lambda options: small_problem)
    monkeypatch.setattr(_study, "run_study", lambda *arguments: asked.append(arguments) or study)
    assert main(["--rounds", "4", "--tau", "0.3", "--out", str(tmp_path / "a" / "b")]) == 0
    problem, given, display = asked[0]
    assert problem is small_problem
    assert (given.rounds, given.tau) == (4, (0.0, 0.3))
    assert display.reporter is not None
    out = capsys.readouterr().out
    assert "Clients: 6 states. Net: MLP 64-32, 4 rounds" in out
    for text in (
        "federated, tau 0.3",
        "pooled boosting, weights",
        "* Chosen: tau",
        "Average precision at tau 0",
    ):
        assert text in out
    for name in ("scores.csv", "scores_over_tau.png", "relabeled.png"):
        assert (tmp_path / "a" / "b" / name).stat().st_size > 100
        assert f"Saved {tmp_path / 'a' / 'b' / name}\n" in out
