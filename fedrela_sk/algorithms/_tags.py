"""Several sets of named tensors in one flat dictionary: a tag before each name, which no parameter can have."""

from typing import Any


def tagged(tag: Any, tree: Any) -> Any:
    """The tensors of `tree` under the names ``"tag of name"``."""
    return {f"{tag} of {name}": tensor for name, tensor in tree.items()}


def untagged(tag: Any, tree: Any) -> Any:
    """Those entries of `tree` that `tagged` put there, under their own names."""
    start = f"{tag} of "
    return {name.removeprefix(start): tensor for name, tensor in tree.items() if name.startswith(start)}
