"""The records of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import ApiError
from .server import error_of


@dataclass(frozen=True)
class Written:
    """A write. As text: `create v1/Pod default/web-1`, `update v1/Pod/status default/web-1: … (409 Conflict)`, or
    `create a.b/v1/C d/e: warning: unknown field "spec.txt"`."""

    #: The API's verb: `create`, `update`, `patch`, `delete`, `deletecollection`.
    verb: str
    kind: str
    namespace: str
    #: The name, including one that the server generated.
    name: str
    subresource: str
    #: `json`, `merge`, `strategic` or `apply`; None if the write isn't a patch.
    patch_type: str | None
    #: The object, the change or the patch; for a status, an object with `status`.
    body: Any
    options: dict[str, Any]
    #: The server's warnings, such as `unknown field "spec.txt"` for a field that it dropped.
    warnings: list[str]
    error: ApiError | None
    line: str

    def __str__(self) -> str:
        return self.line

    @classmethod
    def of(cls, record: dict[str, Any]) -> Written:
        """Returns the server's record."""
        error, patch_type = record.pop("error"), record.pop("patchType")
        return cls(**record, patch_type=patch_type, error=None if error is None else error_of(error))


@dataclass(frozen=True)
class Event:
    """An event. As text: `Normal Created created pod web-1`."""

    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    message: str
    #: The event's action, related object, annotations, and the resource version of the object that it is about.
    options: dict[str, Any]
    line: str

    def __str__(self) -> str:
        return self.line

    @classmethod
    def of(cls, record: dict[str, Any]) -> Event:
        """Returns the server's record."""
        about = record.pop("about")
        return cls(**{name: about[name] for name in ("kind", "namespace", "name", "uid")}, **record)


class Enqueued(NamedTuple):
    """A key that was enqueued."""

    queue: str
    key: str
    delay_ms: int = 0


class Logged(NamedTuple):
    """A line of the log."""

    level: str
    message: str
    fields: dict[str, str]


class Measured(NamedTuple):
    """An operation on a metric: `add`, `set` or `observe`."""

    operation: str
    name: str
    labels: list[str]
    value: float


class Signed(NamedTuple):
    """A token that the host signed."""

    key: str
    claims: dict[str, Any]
    token: str
