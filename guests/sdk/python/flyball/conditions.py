"""Conditions of an object's status: a list of dicts, as the API holds them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from .times import rfc3339


def get(conditions: list[dict[str, Any]], type: str) -> dict[str, Any] | None:
    """Returns the condition of this type; None if there is none."""
    return next((one for one in conditions if one.get("type") == type), None)


def is_true(conditions: list[dict[str, Any]], type: str) -> bool:
    """Whether the condition of this type is `True`."""
    return (get(conditions, type) or {}).get("status") == "True"


def condition(
    type: str,
    status: str | bool,
    reason: str,
    message: str = "",
    observed_generation: int | None = None,
) -> dict[str, Any]:
    """Returns a condition. `status` is a bool, or `True`, `False` or `Unknown`."""
    made: dict[str, Any] = {"type": type, "status": str(status), "reason": reason, "message": message}
    if observed_generation is not None:
        made["observedGeneration"] = observed_generation
    return made


def set(conditions: list[dict[str, Any]], new: dict[str, Any], now: datetime) -> bool:
    """Sets a condition in place, as apimachinery's SetStatusCondition does: `lastTransitionTime` changes only if the status
    does. Returns whether anything changed."""
    old = get(conditions, new["type"])
    kept = None
    if old is not None and old.get("status") == new["status"]:
        kept = old.get("lastTransitionTime")
    new = {**new, "lastTransitionTime": kept or new.get("lastTransitionTime") or rfc3339(now)}
    if old == new:
        return False
    if old is None:
        conditions.append(new)
    else:
        conditions[conditions.index(old)] = new
    return True


def remove(conditions: list[dict[str, Any]], type: str) -> bool:
    """Removes the condition of this type. Returns whether it existed."""
    kept = [one for one in conditions if one.get("type") != type]
    existed = len(kept) != len(conditions)
    conditions[:] = kept
    return existed
