"""Data with rare classes: bundled tables, a simulator of card payments, readers of public sets.

====================  =====================================  ========  ===============  ===============
function              rows                                   classes   rarest class     natural clients
====================  =====================================  ========  ===============  ===============
`load_lending_club`   loans, bundled                         2         5.2 %            50 states
`load_fars`           persons in road crashes, bundled       5 (or 8)  8.7 % (0.009 %)  51 states
`make_payments`       card payments, simulated               2         about 0.9 %      banks
`fetch_creditcard`    card payments, from OpenML             2         0.17 %           none
`load_fashion_mnist`  images, from a folder or from OpenML   10        10 %             none
`load_cifar10`        images, from a folder                  10        10 %             none
`load_cifar100`       images, from a folder                  100       1 %              none
`load_imagenet_lt`    images, from a folder and a list       1,000     0.004 %          none
====================  =====================================  ========  ===============  ===============

Each returns a `sklearn.utils.Bunch` with `data`, `target` (integers), `target_names` and `DESCR`, and
`groups` where there are natural clients: pass them as `fit(X, y, groups=bunch.groups)`. Sets without
natural clients are cut with `fedrela_sk.splitters`, balanced ones made rare with `fedrela_sk.imbalance`.
"""

from fedrela_sk.datasets._cifar10 import load_cifar10
from fedrela_sk.datasets._cifar100 import load_cifar100
from fedrela_sk.datasets._creditcard import fetch_creditcard
from fedrela_sk.datasets._fars import load_fars
from fedrela_sk.datasets._fashion_mnist import FASHION_MNIST_ROOT, load_fashion_mnist
from fedrela_sk.datasets._imagenet_lt import load_imagenet_lt
from fedrela_sk.datasets._lending_club import load_lending_club
from fedrela_sk.datasets._payments import make_payments

__all__ = [
    "FASHION_MNIST_ROOT",
    "fetch_creditcard",
    "load_cifar10",
    "load_cifar100",
    "load_fars",
    "load_fashion_mnist",
    "load_imagenet_lt",
    "load_lending_club",
    "make_payments",
]
