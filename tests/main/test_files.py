import csv

import numpy as np
from PIL import Image

from fedrela_sk._main import _files


def test_csv_holds_every_score(study, tmp_path):
    _files.save_scores(study, tmp_path / "scores.csv")
    with open(tmp_path / "scores.csv", newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 3 * (2 + 5)
    for row in study.over_tau + study.others:
        own = [line for line in lines if line["model"] == row.model]
        assert {line["tau"] for line in own} == {"" if row.tau is None else str(row.tau)}
        assert [line["fold"] for line in own] == ["0", "1", "2"]
        for metric, scores in row.scores.items():
            np.testing.assert_array_equal([float(line[metric]) for line in own], scores)


def test_pictures_are_drawn_and_closed(study, tmp_path):
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")
    for name, save in {"a.png": _files.save_tau_curve, "b.png": _files.save_relabeled}.items():
        save(study, tmp_path / name)
        with Image.open(tmp_path / name) as picture:
            assert min(picture.size) > 300
            assert len(picture.convert("RGB").getcolors(2**24)) > 50
    assert not plt.get_fignums()
