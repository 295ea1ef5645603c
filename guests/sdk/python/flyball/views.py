"""Typed views of objects: dataclasses whose fields are taken from paths of an object.

    @view("apps/v1/Deployment")
    class Deployment:
        metadata: dict
        replicas: int = field("spec.replicas", default=1)
        images: list = field("spec.template.spec.containers[*].image")

A view declares the fields that a watch reads, and is read by `host.get(Deployment, namespace, name)`. Objects that need
no type are plain dicts: `host.get("apps/v1/Deployment", …)`."""

from __future__ import annotations

import copy
import dataclasses
import re
from typing import Any, Callable, ClassVar

_STEP = re.compile(r"\.?([^.\[\]]+)|\[\*\]|\['([^']*)'\]|\[([^=\]]+)=([^\]]*)\]")
_PATH = "flyball.path"


class View:
    """The base of classes that `view` makes. `metadata` is the object's metadata, a dict."""

    KIND: ClassVar[str]
    FIELDS: ClassVar[list[str]]
    metadata: dict[str, Any]

    @classmethod
    def of(cls, found: dict[str, Any]) -> Any:
        """Returns the view of an object."""
        values = {"metadata": found.get("metadata", {})}
        for name, get, default in cls._GETTERS:  # type: ignore[attr-defined]
            value = get(found)
            values[name] = copy.copy(default) if value is None else value
        return cls(**values)


def field(path: str, default: Any = None) -> Any:
    """A field of a view: the value at this path; the default if it is absent or null. A path with `[*]` gives the list of
    all values, which is empty if there are none."""
    if default is None and "[*]" in path:
        default = []
    return dataclasses.field(default_factory=lambda: copy.copy(default), metadata={_PATH: (path, default)})


def view(kind: str, *metadata: str) -> Callable[[type], Any]:
    """Makes a view of a class. `metadata` names the fields of the metadata that are read besides name, namespace, UID and
    resource version, such as `labels`."""

    def make(cls: type) -> type:
        names = {"metadata": dict, **getattr(cls, "__annotations__", {})}
        bases = (cls,) if issubclass(cls, View) else (cls, View)
        body: dict[str, Any] = {"__annotations__": names, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
        body.update({"__doc__": cls.__doc__, "metadata": dataclasses.field(default_factory=dict)})
        body.update((name, vars(cls)[name]) for name in names if name in vars(cls))
        made: Any = dataclasses.dataclass(type(cls.__name__, bases, body))
        paths = [(one.name, *one.metadata[_PATH]) for one in dataclasses.fields(made) if _PATH in one.metadata]
        made.KIND = kind
        made.FIELDS = [f"metadata.{name}" for name in metadata] + [path for _, path, _ in paths]
        made._GETTERS = [(name, getter(path), default) for name, path, default in paths]
        return made

    return make


def kind_of(kind: str | type[View]) -> str:
    """Returns the name of a kind or the kind of a view."""
    return kind if isinstance(kind, str) else kind.KIND


def fields_of(kind: str | type[View]) -> list[str]:
    """Returns the fields of a view; none for the name of a kind."""
    return [] if isinstance(kind, str) else kind.FIELDS


def parser_of(kind: str | type[View]) -> Callable[[dict[str, Any]], Any]:
    """Returns what makes a result of an object: the view's parser, or the identity."""
    return (lambda found: found) if isinstance(kind, str) else kind.of


def meta_of(found: Any) -> dict[str, Any]:
    """Returns the metadata of an object or a view."""
    return found["metadata"] if isinstance(found, dict) else found.metadata


def steps(path: str) -> list[Any]:
    """Parses a field path into steps: a name, `None` for all elements of a list, or a pair of a field and the value that it
    has in an element. Fails with a ValueError."""
    found: list[Any] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise ValueError(f"{path!r} is no field path, such as spec.containers[*].name")
        name, quoted, key, value = match.groups()
        if key is not None:
            found.append((key, value))
        else:
            found.append(quoted if quoted is not None else name)
        at = match.end()
    return found


def getter(path: str) -> Callable[[Any], Any]:
    """Returns a function that returns the value at a path of an object; a list of all values if the path has a `[*]`, and
    None if there is none."""
    if path == ".":
        return lambda found: found
    parsed = steps(path)
    if all(isinstance(step, str) for step in parsed):

        def plain(found: Any) -> Any:
            for step in parsed:
                if not isinstance(found, dict):
                    return None
                found = found.get(step)
            return found

        return plain

    def select(found: Any) -> Any:
        values = [found]
        for step in parsed:
            values = [below for value in values for below in _below(value, step)]
        return (values or None) if None in parsed else next(iter(values), None)

    return select


def _below(value: Any, step: Any) -> list[Any]:
    if isinstance(step, str):
        return [value[step]] if isinstance(value, dict) and value.get(step) is not None else []
    elements = value if isinstance(value, list) else []
    if step is None:
        return elements
    key, wanted = step
    return [one for one in elements if isinstance(one, dict) and one.get(key) == wanted]
