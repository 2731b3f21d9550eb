"""The parameter `relabel_posteriors`: which posteriors clients relabel by, checked and filled up."""

import numpy as np

POSTERIOR_DEFAULTS = {"passes": 1, "augment": False, "mode": "eval", "late": "next"}


def check_relabel_posteriors(settings):
    """`relabel_posteriors` with every key filled in.

    Raises
    ------
    ValueError
        If a key is unknown or has a value that is not one of its own.
    """
    settings = {} if settings is None else settings
    unknown = sorted(set(settings) - set(POSTERIOR_DEFAULTS))
    if unknown:
        raise ValueError(
            f"relabel_posteriors has the unknown key {unknown[0]!r}; known keys: {sorted(POSTERIOR_DEFAULTS)}."
        )
    full = POSTERIOR_DEFAULTS | settings
    allowed = {"augment": (True, False), "mode": ("eval", "train"), "late": ("next", "never")}
    for key, values in allowed.items():
        if full[key] not in values:
            raise ValueError(f"relabel_posteriors[{key!r}] must be one of {values}, got {full[key]!r}.")
    _check_passes(full)
    return full


def _check_passes(settings):
    """Refuse what is not a number of passes, and pass settings without passes."""
    passes = settings["passes"]
    if isinstance(passes, str) and passes == "training":
        for key in ("augment", "mode"):
            if settings[key] != POSTERIOR_DEFAULTS[key]:
                raise ValueError(
                    f"relabel_posteriors[{key!r}]={settings[key]!r} has no meaning with passes='training': "
                    "posteriors are those of the steps of local training. Leave it out, or set a number of passes."
                )
        return
    if isinstance(passes, bool) or not isinstance(passes, int | np.integer) or passes < 1:
        raise ValueError(
            f"relabel_posteriors['passes'] must be an integer >= 1 or 'training', got {passes!r}."
        )
