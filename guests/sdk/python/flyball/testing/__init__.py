"""Tests of controllers without a cluster or a sandbox: put objects, reconcile a key, and check the writes.

    cluster = Cluster({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
    cluster.reconcile(Marker(), "a")
    assert cluster.written() == ["update v1/Namespace a"]

The plugin's own description is enforced: it reads only what it declares, and writes only with the permissions that it
requests. The cache shows every write at once, as the host's cache does for a plugin's own writes. The server has no schemas:
it neither validates nor defaults objects."""

from __future__ import annotations

import copy
import logging
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Iterator

from ..controller import Controller, Delta, Duration, Key, Outcome, Request, RoutedKey
from ..errors import ApiError
from ..guest import Exported
from ..host import Host, ServedKind
from ..logs import TRACE, HostHandler
from .fake import Fake
from .patches import merge
from .records import Enqueued, Event, Logged, Metric, Written
from .store import id_of, refusal


class Cluster:
    """An API server in memory with the host's other imports. Its clock starts at 2026-01-01T00:00:00Z."""

    def __init__(self, *objects: dict[str, Any]):
        self._fake = Fake()
        for one in objects:
            self.put(one)

    # Actions

    def reconcile(self, controller: Controller, key: str | Key, queue: str = "", attempt: int = 0) -> Outcome | None:
        """Reconciles a key under the controller's description. Returns what it returns and raises what it raises."""
        host, request = self._described(controller), Request(queue, Key.parse(str(key)), attempt)
        with self._logging():
            return controller.reconcile(host, request)

    def call(self, controller: Controller, key: str | Key, queue: str = "", attempt: int = 0) -> Outcome:
        """Reconciles a key as the sandbox does: exceptions are logged and become outcomes."""
        exported = Exported(controller, self._described(controller))
        with self._logging():
            return exported.reconcile(queue, str(key), attempt)

    def route(self, controller: Controller, *deltas: Delta) -> list[RoutedKey]:
        """Routes deltas under the controller's description."""
        host = self._described(controller)
        with self._logging():
            routed = controller.route(host, [*deltas])
        return [one if isinstance(one, RoutedKey) else RoutedKey(one) for one in routed]

    def host(self) -> Host:
        """Returns a host without restrictions, for tests of single steps."""
        self._fake.description = None
        return Host(self._fake)

    def _described(self, controller: Controller) -> Host:
        host = self.host()
        self._fake.description = controller.describe_configured(host).complete()
        return host

    @contextmanager
    def _logging(self) -> Iterator[None]:
        """Records what is logged."""
        root, handler = logging.getLogger(), HostHandler(self._fake)
        level = root.level
        root.addHandler(handler)
        root.setLevel(TRACE)
        try:
            yield
        finally:
            root.removeHandler(handler)
            root.setLevel(level)

    # Setting up

    def put(self, found: dict[str, Any]) -> None:
        """Stores an object with `apiVersion` and `kind` verbatim, in place of an older one. A UID, resource version and
        creation time that it lacks are filled in."""
        self._fake.store.put(found)

    def edit(self, kind: str, namespace: str, name: str, change: dict[str, Any]) -> None:
        """Changes an object like another client, by a merge patch of any of its fields."""
        found = merge(self.object(kind, namespace, name), change)
        self._fake.store.touch(found)
        self._fake.store.objects[(kind, namespace, name)] = found

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Removes an object at once."""
        self._fake.store.remove((kind, namespace, name))

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Deletes an object like another client: with finalizers, it only gets a deletion timestamp."""
        self._fake.store.delete((kind, namespace, name), {})

    def put_live(self, found: dict[str, Any]) -> None:
        """Makes live reads return this object while the cache has another one or none."""
        self._fake.live[id_of(found)] = copy.deepcopy(found)

    def remove_live(self, kind: str, namespace: str, name: str) -> None:
        """Makes live reads not find this object while the cache still has it."""
        self._fake.live[(kind, namespace, name)] = None

    def put_raw(self, path: str, answer: Any) -> None:
        """Sets the answer to a raw GET of this path."""
        self._fake.raw[path] = answer

    def observe_deletion(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Makes the host report the deletion of this object as observed."""
        self._fake.deleted.add((kind, namespace, name, uid))

    def serve(self, kind: str, plural: str, namespaced: bool, *verbs: str, **subresources: list[str]) -> None:
        """Appends a kind to the result of discovery."""
        known = self._fake.catalogue.kinds
        preferred = not any(one.kind.split("/")[:-2] == kind.split("/")[:-2] for one in known)
        known.append(ServedKind(kind, plural, namespaced, preferred, [*verbs], subresources))

    def fail(self, verb: str, kind: str, error: ApiError, skip: int = 0) -> None:
        """Makes a call fail once, after this many others: a verb of a write, or `get` and `list` for live reads, and
        `discover` of the kind ``."""
        self._fake.faults.append([verb, kind, skip, error])

    def set_config(self, key: str, value: str) -> None:
        """Sets the operator's value of a configuration key."""
        self._fake.config[key] = value

    def add_key(self, name: str) -> None:
        """Adds a signing key."""
        self._fake.keys.add(name)

    def add_authority(self, signer: str) -> None:
        """Adds a signer with an authority."""
        self._fake.authorities.add(signer)

    @property
    def now(self) -> datetime:
        """The time of the cluster's clock."""
        return self._fake.store.now

    def set_time(self, time: datetime) -> None:
        """Sets the clock."""
        self._fake.store.now = time

    def advance(self, duration: Duration) -> None:
        """Moves the clock on."""
        self._fake.store.now += duration if isinstance(duration, timedelta) else timedelta(seconds=duration)

    # Checks

    def object(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Returns an object; None if there is none."""
        return copy.deepcopy(self._fake.store.objects.get((kind, namespace, name)))

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """Returns all objects of a kind, in order of namespace and name."""
        return copy.deepcopy(self._fake.store.of_kind(kind))

    def writes(self) -> list[Written]:
        """Returns all writes since the last call of `writes` or `written`, failed ones included."""
        return _take(self._fake.writes)

    def written(self) -> list[str]:
        """Returns the same as lines: `create v1/Pod default/web-1`."""
        return [str(one) for one in self.writes()]

    def live_reads(self) -> list[str]:
        """Returns all live reads since the last call as lines: `list v1/Pod default`."""
        return _take(self._fake.live_reads)

    def events(self) -> list[str]:
        """Returns all events since the last call as lines: `Normal Created created pod web-1`."""
        return [str(one) for one in self.recorded_events()]

    def recorded_events(self) -> list[Event]:
        """Returns the same, unformatted."""
        return _take(self._fake.events)

    def enqueued(self) -> list[Enqueued]:
        """Returns all keys that were enqueued since the last call."""
        return _take(self._fake.enqueued)

    def logged(self) -> list[Logged]:
        """Returns all lines that were logged since the last call."""
        return _take(self._fake.logs)

    def metrics(self) -> list[Metric]:
        """Returns all operations on metrics since the last call."""
        return _take(self._fake.measured)


def delta(watch: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Delta:
    """Returns a delta for `Cluster.route`, from the object's versions before and after."""
    if old is None and new is None:
        raise ValueError("a delta has an old object or a new one")
    kind = "added" if old is None else "deleted" if new is None else "modified"
    return Delta(watch, kind, old, new)


def _take(recorded: list[Any]) -> list[Any]:
    taken = recorded[:]
    recorded.clear()
    return taken


__all__ = ["Cluster", "Enqueued", "Event", "Logged", "Metric", "Written", "delta", "refusal"]
