"""Labels, annotations and label selectors."""

from __future__ import annotations

from typing import Any

from .views import meta_of


def label(found: Any, name: str, default: str | None = None) -> str | None:
    """Returns a label of an object."""
    return (meta_of(found).get("labels") or {}).get(name, default)


def annotation(found: Any, name: str, default: str | None = None) -> str | None:
    """Returns an annotation of an object."""
    return (meta_of(found).get("annotations") or {}).get(name, default)


def selector(source: dict[str, Any]) -> str:
    """Returns a LabelSelector of the API, or a plain map of labels, as text for a list. An empty one selects everything."""
    if not any(name in source for name in ("matchLabels", "matchExpressions")):
        return ",".join(f"{name}={value}" for name, value in sorted(source.items()))
    terms = [f"{name}={value}" for name, value in sorted((source.get("matchLabels") or {}).items())]
    for one in source.get("matchExpressions") or []:
        terms.append(_term(one["key"], one["operator"], one.get("values") or []))
    return ",".join(terms)


def _term(key: str, operator: str, values: list[str]) -> str:
    if operator in ("In", "NotIn"):
        return f"{key} {operator.lower()} ({','.join(values)})"
    if operator in ("Exists", "DoesNotExist"):
        return key if operator == "Exists" else f"!{key}"
    raise ValueError(f"{operator!r} is no operator of a label selector")
