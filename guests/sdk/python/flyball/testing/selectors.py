"""Label and field selectors, and the conditions of cached lists."""

from __future__ import annotations

import re
from typing import Any, Callable

from ..errors import ApiError
from ..views import getter

_TERM = re.compile(
    r"\s*(?:(?P<key>[^\s=!,()]+)\s+(?P<set>in|notin)\s*\((?P<values>[^)]*)\)"
    r"|(?P<equals>[^\s=!,()]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s,()]*)"
    r"|!\s*(?P<absent>[^\s=!,()]+)|(?P<exists>[^\s=!,()]+))\s*(?:,|$)"
)

Matches = Callable[[dict[str, Any]], bool]


def labels(text: str) -> Matches:
    """Returns what tells whether the labels of an object match a label selector."""
    terms: list[Matches] = []
    at = 0
    while text and at < len(text):
        match = _TERM.match(text, at)
        if match is None:
            raise ApiError.of(400, "Invalid", f"{text!r} is no label selector")
        terms.append(_term(**match.groupdict()))
        at = match.end()
    return lambda found: all(term(found.get("metadata", {}).get("labels") or {}) for term in terms)


def _term(key: Any, values: Any, equals: Any, operator: Any, value: Any, absent: Any, exists: Any, **rest: Any) -> Matches:
    if key is not None:
        wanted = {one.strip() for one in values.split(",")}
        negated = rest["set"] == "notin"
        return lambda own: (own.get(key) in wanted) != negated
    if equals is not None:
        return lambda own: (own.get(equals) == value) != (operator == "!=")
    if absent is not None:
        return lambda own: absent not in own
    return lambda own: exists in own


def fields(text: str) -> Matches:
    """Returns what tells whether the fields of an object match a field selector."""
    terms = []
    for term in filter(None, text.split(",")):
        path, operator, value = re.split(r"(!=|==?)", term, maxsplit=1)
        terms.append((getter(path.strip()), operator == "!=", value.strip()))
    return lambda found: all((str(get(found) or "") == value) != negated for get, negated, value in terms)


def conditions(pairs: list[tuple[str, str]], index: Callable[[str], str]) -> Matches:
    """Returns what tells whether an object meets the conditions of a query. `index` returns the path of an index."""
    tests = [_condition(name, value, index) for name, value in pairs]
    return lambda found: all(test(found) for test in tests)


def _condition(name: str, value: str, index: Callable[[str], str]) -> Matches:
    def owners(found: dict[str, Any]) -> list[dict[str, Any]]:
        return found["metadata"].get("ownerReferences") or []

    def controllers(found: dict[str, Any]) -> list[str]:
        return [owner["uid"] for owner in owners(found) if owner.get("controller")]

    if name == "labels":
        return labels(value)
    if name == "uid":
        return lambda found: found["metadata"]["uid"] == value
    if name == "owner":
        return lambda found: value in [owner["uid"] for owner in owners(found)]
    if name == "controller":
        return lambda found: value in controllers(found)
    if name == "orphan":
        return lambda found: not controllers(found)
    if name.startswith("index/"):
        get = getter(index(name.removeprefix("index/")))

        def holds(found: dict[str, Any]) -> bool:
            own = get(found)
            return value in own if isinstance(own, list) else own == value

        return holds
    raise ApiError.of(400, "Invalid", f"{name!r} is no condition of a query")
