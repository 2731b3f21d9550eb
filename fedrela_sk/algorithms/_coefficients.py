"""How far a client's optimizer carries a gradient of constant size: exact for every form of SGD."""


def coefficient_sum(run, pull=0.0, outside=False):
    """Sum of the factors with which a client's gradients enter its displacement, over its learning rate.

    The displacement of a client that starts at theta and takes tau steps is
    ``-lr (a_1 g_1 + ... + a_tau g_tau)``. The sum of the a is what gradients of 1 would give, and is found by
    running the optimizer's own recursion on them. Without momentum it is tau. With momentum rho (and a
    buffer that starts empty in every round) it is (tau - rho (1 - rho^tau) / (1 - rho)) / (1 - rho), with a
    proximal pull (1 - (1 - pull)^tau) / pull; Nesterov's form, dampening and all of them together are exact
    too.

    Parameters
    ----------
    run : LocalRun
        Of a client that trained with SGD.
    pull : float, default=0.0
        Learning rate times the strength of a pull back to theta.
    outside : bool, default=False
        Whether the pull goes past the momentum buffer.

    Returns
    -------
    total : float
        0 for a client that took no step.
    """
    buffer = total = 0.0
    for step in range(run.n_steps):
        seen = 1.0 if outside else 1.0 - pull * total
        buffer = seen if step == 0 else run.momentum * buffer + (1 - run.dampening) * seen
        move = buffer if run.momentum else seen
        if run.nesterov:
            move = seen + run.momentum * buffer
        total += move - (pull * total if outside else 0.0)
    return total


def check_sgd(run, method):
    """Refuse optimizers whose steps are not sums of gradients.

    Raises
    ------
    ValueError
        For another class than `torch.optim.SGD`, or parameter groups of different settings.
    """
    if run.optimizer != "SGD":
        raise ValueError(
            f"{method} needs to know how each gradient enters a client's step, which only SGD tells (with or "
            f"without momentum); got optimizer {run.optimizer}. Set optimizer=torch.optim.SGD."
        )
    if not run.alike:
        raise ValueError(
            f"{method} needs one learning rate, momentum and dampening for all parameters; got parameter groups "
            "that differ. Leave optimizer__param_groups out."
        )
