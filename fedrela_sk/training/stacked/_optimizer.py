"""torch's elementwise optimizers on stacked parameters: fresh every round, smaller as clients finish."""

import torch
from torch.optim.sgd import SGD, sgd


def fresh_optimizer(net, params, lr_factor):
    """The net's optimizer over stacked parameters, remembering nothing.

    Parameters
    ----------
    net : initialized skorch net
    params : dict of leaf tensors
    lr_factor : float
        Factor on its learning rates.
    """
    args, kwargs = net.get_params_for_optimizer("optimizer", list(params.items()))
    optimizer = net.optimizer(*args, **kwargs)
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * lr_factor
    return optimizer


def shrink_optimizer(optimizer, old, new):
    """Put the first clients' parameters in place of all clients', in the optimizer's state too.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
    old, new : dict of leaf tensors
        `new` holds the first clients of `old`.
    """
    place = {id(old[name]): new[name] for name in old}
    for group in optimizer.param_groups:
        group["params"] = [place[id(param)] for param in group["params"]]
    for name, param in old.items():
        if param in optimizer.state:
            n = len(new[name])
            optimizer.state[new[name]] = {
                key: value[:n] if isinstance(value, torch.Tensor) and value.shape == param.shape else value
                for key, value in optimizer.state.pop(param).items()
            }


def optimizer_step(optimizer):
    """``optimizer.step()``; plain SGD goes straight to torch's own update, past profiling hooks.

    With the small tensors of a few clients the hooks cost as much as the update.
    """
    if type(optimizer) is not SGD:
        optimizer.step()
        return
    with torch.no_grad():
        for group in optimizer.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            buffers = [optimizer.state[param].get("momentum_buffer") for param in params]
            sgd(
                params,
                [param.grad for param in params],
                buffers,
                foreach=group["foreach"],
                fused=group["fused"],
                weight_decay=group["weight_decay"],
                momentum=group["momentum"],
                lr=group["lr"],
                dampening=group["dampening"],
                nesterov=group["nesterov"],
                maximize=group["maximize"],
            )
            if group["momentum"]:
                for param, buffer in zip(params, buffers, strict=True):
                    optimizer.state[param]["momentum_buffer"] = buffer
