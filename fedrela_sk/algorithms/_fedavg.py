"""FedAvg (McMahan et al. 2017): the weighted mean of the clients' models."""

from fedrela_sk.algorithms._base import Algorithm


class FedAvg(Algorithm):
    """theta <- sum_k w_k theta_k / sum_k w_k over the clients of the round.

    The denominators run over the clients that took part, not over all of them. BatchNorm's running
    statistics are averaged alike, its batch counters take the maximum.

    References
    ----------
    McMahan, Moore, Ramage, Hampson, Agüera y Arcas, "Communication-Efficient Learning of Deep Networks
    from Decentralized Data", AISTATS 2017.
    """

    neutral = {}
    neutral_reason = "it is FedAvg"
