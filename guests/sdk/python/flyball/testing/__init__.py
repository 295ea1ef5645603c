"""Tests of controllers without a cluster or a sandbox: put objects, reconcile a key, and check the writes.

    cluster = Cluster({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
    cluster.reconcile(Marker(), "a")
    assert cluster.written() == ["update v1/Namespace a"]

The controller runs in the test's process. The cluster is in memory, in a process that the module starts: the program flyball,
which the variable FLYBALL names or which is on the PATH.

The plugin's own description is enforced: it reads only what it declares, and writes only with the permissions that it
requests. The cache shows every write at once, as the host's cache does for a plugin's own writes. Objects of kinds that
`Cluster.define` defines are pruned, defaulted and validated by their schemas, except for rules in CEL; objects of other
kinds are neither checked nor defaulted."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Iterator

from ..controller import Controller, Delta, Duration, Key, Outcome, Request, RoutedKey, millis
from ..errors import ApiError
from ..guest import Exported
from ..host import Host
from ..logs import TRACE, HostHandler
from .records import Enqueued, Event, Logged, Measured, Signed, Written
from .replay import replay, replay_fixed
from .server import document_of
from .world import World, instant


class Cluster:
    """An API server in memory with the host's other imports. Its clock starts at 2026-01-01T00:00:00Z."""

    def __init__(self, *objects: dict[str, Any], define: str | os.PathLike[str] | None = None):
        self._world = World()
        if define is not None:
            self.define(define)
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
        self._world.call("restrict", description=None)
        return Host(self._world)

    def _described(self, controller: Controller) -> Host:
        host = self.host()
        self._world.call("restrict", description=controller.describe_configured(host).complete())
        return host

    @contextmanager
    def _logging(self) -> Iterator[None]:
        """Records what is logged."""
        root, handler = logging.getLogger(), HostHandler(self._world)
        level = root.level
        root.addHandler(handler)
        root.setLevel(TRACE)
        try:
            yield
        finally:
            root.removeHandler(handler)
            root.setLevel(level)

    # Setting up

    def define(self, file: str | os.PathLike[str]) -> None:
        """Reads CustomResourceDefinitions from a file in YAML, such as the project's `crd.yaml`. From then on, objects of
        their kinds are pruned, defaulted and validated as by the API server. A field that a write has and the schema lacks
        is a warning in the log and in the line of the write. An object that the test puts must fit, and the fields that the
        controller declares must be in the schema."""
        self._world.call("define", file=os.path.abspath(file))

    def put(self, found: dict[str, Any]) -> None:
        """Stores an object with `apiVersion` and `kind` verbatim, in place of an older one. A UID, resource version and
        creation time that it lacks are filled in, and for a custom resource the generation."""
        self._world.call("put", object=found)

    def edit(self, kind: str, namespace: str, name: str, change: dict[str, Any]) -> None:
        """Changes an object like another client, by a merge patch of any of its fields."""
        self._world.call("edit", kind=kind, namespace=namespace, name=name, patch=change)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Removes an object at once."""
        self._world.call("remove", kind=kind, namespace=namespace, name=name)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Deletes an object like another client: with finalizers or a grace period, it only gets a deletion time."""
        self._world.call("delete", kind=kind, namespace=namespace, name=name)

    def put_live(self, found: dict[str, Any]) -> None:
        """Makes live reads return this object while the cache has another one or none."""
        self._world.call("put-live", object=found)

    def remove_live(self, kind: str, namespace: str, name: str) -> None:
        """Makes live reads not find this object while the cache still has it."""
        self._world.call("remove-live", kind=kind, namespace=namespace, name=name)

    def put_raw(self, path: str, answer: Any) -> None:
        """Sets the answer to a raw GET of this path."""
        self._world.call("put-raw", path=path, answer=answer)

    def observe_deletion(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Makes the host report the deletion of this object as observed."""
        self._world.call("observe-deletion", kind=kind, namespace=namespace, name=name, uid=uid)

    def serve(self, kind: str, plural: str, namespaced: bool, *verbs: str, **subresources: list[str]) -> None:
        """Appends a kind to the result of discovery. The first version of a group is the preferred one."""
        below = [*subresources.items()]
        self._world.call("serve", kind=kind, plural=plural, namespaced=namespaced, verbs=verbs, subresources=below)

    def fail_discovery(self, group_version: str, message: str) -> None:
        """Adds a group version to the failures of discovery."""
        self._world.call("fail-discovery", groupVersion=group_version, message=message)

    def fail(self, verb: str, kind: str, error: ApiError, nth: int = 1) -> None:
        """Makes the `nth` call from now fail: a verb of a write (`patch` for a server-side apply) and a kind such as
        `v1/Pod` or `v1/Pod/status`, `get` and `list` for live reads, `count`, `raw` with a path, and `discover` of the
        kind ``. Another verb is an error."""
        self._world.call("fail", verb=verb, kind=kind, nth=nth, error=document_of(error))

    def answer(self, kind: str, answer: dict[str, Any]) -> None:
        """Returns this object to the next create of its kind, which stores nothing: a SubjectAccessReview with its
        status."""
        self._world.call("answer", kind=kind, answer=answer)

    def limit_rate(self, calls: int, window: Duration) -> None:
        """Limits writes and live reads to this many in each window of the cluster's clock. Others fail with 429."""
        self._world.call("limit-rate", calls=calls, windowMs=millis(window))

    def set_config(self, key: str, value: str) -> None:
        """Sets the operator's value of a configuration key."""
        self._world.call("set-config", key=key, value=value)

    def add_key(self, name: str) -> None:
        """Adds a signing key. Its tokens are placeholders."""
        self._world.call("add-key", name=name)

    def add_authority(self, signer: str) -> None:
        """Adds a signer with an authority. Its certificates are placeholders."""
        self._world.call("add-authority", signer=signer)

    @property
    def now(self) -> datetime:
        """The time of the cluster's clock."""
        return self._world.clock_now()

    def set_now(self, time: datetime) -> None:
        """Sets the clock."""
        self._world.call("set-now", time=instant(time))

    def advance(self, duration: Duration) -> None:
        """Moves the clock on."""
        self.set_now(self.now + (duration if isinstance(duration, timedelta) else timedelta(seconds=duration)))

    # Checks

    def object(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Returns an object; None if there is none."""
        return self._world.call("object", kind=kind, namespace=namespace, name=name)

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """Returns all objects of a kind, in order of namespace and name."""
        return self._world.call("objects", kind=kind)

    def writes(self) -> list[Written]:
        """Returns all writes since the last call of `writes` or `written`, failed ones included."""
        return [Written.of(one) for one in self._world.call("writes")]

    def written(self) -> list[str]:
        """Returns the same as lines: `create v1/Pod default/web-1`."""
        return [str(one) for one in self.writes()]

    def live_reads(self) -> list[str]:
        """Returns all live reads since the last call as lines: `list v1/Pod default`."""
        return self._world.call("live-reads")

    def events(self) -> list[str]:
        """Returns all events since the last call as lines: `Normal Created created pod web-1`."""
        return [str(one) for one in self.recorded_events()]

    def recorded_events(self) -> list[Event]:
        """Returns the same, unformatted."""
        return [Event.of(one) for one in self._world.call("events")]

    def enqueued(self) -> list[Enqueued]:
        """Returns all keys that were enqueued since the last call."""
        return [Enqueued(one["queue"], one["key"], one["delayMs"]) for one in self._world.call("enqueued")]

    def logged(self) -> list[Logged]:
        """Returns all lines that were logged since the last call."""
        return [Logged(one["level"], one["message"], dict(one["fields"])) for one in self._world.call("logs")]

    def metrics(self) -> list[Measured]:
        """Returns all operations on metrics since the last call."""
        return [Measured(**one) for one in self._world.call("metrics")]

    def signed(self) -> list[Signed]:
        """Returns all tokens that were signed so far."""
        return [Signed(**one) for one in self._world.call("signed")]


def refusal(status: int, reason: str, message: str = "") -> ApiError:
    """Returns an error as the API server answers it, for `Cluster.fail`."""
    effect = "refused" if status < 500 else "unknown"
    return ApiError.of(status, reason, message or f"the test refuses this: {reason}", effect)


def delta(watch: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Delta:
    """Returns a delta for `Cluster.route`, from the object's versions before and after."""
    if old is None and new is None:
        raise ValueError("a delta has an old object or a new one")
    kind = "added" if old is None else "deleted" if new is None else "modified"
    return Delta(watch, kind, old, new)


__all__ = ["Cluster", "Enqueued", "Event", "Logged", "Measured", "Signed", "Written", "delta", "refusal", "replay", "replay_fixed"]
