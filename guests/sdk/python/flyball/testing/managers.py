"""Server-side apply: which field manager owns which fields.

There are no schemas: the names of fields decide whether a list is merged by a key (`MERGE_KEYS`), `selector` is atomic, and so
are all other lists. `metadata.managedFields`, which the host never passes on, is not modelled."""

from __future__ import annotations

import copy
import json
from typing import Any

from ..errors import ApiError
from .patches import MERGE_KEYS, identity

#: Steps from an object to one of its parts: a name, or a pair of a key and the JSON of an element's value.
Path = tuple[Any, ...]

_UNOWNED = {
    "name", "namespace", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds",
}  # fmt: skip


class Managers:
    """The owners of an object's fields."""

    def __init__(self) -> None:
        #: The fields by the manager's name, whether it applies, and the subresource.
        self._fields: dict[tuple[str, bool, str], set[Path]] = {}

    def update(self, manager: str, subresource: str, old: Any, new: Any) -> None:
        """Records a write other than an apply: the writer becomes the only owner of what it changed."""
        before, after = _flatten(old or {}), _flatten(new)
        changed = {path for path, value in after.items() if path not in before or before[path] != value}
        for owned in self._fields.values():
            owned &= after.keys()
            owned -= changed
        self._fields.setdefault((manager, False, subresource), set()).update(changed)

    def apply(self, manager: str, subresource: str, live: Any, applied: Any, force: bool) -> Any:
        """Returns an applied configuration merged into the live object. What the manager applied before and does not apply
        now is removed, unless another one owns it. Raises a ConflictError."""
        own = (manager, True, subresource)
        before, wanted = _flatten(live), _flatten(applied)
        conflicts = [
            (other[0], path)
            for other, owned in self._fields.items()
            if other != own
            for path in sorted(owned & wanted.keys(), key=_display)
            if before.get(path, _ABSENT) != wanted[path]
        ]
        if conflicts and not force:
            listed = "".join(f' conflict with "{name}": {_display(path)}' for name, path in conflicts)
            plural = "" if len(conflicts) == 1 else "s"
            raise ApiError.of(409, "Conflict", f"Apply failed with {len(conflicts)} conflict{plural}:{listed}", "refused")
        for other, path in conflicts:
            for name, owned in self._fields.items():
                if name != own and name[0] == other:
                    owned.discard(path)
        dropped = self._fields.get(own, set()) - wanted.keys()
        self._fields[own] = set(wanted)
        merged = _merge("", copy.deepcopy(live), applied)
        for path in sorted(dropped, key=len, reverse=True):
            if not any(one[: len(path)] == path for owned in self._fields.values() for one in owned):
                _remove(merged, path)
        return merged


_ABSENT = object()


def _flatten(found: dict[str, Any]) -> dict[Path, Any]:
    parts: dict[Path, Any] = {}
    for name, value in found.items():
        if name == "metadata":
            for below, inner in value.items():
                if below not in _UNOWNED:
                    _collect((name, below), below, inner, parts)
        elif name not in ("apiVersion", "kind"):
            _collect((name,), name, value, parts)
    return parts


def _collect(path: Path, field: str, value: Any, parts: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value and field != "selector":
        for name, below in value.items():
            _collect((*path, name), name, below, parts)
    elif isinstance(value, list) and value and field in MERGE_KEYS:
        for element in value:
            at = (*path, _step(MERGE_KEYS[field], element))
            parts[at] = None
            if isinstance(element, dict):
                for name, below in element.items():
                    _collect((*at, name), name, below, parts)
    else:
        parts[path] = value


def _step(key: str, element: Any) -> tuple[str, str]:
    return (key, json.dumps(identity(element, key)))


def _merge(field: str, target: Any, applied: Any) -> Any:
    if isinstance(applied, dict) and field != "selector":
        merged = target if isinstance(target, dict) else {}
        for name, value in applied.items():
            merged[name] = _merge(name, merged.get(name), value)
        return merged
    if isinstance(applied, list) and field in MERGE_KEYS:
        key, items = MERGE_KEYS[field], list(target or [])
        for element in applied:
            at = next((at for at, item in enumerate(items) if identity(item, key) == identity(element, key)), None)
            if at is None:
                items.append(copy.deepcopy(element))
            else:
                items[at] = _merge("", items[at], element)
        return items
    return copy.deepcopy(applied)


def _remove(value: Any, path: Path) -> None:
    *above, last = path
    for step in above:
        value = _child(value, step)
        if value is None:
            return
    if isinstance(value, list):
        value[:] = [element for element in value if _step(last[0], element) != last]
    elif isinstance(value, dict):
        value.pop(last, None)


def _child(value: Any, step: Any) -> Any:
    if isinstance(value, list):
        return next((element for element in value if _step(step[0], element) == step), None)
    return value.get(step) if isinstance(value, dict) else None


def _display(path: Path) -> str:
    return "".join(f".{step}" if isinstance(step, str) else f"[{step[0]}={step[1]}]" for step in path)
