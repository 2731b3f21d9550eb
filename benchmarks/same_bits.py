"""Compare results with those of another commit, bit for bit: ``python -m benchmarks.same_bits REVISION``.

Short fits over every method, engine, kind of weights, rule of participation, relabeler, sampler and setting of
`memory`, and at one site, run in this working tree and in a clone of REVISION, on the same machine with the same
libraries. Hashes of weights, histories, new labels and posteriors must be equal; the last line printed goes into the
commit body.

The fits use only names that both revisions know; notes are compared by their number, since their wording may change.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
# columns of the history, each under the names that it has had
COLUMNS = (
    ("round",), ("participants",), ("n_samples", "n_rows"), ("n_steps",), ("train_loss",), ("valid_loss",),
    ("valid_score",), ("n_relabeled",), ("relabeled_clients",), ("bytes_up",), ("bytes_down",),
)  # fmt: skip


def main(arguments=None):
    """Compare this tree with a revision; the number of cases that differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_bits", description=__doc__)
    parser.add_argument("revision", help="commit, branch or tag to compare with")
    parser.add_argument("--only", default="", help="run only the cases whose name contains this")
    known = parser.parse_args(arguments)
    with clone_of(known.revision) as (clone, commit):
        theirs, ours = (_start(tree, known.only) for tree in (clone, ROOT))
        theirs, ours = _results(theirs), _results(ours)
    return _compare(theirs, ours, commit)


@contextmanager
def clone_of(revision):
    """A folder with the files of a revision of this repository while it is entered, and its commit."""
    commit = _git("rev-parse", "--short=10", revision)
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "revision"
        _git("clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(clone))
        _git("-C", str(clone), "checkout", "--quiet", "--detach", commit)
        yield clone, commit


def _git(*arguments):
    """Output of a git command in this tree."""
    ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def _start(tree, only):
    """A process that runs this very file on the package of a tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), "--child", str(tree), only],
        env=environment, cwd=tree, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def _results(process):
    """Case to hashes, as the process prints them."""
    output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"The cases ended with exit status {process.returncode}.")
    return json.loads(output)


def _compare(theirs, ours, commit):
    """Print what differs; the number of such cases."""
    common = [name for name in ours if name in theirs]
    different = 0
    for name in common:
        parts = [part for part in theirs[name] if theirs[name][part] != ours[name].get(part)]
        if parts or theirs[name].keys() != ours[name].keys():
            different += 1
            errors = [
                f"{side.get('error', 'no error')}" for side in (theirs[name], ours[name]) if "error" in side
            ]
            print(f"{name}: {', '.join(parts) or 'other parts'} differ {' '.join(errors)}".rstrip())
    for name in sorted(theirs.keys() ^ ours.keys()):
        print(f"{name}: in {'this tree' if name in ours else commit} only")
    print(f"same_bits: {len(common) - different} of {len(common)} fits equal to {commit}, bit for bit")
    return different


# --- in the processes -----------------------------------------------------------------------------------------


def _child(tree, only):
    """Run all cases on the package of a tree; print a dictionary of case to hashes."""
    import torch

    import fedrela_sk

    if not Path(fedrela_sk.__file__).is_relative_to(tree):
        raise RuntimeError(f"{fedrela_sk.__file__} is not the package of {tree}.")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    done = {name: _hashes(run) for name, run in cases() if only in name}
    print(json.dumps(done))


def _hashes(run):
    """Part of a result to its hash; an error is a result too."""
    try:
        parts = run()
    except Exception as error:  # both trees may refuse a case
        return {"error": type(error).__name__}
    return {part: hashlib.sha256(repr(_plain(value)).encode()).hexdigest() for part, value in parts.items()}


def _plain(value):
    """Arrays and tensors as dtype, shape and bytes; everything else as it is, piece by piece."""
    import numpy as np
    import torch

    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, dict):
        return [(key, _plain(item)) for key, item in value.items()]
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    return value


def cases():
    """(name, function of no arguments that gives part to value) of every case."""
    yield from _federations()
    yield from _one_site()


def _federations():
    """Federations, one setting changed at a time."""
    from fedrela_sk.algorithms import ALGORITHMS

    for name, method in sorted(ALGORITHMS.items()):
        for engine in ("loop",) if method().loop_only else ("loop", "stacked"):
            yield f"method {name}, {engine}", _federation(algorithm=name, engine=engine)
    for name, settings in _settings().items():
        for engine in ("loop", "stacked"):
            yield f"{name}, {engine}", _federation(**({"engine": engine} | settings))


def _settings():
    """Name to parameters of `FederatedClassifier` and, in small letters with "fit_", of `fit`."""
    import numpy as np
    from imblearn.over_sampling import SMOTE, RandomOverSampler
    from sklearn.model_selection import StratifiedKFold
    from skorch.callbacks import GradientNormClipping

    from fedrela_sk import FedReLaRelabeler, QuantitySkewSplit, ShardSplit
    from fedrela_sk.local_data import Mixup, Remix
    from fedrela_sk.losses import BalancedSoftmaxLoss, LDAMLoss
    from fedrela_sk.participation import ClusteredSampling, Mediators, OptimalSampling

    rng = np.random.default_rng(0)
    released = {"passes": 5, "augment": True, "mode": "train", "late": "never"}
    released_relabeler = FedReLaRelabeler(
        0.2, target="argmax_of_successes", threshold="order_statistic", min_scale=1e-6
    )
    return {
        "row weights": {"fit_sample_weight": rng.uniform(0.2, 2, size=_N)},
        "whole weights": {"fit_sample_weight": rng.integers(0, 3, size=_N)},
        "uniform clients": {"client_weight": "uniform"},
        "balanced": {"class_weight": "balanced"},
        "half": {"participation": 0.5, "relabel_every": 1},
        "clustered": {"participation": ClusteredSampling(0.5)},
        "optimal": {"participation": OptimalSampling(0.5)},
        "mediators": {"participation": Mediators(2)},
        "half, climb": {"participation": 0.5, "algorithm": "climb"},
        "half, scaffold": {"participation": 0.5, "algorithm": "scaffold"},
        "half, fedyoyo": {"participation": 0.5, "algorithm": "fedyoyo", "engine": "loop"},
        "no relabeler": {"relabeler": None},
        "every round": {"relabel_every": 1, "n_rounds": 4},
        "released code": {
            "relabeler": released_relabeler,
            "relabel_posteriors": released,
            "participation": 0.6,
        },
        "recorded": {"relabel_posteriors": {"passes": "training"}},
        "limits": {"relabeler": FedReLaRelabeler(0.3, min_remaining=5, max_ratio=1)},
        "own relabeler": {"relabeler": _Dropping()},
        "memory": {"memory": True},
        "memory, scaffold": {"memory": True, "algorithm": "scaffold", "participation": 0.5},
        "memory, heads": {
            "memory": True,
            "algorithm": "fedloge",
            "validation": 0.2,
            "select": "best_validation",
        },
        "validation": {"validation": 0.2, "select": "best_validation"},
        "own validation": {"fit_X_val": True, "algorithm": "fedrod"},
        "oversampled": {"local_data": RandomOverSampler()},
        "smote": {"local_data": SMOTE(k_neighbors=2)},
        "mixup": {"local_data": Mixup(), "engine": "loop"},
        "remix": {"local_data": Remix(), "engine": "loop"},
        "shards": {"clients": ShardSplit(5, shards_per_client=2)},
        "quantities": {"clients": QuantitySkewSplit(5, alpha=0.5)},
        "folds": {"clients": StratifiedKFold(4)},
        "groups": {"clients": None, "fit_groups": rng.integers(0, 5, size=_N).astype(str)},
        "slower": {"lr_schedule": 0.9, "algorithm": "fednova"},
        "threads": {"n_jobs": 2},
        "dropout": {"net": {"module": _dropout_net}},
        "batch norm": {"net": {"module": _norm_net}, "algorithm": "fedprox"},
        "double": {"net": {"module": _double_net}, "algorithm": "feddyn"},
        "balanced softmax": {"net": {"criterion": BalancedSoftmaxLoss}},
        "ldam": {"net": {"criterion": LDAMLoss}},
        "momentum, clipped": {
            "net": {
                "optimizer__momentum": 0.9,
                "optimizer__weight_decay": 1e-3,
                "callbacks": [GradientNormClipping(0.1)],
            }
        },
        "all classes declared": {"classes": [0, 1, 2, 3]},
    }


_N, _FEATURES = 240, 6


def _rows():
    """X, y with three classes, of which two are rare."""
    from sklearn.datasets import make_classification

    return make_classification(
        _N, _FEATURES, n_informative=4, n_classes=3, weights=[0.75, 0.17], class_sep=0.8, random_state=0
    )


class _Dropping:
    """A relabeler of a user's own: it moves and drops rows by the draws that it is given."""

    def fit(self, Q, y):
        return self

    def relabel(self, Q, y, uniforms=None):
        new = y.copy()
        new[uniforms[:, 0] < 0.1] = 2
        return new, uniforms[:, 1] > 0.1


def _net(*layers):
    """A function of numbers of features and classes that gives a module."""
    from torch import nn

    return nn.Sequential(*layers)


def _dropout_net(n_classes=3):
    from torch import nn

    return _net(nn.Linear(_FEATURES, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, n_classes))


def _norm_net(n_classes=3):
    from torch import nn

    return _net(nn.Linear(_FEATURES, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, n_classes))


def _double_net(n_classes=3):
    from torch import nn

    return _net(nn.Linear(_FEATURES, 8), nn.Tanh(), nn.Linear(8, n_classes)).double()


def _federation(net=None, memory=False, **settings):
    """A function that fits a federation and gives its parts."""

    def run():
        from skorch import NeuralNetClassifier
        from torch import nn

        from fedrela_sk import DirichletSplit, FederatedClassifier, FedReLaRelabeler
        from fedrela_sk.nets import MLP

        X, y = _rows()
        given = {name[4:]: value for name, value in settings.items() if name.startswith("fit_")}
        own = {name: value for name, value in settings.items() if not name.startswith("fit_")}
        if given.get("X_val"):
            given |= {"X_val": X[::5] + 0.1, "y_val": y[::5]}
        module = (net or {}).get("module", MLP)
        sizes = {"module__n_features": _FEATURES, "module__n_classes": 3} if module is MLP else {}
        if module is not MLP:
            import torch

            torch.manual_seed(0)
            module = module()
        if "classes" in own:
            sizes["module__n_classes"] = len(own["classes"])
        skorch_net = NeuralNetClassifier(
            module,
            **{
                "criterion": nn.CrossEntropyLoss,
                "lr": 0.1,
                "batch_size": 16,
                "iterator_train__shuffle": True,
            },
            **sizes,
        ).set_params(**{name: value for name, value in (net or {}).items() if name != "module"})
        fed = FederatedClassifier(
            skorch_net,
            **{
                "clients": DirichletSplit(6, alpha=0.5),
                "relabeler": FedReLaRelabeler(0.2),
                "n_rounds": 3,
                "random_state": 0,
            }
            | own,
        )
        if not memory:
            return _parts(fed.fit(X, y, **given), X)
        with tempfile.TemporaryDirectory() as folder:
            fed.set_params(memory=folder).fit(X, y, **given)
            again = fed.set_params(relabeler__tau=0.1).fit(X, y, **given)
            return _parts(again, X) | {"stored": len(list(Path(folder).glob("*.safetensors")))}

    return run


def _parts(fed, X):
    """What a fit is compared by."""
    import numpy as np

    report = fed.relabel_report()
    names = ("client", "round", "row", "old", "new", "posterior", "z", "threshold", "rho")
    groups = fed.y_relabeled_.astype(int) % 2  # some clients' names, to ask for heads of their own
    personal = fed.predict_proba(X, groups=np.array(fed.client_names_)[groups])
    return {
        "weights": {} if fed.net_ is None else dict(fed.net_.module_.state_dict()),
        "history": [[_column(record, names) for names in COLUMNS] for record in fed.history_],
        "notes": [len(fed.history_.notes), *(len(record.notes) for record in fed.history_)],
        "labels": [fed.y_relabeled_, fed.kept_mask_, fed.class_count_],
        "report": [getattr(report, name) for name in names],
        "posteriors": [fed.predict_proba(X), personal],
    }


def _column(record, names):
    """The value of a column under the first name that the record has."""
    present = record.as_dict()
    return next(present[name] for name in names if name in present)


def _one_site():
    """The relabeler by itself, and the estimators around one classifier."""
    from sklearn.linear_model import LogisticRegression

    from fedrela_sk import FedReLaRelabeler, FedReLaSampler, RelabelingClassifier

    relabelers = {
        "as in the paper": {},
        "as released": {"target": "argmax_of_successes", "threshold": "order_statistic", "min_scale": 1e-6},
        "minmax": {"normalization": "minmax"},
        "none": {"normalization": "none"},
        "limits": {"min_remaining": 20, "max_ratio": 0.5},
        "scores": {"input": "score"},
    }
    for name, settings in relabelers.items():
        for weighted in (False, True):
            relabeler = FedReLaRelabeler(0.1, random_state=0, **settings)
            yield (
                f"relabeler {name}, {'weights' if weighted else 'no weights'}",
                _relabeler(relabeler, weighted),
            )
    inner = LogisticRegression()
    for name, settings in {
        "folds": {},
        "in sample": {"cv": "insample"},
        "no second fit": {"refit": False},
        "calibrated": {"calibrate": True},
    }.items():
        yield (
            f"one site, {name}",
            _classifier(RelabelingClassifier(inner, FedReLaRelabeler(0.1), random_state=0, **settings)),
        )

    def sampler():
        X, y = _rows()
        return {"rows": list(FedReLaSampler(inner, random_state=0).fit_resample(X, y))}

    yield "sampler", sampler


def _relabeler(relabeler, weighted):
    def run():
        import numpy as np
        from scipy.special import softmax

        _, y = _rows()
        rng = np.random.default_rng(1)
        scores = rng.normal(size=(_N, 3)) + 2 * np.eye(3)[y]
        Q = scores if relabeler.input == "score" else softmax(scores, axis=1)
        weights = rng.uniform(0.5, 2, size=_N) if weighted else None
        fitted = relabeler.fit(Q, y, sample_weight=weights)
        return {
            "labels": fitted.relabel(Q, y),
            "rho": fitted.relabel_proba(Q, y),
            "transformed": fitted.transform(Q),
            "report": [
                getattr(fitted.report(), name) for name in ("row", "old", "new", "z", "threshold", "rho")
            ],
        }

    return run


def _classifier(classifier):
    def run():
        X, y = _rows()
        fitted = classifier.fit(X, y)
        return {"posteriors": fitted.predict_proba(X), "labels": fitted.y_relabeled_}

    return run


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.path[0] = sys.argv[2]
        _child(*sys.argv[2:])
    else:
        sys.exit(main() and "Some fits differ.")
