"""Draw the pictures of the README from the bundled loans: ``python docs/make_pictures.py``."""

from pathlib import Path

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from skorch import NeuralNetClassifier
from torch import nn

from fedrela_sk import FederatedClassifier, FedReLaRelabeler
from fedrela_sk.datasets import load_lending_club
from fedrela_sk.nets import MLP
from fedrela_sk.plots import FedReLaStepsDisplay

IMAGES = Path(__file__).parent / "images"
CLIENT = "CA"  # California, the largest state


def posteriors_of_client(n_rounds=15):
    """Posteriors and labels of one state's loans after so many rounds of plain federated training."""
    loans = load_lending_club()
    features = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(sparse_output=False), make_column_selector(dtype_include="category")),
    )
    X = features.fit_transform(loans.data).astype(np.float32)
    net = NeuralNetClassifier(
        MLP,
        module__n_features=X.shape[1],
        module__n_classes=2,
        criterion=nn.CrossEntropyLoss,
        lr=0.3,
        batch_size=128,
        max_epochs=2,
        iterator_train__shuffle=True,
    )
    federation = FederatedClassifier(net, clients=None, n_rounds=n_rounds, random_state=0)
    federation.fit(X, loans.target, groups=loans.groups)
    own = loans.groups == CLIENT
    return federation.predict_proba(X[own]), loans.target[own].to_numpy()


def draw_steps(path, n_rounds=15):
    """From posterior to z to rho to label for one real client."""
    Q, y = posteriors_of_client(n_rounds)
    display = FedReLaStepsDisplay.from_predictions(
        Q, y, FedReLaRelabeler(tau=0.05, random_state=0), class_names={0: "good", 1: "bad"}
    )
    display.figure_.suptitle(f"{len(y):,} loans of one client ({CLIENT}), tau = 0.05")
    display.figure_.savefig(path, dpi=100)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    draw_steps(IMAGES / "steps.png")
