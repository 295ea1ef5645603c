"""Masks: the fields of an object that a plugin declared or asks for."""

from __future__ import annotations

from typing import Any, Iterable

from ..errors import ApiError
from ..views import steps

#: A tree of steps; an empty one stands for all that lies below.
Mask = dict[Any, "Mask"]

_ALWAYS = ["metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"]


def parse(paths: Iterable[str]) -> Mask | None:
    """Returns the mask of these paths and the metadata that is always read; None for the whole object."""
    mask: Mask = {}
    for path in [*_ALWAYS, *paths]:
        if path == ".":
            return None
        try:
            parsed = steps(path)
        except ValueError as error:
            raise ApiError.of(400, "Invalid", str(error)) from None
        _insert(mask, parsed)
    return mask


def _insert(node: Mask, parsed: list[Any]) -> None:
    for at, step in enumerate(parsed):
        if step in node and not node[step]:
            return
        node = node.setdefault(step, {})
        if at == len(parsed) - 1:
            node.clear()


def covers(declared: Mask | None, wanted: Mask | None) -> bool:
    """Whether a mask holds all that another one does."""
    if declared is None:
        return True
    return wanted is not None and _covers(declared, wanted)


def _covers(declared: Mask, wanted: Mask) -> bool:
    for step, below in wanted.items():
        own = declared.get(step)
        if own is None and isinstance(step, tuple):
            own = declared.get(None)
        if own is None or (own and (not below or not _covers(own, below))):
            return False
    return True


def prune(found: Any, mask: Mask | None) -> Any:
    """Returns an object reduced to a mask."""
    return found if mask is None else _prune(found, mask)


def _prune(value: Any, node: Mask) -> Any:
    if not node:
        return value
    if isinstance(value, dict):
        kept = {name: _prune(value[name], below) for name, below in node.items() if isinstance(name, str) and name in value}
        return {name: below for name, below in kept.items() if below is not None}
    if isinstance(value, list):
        if None in node:
            return [_prune(one, node[None]) for one in value]
        pairs = [(step, below) for step, below in node.items() if isinstance(step, tuple)]
        return [
            {key: wanted, **(_prune(one, below) or {})}
            for one in value
            for (key, wanted), below in pairs
            if isinstance(one, dict) and one.get(key) == wanted
        ]
    return None
