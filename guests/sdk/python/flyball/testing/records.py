"""What a fake cluster records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..controller import Key
from ..errors import ApiError


@dataclass(frozen=True)
class Written:
    """A write. As text: `create v1/Pod default/web-1`, or `update v1/Pod/status default/web-1: … (409 Conflict)`."""

    #: The API's verb: `create`, `update`, `patch`, `delete`, `deletecollection`.
    verb: str
    kind: str
    namespace: str
    #: The name, also one that the server generated.
    name: str
    subresource: str
    #: The object, the change, the new status, or the patch.
    body: Any
    options: dict[str, Any]
    error: ApiError | None

    def __str__(self) -> str:
        below = f"/{self.subresource}" if self.subresource else ""
        name = str(Key(self.namespace, self.name)) if self.name else self.namespace
        failure = f": {self.error}" if self.error else ""
        return f"{self.verb} {self.kind}{below} {name}{failure}"


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
    #: Its action, related object, annotations, and the resource version of the object that it is about.
    options: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.type} {self.reason} {self.message}"


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


class Metric(NamedTuple):
    """An operation on a metric: `add`, `set` or `observe`."""

    operation: str
    name: str
    labels: list[str]
    value: float
