"""Finalizers that a controller adds to objects and removes by updates."""

from __future__ import annotations

from typing import Any

from .views import View, meta_of
from .writes import Write


def has(found: Any, finalizer: str) -> bool:
    """Whether an object has this finalizer."""
    return finalizer in (meta_of(found).get("finalizers") or [])


def is_deleting(found: Any) -> bool:
    """Whether an object is being deleted."""
    return bool(meta_of(found).get("deletionTimestamp"))


def is_held(found: Any, finalizer: str) -> bool:
    """Whether an object is being deleted and this finalizer keeps it."""
    return is_deleting(found) and has(found, finalizer)


def is_missing(found: Any, finalizer: str) -> bool:
    """Whether an object is not being deleted and lacks this finalizer."""
    return not is_deleting(found) and not has(found, finalizer)


def add(kind: str | type[View], found: Any, finalizer: str) -> Write:
    """The update that appends a finalizer: `host.write(finalizers.add(…))`. Fails with a ConflictError if the object has
    changed since it was read."""
    return _set(kind, found, [*(meta_of(found).get("finalizers") or []), finalizer])


def remove(kind: str | type[View], found: Any, finalizer: str) -> Write:
    """The update that removes a finalizer and keeps others. Fails with a ConflictError if the object has changed since it
    was read."""
    return _set(kind, found, [own for own in meta_of(found).get("finalizers") or [] if own != finalizer])


def _set(kind: str | type[View], found: Any, finalizers: list[str]) -> Write:
    return Write.update(kind, found, {"metadata": {"finalizers": finalizers}})
