"""The API's patch types, as far as tests of controllers need them. They return a new value and change no argument."""

from __future__ import annotations

import copy
from typing import Any

from ..errors import ApiError

#: The keys by which lists are merged; empty for lists of plain values. Other lists are replaced as a whole.
MERGE_KEYS = {
    "ownerReferences": "uid",
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "secrets": "name",
    "volumeMounts": "mountPath",
    "hostAliases": "ip",
    "finalizers": "",
}


def merge(target: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def strategic(target: Any, patch: Any) -> Any:
    """A strategic merge patch, with `$patch: delete`, `$patch: replace` and `$deleteFromPrimitiveList`."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, dict) and patch.get("$patch") != "replace" else {}
    for name, value in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            field = name.partition("/")[2]
            merged[field] = [one for one in merged.get(field) or [] if one not in value]
        elif name.startswith("$"):
            continue
        elif value is None:
            merged.pop(name, None)
        elif name in MERGE_KEYS and isinstance(value, list):
            merged[name] = _merge_list(merged.get(name) or [], MERGE_KEYS[name], value)
        else:
            merged[name] = strategic(merged.get(name), value)
    return merged


def _merge_list(items: list[Any], key: str, patch: list[Any]) -> list[Any]:
    merged = list(items)
    for change in patch:
        at = next((at for at, item in enumerate(merged) if identity(item, key) == identity(change, key)), None)
        if isinstance(change, dict) and change.get("$patch") == "delete":
            merged = [item for item in merged if identity(item, key) != identity(change, key)]
        elif at is None:
            merged.append(copy.deepcopy(change))
        else:
            merged[at] = strategic(merged[at], change)
    return merged


def identity(item: Any, key: str) -> Any:
    """Returns what tells an element of a merged list from others."""
    return item.get(key) if key and isinstance(item, dict) else item


def json_patch(target: Any, operations: Any) -> Any:
    """A JSON patch (RFC 6902)."""
    if not isinstance(operations, list):
        raise _invalid("a JSON patch is a list")
    document = copy.deepcopy(target)
    for one in operations:
        document = _operate(document, one)
    return document


def _operate(document: Any, one: dict[str, Any]) -> Any:
    operation, path = one.get("op"), one.get("path", "")
    if operation == "test":
        found = _walk(document, _pointer(path), missing=None)
        if found != one.get("value"):
            raise _invalid(f"the test of {path} failed")
        return document
    if operation in ("copy", "move"):
        value = copy.deepcopy(_walk(document, _pointer(one.get("from", ""))))
        if operation == "move":
            document = _operate(document, {"op": "remove", "path": one["from"]})
        return _operate(document, {"op": "add", "path": path, "value": value})
    *above, last = _pointer(path)
    parent = _walk(document, above)
    value = copy.deepcopy(one.get("value"))
    if isinstance(parent, list):
        _operate_list(parent, operation, last, value, path)
    elif not isinstance(parent, dict) or (operation in ("remove", "replace") and last not in parent):
        raise _invalid(f"{operation} {path}: the path does not exist")
    elif operation in ("add", "replace"):
        parent[last] = value
    elif operation == "remove":
        del parent[last]
    else:
        raise _invalid(f"{operation!r} is no operation of a JSON patch")
    return document


def _operate_list(items: list[Any], operation: Any, last: str, value: Any, path: str) -> None:
    at = len(items) if last == "-" else int(last) if last.isdigit() else -1
    if operation == "add" and 0 <= at <= len(items):
        items.insert(at, value)
    elif operation == "replace" and 0 <= at < len(items):
        items[at] = value
    elif operation == "remove" and 0 <= at < len(items):
        del items[at]
    else:
        raise _invalid(f"{operation} {path}: the path does not exist")


_RAISE = object()


def _walk(document: Any, parts: list[str], missing: Any = _RAISE) -> Any:
    for part in parts:
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        elif missing is _RAISE:
            raise _invalid(f"the path /{'/'.join(parts)} does not exist")
        else:
            return missing
    return document


def _pointer(path: str) -> list[str]:
    if not path.startswith("/"):
        raise _invalid(f"{path!r} is no path of a JSON patch")
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _invalid(message: str) -> ApiError:
    return ApiError.of(422, "Invalid", message, "refused")
