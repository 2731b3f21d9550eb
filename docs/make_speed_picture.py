"""Draw the README's chart of speed from the committed results: ``python docs/make_speed_picture.py``."""

import json
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "speed.json"
PICTURE = Path(__file__).parent / "images" / "speed.png"
OURS = "fedrela_sk"
JOBS = {
    "tab": "ragged clients, dense net",
    "even": "even clients, dense net",
    "cnn": "convolutions",
}


def seconds_a_round(results):
    """Job to engine to median seconds of a round, each engine with its best number of processes.

    Parameters
    ----------
    results : dict
        What ``python -m benchmarks.run speed`` writes.
    """
    found = {job: {} for job in JOBS}
    for row in results["peers"]:
        best = found[row["job"]]
        best[row["peer"]] = min(row["median_s"], best.get(row["peer"], float("inf")))
    return found


def draw_speed(path):
    """One panel a job, the fastest engine on top."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = seconds_a_round(json.loads(RESULTS.read_text(encoding="utf-8")))
    figure, panels = plt.subplots(1, len(JOBS), figsize=(11, 2.4), layout="constrained")
    for panel, (job, title) in zip(panels, JOBS.items(), strict=True):
        engines = sorted(found[job], key=found[job].get, reverse=True)
        seconds = [found[job][engine] for engine in engines]
        colors = ["tab:orange" if engine == OURS else "0.7" for engine in engines]
        panel.bar_label(panel.barh(engines, seconds, color=colors), fmt="%.2f", padding=3)
        panel.set(title=title, xlabel="seconds a round", xlim=(0, 1.2 * max(seconds)))
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    draw_speed(PICTURE)
