"""The host's functions for a controller: reads, writes, events, the clock and the other imports."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Iterator

from .errors import ApiError
from .reads import Live
from .local import Memo, Metrics, Queue, Signer
from .views import View, fields_of, kind_of, meta_of, parser_of
from .writes import Batch, Write

if TYPE_CHECKING:
    from ._imports import Imports


@dataclass(frozen=True)
class ServedKind:
    """A kind that the API server serves, in one version."""

    #: The kind, as in `apps/v1/Deployment`.
    kind: str
    #: The kind's name in paths: `deployments`.
    plural: str
    namespaced: bool
    #: Whether this is the version that the server prefers.
    preferred: bool
    verbs: list[str]
    #: The verbs of each subresource.
    subresources: dict[str, list[str]]


@dataclass(frozen=True)
class Catalogue:
    """The result of discovery."""

    #: In the server's order: within a group, the preferred version first.
    kinds: list[ServedKind]
    #: The message of each group version whose discovery failed.
    failures: dict[str, str]


#: The class below has a method `list`, which hides the type.
_List = list


class Host:
    """The host. The sandbox creates it, and `flyball.testing.Cluster` in tests."""

    def __init__(self, imports: Imports):
        self._imports = imports
        self.live = Live(imports)
        self.queue = Queue(imports)
        self.metrics = Metrics(imports)
        self.memo = Memo(imports)
        self.signer = Signer(imports)

    # Cached reads

    def get(self, kind: str | type[View], namespace: str, name: str, *fields: str) -> Any:
        """Returns the cached object of this name: a dict, or the view; None if there is none. Without fields, a dict has all
        that the plugin declared for the kind."""
        found = self._imports.lister_get(kind_of(kind), namespace, name, [*fields_of(kind), *fields])
        return None if found is None else parser_of(kind)(json.loads(found))

    def list(self, kind: str | type[View], namespace: str = "", *fields: str, **conditions: Any) -> Iterator[Any]:
        """Iterates over the cached objects of a kind, in order of namespace and name. Without a namespace, in all. The
        conditions, which must all hold:

        - `labels`: a label selector as text, such as `app=web,!canary`;
        - `index`: a pair of the name of an index and a value, or a list of pairs;
        - `uid`, `owner`, `controller`: the UID of the object, of one of its owners, of its controller;
        - `orphans=True`: the object has no controller.

        The kind `*` means all kinds of discovery watches."""
        names = [*fields_of(kind), *fields]
        return map(parser_of(kind), self._pages(kind, namespace, ("fields", names) if names else ("all", []), conditions))

    def rows(
        self, kind: str | type[View], columns: _List[str], namespace: str = "", **conditions: Any
    ) -> Iterator[_List[Any]]:
        """Iterates over the values at these paths of each object, as `list`. It is faster for many objects."""
        return self._pages(kind, namespace, ("columns", columns), conditions)

    def count(self, kind: str | type[View], namespace: str = "", **conditions: Any) -> int:
        """Returns the number of objects. No object crosses into the sandbox."""
        return self._imports.lister_count(kind_of(kind), namespace, _conditions(conditions))

    def deletion_observed(self, kind: str | type[View], namespace: str, name: str, uid: str) -> bool:
        """Whether the deletion of this object was observed; false means unknown."""
        return self._imports.lister_deletion_observed(kind_of(kind), namespace, name, uid)

    def _pages(self, kind: Any, namespace: str, projection: Any, conditions: dict[str, Any]) -> Iterator[Any]:
        page = self._imports.lister_list(kind_of(kind), namespace, _conditions(conditions), projection, 0)
        while True:
            items, rest = page
            yield from json.loads(items)
            if rest is None:
                return
            page = rest(0)

    # Writes

    def write(self, write: Write) -> Any:
        """Runs a write. Returns the fields that it asks for; None if it asks for none. Raises an ApiError."""
        result = self.batch().add(write).run()[0]
        if isinstance(result, ApiError):
            raise result
        return result

    def create(self, kind: str | type[View], namespace: str, body: Any) -> None:
        """Creates an object. Its metadata has a `name` or a `generateName`."""
        self.write(Write.create(kind, namespace, body))

    def update(self, kind: str | type[View], found: Any, change: Any) -> None:
        """Updates an object that was read by a JSON merge patch. Raises a ConflictError if it has changed since. The host
        builds the whole object from its cache if the watch declares all fields (`.`); otherwise it reads the object first,
        for which the plugin needs the verb `get`."""
        self.write(Write.update(kind, found, change))

    def update_status(self, kind: str | type[View], found: Any, status: Any) -> None:
        """Replaces the whole status of an object that was read. Raises a ConflictError if it has changed since."""
        self.write(Write.update_status(kind, found, status))

    def patch(self, kind: str | type[View], namespace: str, name: str, patch_type: str, patch: Any) -> None:
        """Patches an object. The type is `json`, `merge`, `strategic` or `apply`."""
        self.write(Write.patch(kind, namespace, name, patch_type, patch))

    def apply(self, kind: str | type[View], body: dict[str, Any], field_manager: str, force: bool = False) -> None:
        """Applies a configuration (server-side apply). Raises a ConflictError if another manager owns a field with another
        value, unless `force` takes it over."""
        self.write(Write.apply(kind, body, field_manager, force))

    def delete(self, kind: str | type[View], found: Any) -> None:
        """Deletes the object that was read. Raises a ConflictError if its name belongs to another object, and a
        NotFoundError if there is none."""
        self.write(Write.delete(kind, found))

    def batch(self, slow_start: int = 0, stop_on_error: bool = False) -> Batch:
        """Returns a batch of writes that the host runs concurrently."""
        return Batch(self._imports, slow_start, stop_on_error)

    # Other imports

    def emit(
        self,
        kind: str | type[View],
        about: Any,
        type: str,
        reason: str,
        message: str,
        *,
        action: str = "",
        related: tuple[str | type[View], Any] | None = None,
        annotations: dict[str, str] | None = None,
        reporting_controller: str = "",
        once: bool = False,
    ) -> None:
        """Emits an event about an object that was read. The type is `Normal` or `Warning`; `related` is the kind of a second
        object and the object. `reporting_controller` makes it an event of `events.k8s.io/v1`, which needs an action. `once` drops the event if the plugin has emitted the same one, about the same object, within the
        last hour. Never fails and never waits."""
        meta = meta_of(about)
        options: dict[str, Any] = {}
        if action:
            options["action"] = action
        if annotations:
            options["annotations"] = annotations
        if related is not None:
            options["related"] = dict(zip(("kind", "namespace", "name", "uid"), _reference(*related)))
        if reporting_controller:
            options["reportingController"] = reporting_controller
        if once:
            options["once"] = True
        if meta.get("resourceVersion"):
            options["resourceVersion"] = meta["resourceVersion"]
        self._imports.events_emit(_reference(kind, about), type, reason, message, options)

    def kinds(self) -> Catalogue:
        """Returns what the API server serves, at most one second old. Needs the import `discovery`."""
        return self._imports.discovery_kinds()

    def now(self) -> datetime:
        """Returns the current time, in UTC."""
        return self._imports.clock_now()

    def random_bytes(self, count: int) -> bytes:
        """Returns random bytes, for names and jitter; never for cryptographic keys."""
        return self._imports.random_bytes(count)

    def random(self) -> random.Random:
        """Returns a generator with a seed of the host. Python's own has the same seed in every instance."""
        return random.Random(self.random_bytes(16))

    def config(self, key: str, default: str | None = None) -> str | None:
        """Returns the operator's value of a configuration key, or else its declared default."""
        found = self._imports.config_get(key)
        return default if found is None else found


def _reference(kind: str | type[View], about: Any) -> tuple[str, str, str, str]:
    meta = meta_of(about)
    return (kind_of(kind), meta.get("namespace", ""), meta["name"], meta.get("uid", ""))


def _conditions(conditions: dict[str, Any]) -> list[tuple[str, str]]:
    made: _List[tuple[str, str]] = []
    for name, value in conditions.items():
        if name == "index":
            pairs = [value] if isinstance(value, tuple) else value
            made.extend((f"index/{index}", wanted) for index, wanted in pairs)
        elif name == "orphans":
            made.extend([("orphan", "")] if value else [])
        elif name in ("labels", "uid", "owner", "controller"):
            made.append((name, value))
        else:
            raise TypeError(f"{name!r} is no condition of a list")
    return made
