"""The speed figures as one Markdown page."""

from benchmarks.suites._markdown import table


def markdown(found):
    """The page; parts that were not run yet are left out."""
    parts = [
        "# Speed\n",
        "Made by `python -m benchmarks.run speed`. All engines ran one after the other in this run, on the "
        "same machine; seconds are medians of single rounds. Machines are shared and noisy: read the ratios.\n",
        table(["", ""], [(name, str(value)) for name, value in found["machine"].items()]),
    ]
    writers = {
        "peers": _peers,
        "gemm": _gemm,
        "grid": _grid,
        "relabel": _relabel,
        "clients": _clients,
        "scale": _scale,
        "flat": _flat,
        "fixed": _fixed,
    }
    parts += [write(found[name]) for name, write in writers.items() if name in found]
    return "\n".join(parts)


def _peers(lines):
    columns = ["engine", "processes", "median s", "min s", "/ ours, n_jobs=1", "/ ours, n_jobs=2", "checksum"]
    parts = ["## One round of FedAvg, beside the peers\n", "Jobs: `benchmarks/peers/job.py`.\n"]
    for job in dict.fromkeys(line["job"] for line in lines):
        found = sorted((line for line in lines if line["job"] == job), key=lambda r: r["median_s"])
        ours = {r["processes"]: r["median_s"] for r in found if r["peer"] == "fedrela_sk"}
        rows = [
            [
                f"**{r['peer']}** {r['engine']}" if r["peer"] == "fedrela_sk" else r["peer"],
                str(r["processes"]),
                f"{r['median_s']:.4f}",
                f"{r['min_s']:.4f}",
                f"{r['median_s'] / ours[1]:.2f}",
                f"{r['median_s'] / ours[2]:.2f}",
                f"{r['checksum']:.3f}",
            ]
            for r in found
        ]
        parts += [f"### {job}\n", table(columns, rows)]
    return "\n".join(parts)


def _gemm(found):
    products = ", ".join(f"{name}: {1000 * s:.1f} ms" for name, s in found["products_s"].items())
    return (
        "## Distance from the bare products\n\n"
        f"The batched products of one round of `even` alone take {products} (one thread); the round through "
        f"`fit` takes {1000 * found['round_s']:.1f} ms: **{found['ratio']:.2f} times** the best.\n"
    )


def _grid(found):
    pairs = ", ".join(f"{a:.1f} / {b:.1f}" for a, b in found["seconds"])
    return (
        "## A grid over tau with `memory`\n\n"
        f"8 taus x 3 folds at `relabel_at=0.8`, seconds without / with: {pairs}. Median ratio "
        f"**{found['ratio']:.2f}**; the scores are equal.\n"
    )


def _relabel(found):
    columns = [
        *["posteriors", "ours s", "row by row s", "np.tanh s", "faster than rows", "times tanh"],
        "labels that differ",
    ]
    rows = [
        [
            name,
            f"{r['ours_s']:.3f}",
            f"{r['rows_s']:.2f}",
            f"{r['tanh_s']:.3f}",
            f"{r['faster_than_rows']:.1f}",
            f"{r['times_tanh']:.1f}",
            str(r["labels_that_differ"]),
        ]
        for name, r in found.items()
    ]
    return "## Relabelling\n\n" + table(columns, rows)


def _clients(found):
    columns = [
        *["clients", "rows", "classes", "one by one s", "one pass s", "ratio", "relabelled"],
        "labels that differ",
    ]
    rows = [
        [
            f"{r['clients']:,}",
            f"{r['rows']:,}",
            str(r["classes"]),
            f"{r['alone_s']:.3f}",
            f"{r['together_s']:.3f}",
            f"{r['ratio']:.1f}",
            f"{r['relabeled']:,}",
            str(r["labels_that_differ"]),
        ]
        for r in found
    ]
    return (
        "## Relabelling of many clients\n\n"
        "Given their posteriors, one thread: a relabeler a client, one after the other, against one pass over all "
        "rows.\n\n" + table(columns, rows)
    )


def _scale(found):
    columns = ["rows", "clients", "s a round", "us a row", "peak GiB", "before fit GiB"]
    rows = [
        [
            f"{r['rows']:,}",
            f"{r['clients']:,}",
            f"{r['round_s']:.3f}",
            f"{1e6 * r['round_s'] / r['rows']:.2f}",
            f"{r['peak_gib']:.2f}",
            f"{r['before_gib']:.2f}",
        ]
        for r in found
    ]
    return (
        "## Size\n\n`make_payments`, one client per 100 rows on average, chunks of 1,000, MLP 64-32, batches of "
        "32, one thread.\n\n" + table(columns, rows) + "\n![seconds a round over rows](speed_scale.png)\n"
    )


def draw_scale(found, path):
    """Seconds a round over rows, beside the straight line through the smallest job."""
    import matplotlib.pyplot as plt

    rows = [r["rows"] for r in found]
    seconds = [r["round_s"] for r in found]
    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    axes.plot(rows, [seconds[0] * n / rows[0] for n in rows], color="0.7", label="as fast as rows")
    axes.plot(rows, seconds, marker="o", label="measured")
    axes.set(xlabel="rows (one client per 100)", ylabel="seconds a round", xlim=(0, None), ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def _flat(found):
    return (
        "## 1,000 rounds\n\n"
        f"Resident memory, median of the first hundred rounds {found['first_100_mib']:.1f} MiB, of the last hundred "
        f"{found['last_100_mib']:.1f} MiB ({found['seconds']:.1f} s in all).\n"
    )


def _fixed(found):
    return (
        "## Fixed cost\n\n"
        f"`fit` of 5 rounds on 150 rows, after the first: {1000 * found['fit_5_rounds_150_rows_s']:.0f} ms. "
        f"`import fedrela_sk` adds {found['added_ms']:.0f} ms to `import sklearn` "
        f"({1000 * found['import_sklearn_s']:.0f} ms) and "
        f"{'imports' if found['imports_torch'] else 'does not import'} torch.\n"
    )
