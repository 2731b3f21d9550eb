"""What was recorded in training is part of what `memory` keeps."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from fedrela_sk import FedReLaRelabeler
from tests.federation.helpers import make_fed
from tests.federation.recording import TRAINING, X, Y, batches, fit


def facts(fed):
    records = [{k: v for k, v in record.as_dict().items() if k != "seconds"} for record in fed.history_]
    return str(records), fed.y_relabeled_.tolist(), fed.predict_proba(X).tobytes()


@pytest.mark.parametrize(
    "params",
    [{}, {"engine": "stacked"}, {"participation": 0.5, "n_rounds": 9}, {"algorithm": "local_only"}],
    ids=["loop", "stacked", "late", "local_only"],
)
def test_memory_holds_what_was_recorded(tmp_path, params):
    common = {"relabeler": FedReLaRelabeler(0.2)} | params
    plain, first, second = (fit(batches(), memory=memory, **common) for memory in (None, tmp_path, tmp_path))
    assert plain.relabeled_mask_.any()
    assert facts(plain) == facts(first) == facts(second)
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_memory_keeps_the_kinds_of_posteriors_apart(tmp_path):
    kinds = [TRAINING, None, {"passes": 5, "mode": "train"}]
    plain = [fit(batches(), relabeler=FedReLaRelabeler(0.2), relabel_posteriors=kind) for kind in kinds]
    for order in (kinds, kinds[::-1], kinds):
        folder = tmp_path / str(order is kinds)
        for kind in order:
            fed = fit(batches(), relabeler=FedReLaRelabeler(0.2), relabel_posteriors=kind, memory=str(folder))
            assert facts(fed) == facts(plain[kinds.index(kind)])
        assert len(list(folder.glob("*.json"))) == 2  # with what was recorded, and without


def test_a_search_over_tau_is_the_same_with_memory(tmp_path):
    scores = [
        GridSearchCV(
            make_fed(
                batches(),
                relabeler=FedReLaRelabeler(),
                relabel_at=2,
                relabel_posteriors=TRAINING,
                memory=memory,
            ),
            {"relabeler__tau": [0.0, 0.1, 0.4]},
            cv=2,
            scoring="neg_log_loss",
        )
        .fit(X, Y)
        .cv_results_["mean_test_score"]
        for memory in (None, str(tmp_path))
    ]
    np.testing.assert_array_equal(*scores)
    assert len(set(scores[0])) == 3
    assert len(list(tmp_path.glob("*.json"))) == 3
