"""``python -m fedrela_sk``: which tau? The main job on bundled data."""

import importlib
import sys

from fedrela_sk._main._arguments import read_arguments

_EXTRAS = ("matplotlib", "pandas", "rich")


def main(arguments=None):
    """Run the main job.

    Parameters
    ----------
    arguments : list of str or None, default=None
        None: those of the command line.

    Returns
    -------
    code : int
        0, or 2 where something that was asked for or is needed is not there.
    """
    options = read_arguments(arguments)
    missing = _missing_extras()
    if missing:
        return _refuse(
            f"This needs {', '.join(missing)}, which cannot be imported. Run: pip install 'fedrela_sk[plots]'"
        )
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return _refuse(f"--out {options.out} cannot be made a folder ({error}). Name another folder.")
    _run(options)
    return 0


def _missing_extras():
    missing = []
    for name in _EXTRAS:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    return missing


def _refuse(message):
    sys.stderr.write(f"python -m fedrela_sk: {message}\n")
    return 2


def _run(options):
    """Load, search, compare, say and save; what takes long to import is imported here."""
    import matplotlib

    matplotlib.use("Agg")
    from rich.console import Console

    from fedrela_sk._main import _files, _problem, _progress, _study, _text

    out = Console(width=None if sys.stdout.isatty() else 120, highlight=False, soft_wrap=True)
    problem = _problem.load_problem(options)
    _say(out, _text.describe_problem(problem, options.rounds or problem.training.rounds))
    with _progress.RoundDisplay(Console(stderr=True, highlight=False)) as display:
        study = _study.run_study(problem, options, display)
    out.print(_text.make_table(study))
    for lines in (
        _text.check_training, _text.explain_choice, _text.compare_with_others, _text.describe_relabeling,
    ):  # fmt: skip
        _say(out, lines(study))
    saved = {
        "scores.csv": _files.save_scores,
        "scores_over_tau.png": _files.save_tau_curve,
        "relabeled.png": _files.save_relabeled,
    }
    for name, save in saved.items():
        save(study, options.out / name)
        _say(out, [f"Saved {options.out / name}"])


def _say(console, lines):
    for line in lines:
        console.print(line, markup=False)


if __name__ == "__main__":
    sys.exit(main())
