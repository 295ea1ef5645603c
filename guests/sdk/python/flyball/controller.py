"""The class that a controller derives from, and the types of its methods."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Union

if TYPE_CHECKING:
    from .description import Description
    from .host import Host

#: A duration: a timedelta, or seconds.
Duration = Union[timedelta, int, float]

_MOST_MILLIS = 2**32 - 1


def millis(duration: Duration) -> int:
    """Returns a duration in milliseconds, rounded up, at most 49 days."""
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    return min(max(-int(-seconds * 1000 // 1), 0), _MOST_MILLIS)


class Key(NamedTuple):
    """A key that names an object: `namespace/name`, or `name` if it is cluster-scoped."""

    #: Empty if the object is cluster-scoped.
    namespace: str
    #: The object's name; or the whole key if it does not name an object.
    name: str

    @classmethod
    def parse(cls, text: str) -> Key:
        """Parses a key. Every text is valid: without a slash it is only a name."""
        namespace, slash, name = text.partition("/")
        return cls(namespace, name) if slash else cls("", text)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Reference(NamedTuple):
    """Names an object of any kind."""

    #: The kind, as in `apps/v1/Deployment`.
    kind: str
    #: Empty if the object is cluster-scoped.
    namespace: str
    name: str
    #: Empty if it is not known.
    uid: str = ""

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Parses a key of the mappings that enqueue references. Fails with a ValueError for any other key."""
        parts = [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]
        if len(parts) not in (5, 6):
            raise ValueError(f"{text!r} is no reference, such as apps/v1/ReplicaSet/NAMESPACE/NAME/UID")
        return cls("/".join(parts[:-3]), *parts[-3:])


@dataclass(frozen=True)
class Request:
    """A key to reconcile."""

    #: The queue that the key came from.
    queue: str
    key: Key
    #: Number of failures of this key since it last succeeded.
    attempt: int = 0

    @property
    def namespace(self) -> str:
        return self.key.namespace

    @property
    def name(self) -> str:
        return self.key.name

    def reference(self) -> Reference:
        """Parses the key as a reference, for mappings that enqueue references. Fails with a ValueError."""
        return Reference.parse(str(self.key))


class Outcome:
    """How a reconcile ended. `None` stands for `Done()`."""


@dataclass(frozen=True)
class Done(Outcome):
    """Nothing more to do. Resets the key's backoff."""


@dataclass(frozen=True)
class RequeueAfter(Outcome):
    """As `Done`; the key is reconciled again after this time."""

    delay: Duration


@dataclass(frozen=True)
class Failed(Outcome):
    """The key is retried with backoff. An exception does the same, and is logged with its traceback."""

    message: str


@dataclass(frozen=True)
class Terminal(Outcome):
    """No retry can help: reported, and not retried until something changes. `TerminalError` does the same."""

    message: str


@dataclass(frozen=True)
class Delta:
    """A change of an object, for `Controller.route`."""

    #: The watch's kind; for a discovery watch, the object's kind.
    watch: str
    #: `added`, `modified` or `deleted`.
    type: str
    #: The object before the change, reduced to the declared fields; None if it was added. If it was added and deleted
    #: since the last call, this is its last version.
    old: dict[str, Any] | None
    #: The object after the change; None if it was deleted.
    new: dict[str, Any] | None
    #: Whether the delta belongs to the initial list of the watch.
    initial: bool = False


@dataclass(frozen=True)
class RoutedKey:
    """A key that `Controller.route` enqueues."""

    key: Key | str
    #: The queue; the primary one if empty.
    queue: str = ""
    delay: Duration = 0


class Controller:
    """A controller. `flyball.export` makes a guest of it.

    Its methods must not depend on state between calls: the host runs many instances at once, and creates and drops
    them at any time."""

    def describe(self) -> Description:
        """Describes what the controller watches and needs."""
        raise NotImplementedError("a controller describes itself: define `describe`")

    def describe_configured(self, host: Host) -> Description:
        """The description under the operator's configuration, if it depends on it. Only the configuration (without
        declared defaults) and the log of the host are available."""
        return self.describe()

    def reconcile(self, host: Host, request: Request) -> Outcome | None:
        """Brings the cluster to the state that the key's object asks for. Exceptions are retried with backoff, but for
        TerminalError."""
        raise NotImplementedError("a controller reconciles keys: define `reconcile`")

    def route(self, host: Host, deltas: list[Delta]) -> list[RoutedKey | Key]:
        """Turns changes into keys, for watches that map to `route`."""
        return []


def dumps(value: Any) -> bytes:
    """Returns a value as JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
