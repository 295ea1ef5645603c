"""Builders for what `Controller.describe` returns.

A description has watches; a watch has mappings, which turn a change of an object into the keys to enqueue:

    describe("replicas", "1.0.0")
        .watch(watch("apps/v1/ReplicaSet", "spec.replicas").enqueue(Mapping.itself()))
        .watch(watch("v1/Pod", "metadata.ownerReferences").enqueue(Mapping.controller("apps/v1/ReplicaSet")))
        .permission("v1/Pod", "create", "delete")
"""

from __future__ import annotations

import re
from typing import Any

from .controller import Duration, millis
from .views import View, fields_of, kind_of

_KIND = re.compile(r"([A-Za-z0-9][A-Za-z0-9.-]*/){1,2}[A-Za-z0-9][A-Za-z0-9.-]*")
_PATTERN = re.compile(rf"\*|[A-Za-z0-9][A-Za-z0-9.-]*/\*|{_KIND.pattern}")


def _kind(kind: str | type[View]) -> str:
    name = kind_of(kind)
    if not _KIND.fullmatch(name):
        raise ValueError(f"{name!r} is not a kind, such as apps/v1/ReplicaSet or v1/Pod")
    return name


class Mapping:
    """The keys that a change of a watched object enqueues. The host applies a mapping to the old and to the new version
    and enqueues the keys of both. All conditions have to hold."""

    def __init__(self, to: str, **parts: Any):
        self.document: dict[str, Any] = {"to": to, **parts}

    @staticmethod
    def itself() -> Mapping:
        """The object itself."""
        return Mapping("itself")

    @staticmethod
    def controller(kind: str | type[View]) -> Mapping:
        """The object's controller, if it is of this kind."""
        return Mapping("controller", kind=_kind(kind))

    @staticmethod
    def owners(kind: str | type[View]) -> Mapping:
        """The object's owners of this kind, whether they control it or not."""
        return Mapping("owner", kind=_kind(kind))

    @staticmethod
    def named(path: str, namespaced: bool = True) -> Mapping:
        """The objects whose names are at this path: in the namespace of the watched object, or cluster-scoped ones."""
        return Mapping("named", path=path, namespaced=namespaced)

    @staticmethod
    def selecting(kind: str | type[View], path: str) -> Mapping:
        """The objects of this kind, in the same namespace, whose selector at the path matches the labels of the watched
        object."""
        return Mapping("selecting", kind=_kind(kind), path=path)

    @staticmethod
    def all_in_namespace(kind: str | type[View]) -> Mapping:
        """All objects of this kind in the same namespace."""
        return Mapping("inNamespace", kind=_kind(kind))

    @staticmethod
    def all_of(kind: str | type[View]) -> Mapping:
        """All objects of this kind."""
        return Mapping("all", kind=_kind(kind))

    @staticmethod
    def namespace() -> Mapping:
        """The namespace of the object."""
        return Mapping("namespace")

    @staticmethod
    def key(key: str) -> Mapping:
        """A constant key."""
        return Mapping("constant", key=key)

    @staticmethod
    def reference() -> Mapping:
        """A reference to the object, for `Request.reference`."""
        return Mapping("reference")

    @staticmethod
    def dependents() -> Mapping:
        """References to all objects, of any watched kind, that name the object as an owner."""
        return Mapping("dependents")

    @staticmethod
    def owner_references(which: str) -> Mapping:
        """References to some of the object's owners: `missing` or `deleting`."""
        return Mapping("ownerReferences", which=which)

    @staticmethod
    def route() -> Mapping:
        """The keys that `Controller.route` returns."""
        return Mapping("route")

    def on(self, *types: str) -> Mapping:
        """Applies only to these types of delta: `added`, `modified`, `deleted`."""
        self.document.setdefault("on", []).extend(types)
        return self

    def orphans(self) -> Mapping:
        """Applies only to objects without a controller."""
        self.document["orphans"] = True
        return self

    def deleting(self) -> Mapping:
        """Applies only to objects that are being deleted."""
        self.document["deleting"] = True
        return self

    def having(self, path: str, value: str) -> Mapping:
        """Applies only to objects whose field at the path is, or contains, this string."""
        self.document.setdefault("having", []).append({"path": path, "value": value})
        return self

    def having_any(self, *paths: str) -> Mapping:
        """Applies only to objects with a string at one of these paths at least."""
        self.document.setdefault("havingAny", []).extend(paths)
        return self

    def unless(self, path: str, value: str | None = None) -> Mapping:
        """Skips deltas whose newest version has this string, or any string, at the path.

        Such objects need no more reconciles. The other conditions hold for a modification if one version meets them.
        """
        unless = {"path": path} if value is None else {"path": path, "value": value}
        self.document.setdefault("unless", []).append(unless)
        return self

    def while_any(self, *kinds: str | type[View]) -> Mapping:
        """Applies only while the cache holds an object of one of these kinds in the namespace of the watched object.

        The plugin must watch the kinds. Changes that are skipped don't come again, so an object of the kinds that is
        created later must enqueue the key by a mapping of its own watch.
        """
        self.document.setdefault("whileAny", []).extend(_kind(kind) for kind in kinds)
        return self

    def of(self, kind: str | type[View]) -> Mapping:
        """Names the kind of the named objects, which the plugin must watch, for `whose` or `missing`. Only for `named`."""
        if self.document["to"] != "named":
            raise ValueError("`of` narrows `named` and no other mapping")
        self.document["kind"] = _kind(kind)
        return self

    def missing(self) -> Mapping:
        """Enqueues only those names that no object of the kind has in the cache. Only for `named`.

        If the object is deleted later, a mapping of its own watch must enqueue it.
        """
        if self.document["to"] != "named":
            raise ValueError("`missing` narrows `named` and no other mapping")
        self.document["missing"] = True
        return self

    def whose(self, path: str, value: str) -> Mapping:
        """Enqueues only those selecting or named objects whose field at the path has this value.

        If the field gets the value later, a mapping of the object's own watch must enqueue it.
        """
        if self.document["to"] not in ("selecting", "named"):
            raise ValueError("`whose` narrows `selecting` and `named`, and no other mapping")
        self.document.setdefault("whose", []).append({"path": path, "value": value})
        return self

    def queue(self, name: str) -> Mapping:
        """Enqueues in this queue instead of the primary one."""
        self.document["queue"] = name
        return self

    def after(self, delay: Duration) -> Mapping:
        """Enqueues after a delay."""
        self.document["delayMs"] = millis(delay)
        return self


class Watch:
    """A kind that a plugin reads. Without a mapping, its changes enqueue nothing."""

    def __init__(self, document: dict[str, Any]):
        self.document = document

    def fields(self, *paths: str) -> Watch:
        """Adds fields; `.` means the whole object."""
        known = self.document.setdefault("fields", [])
        known.extend(path for path in dict.fromkeys(paths) if path not in known)
        return self

    def namespace(self, name: str) -> Watch:
        """Watches only this namespace."""
        self.document["namespace"] = name
        return self

    def label_selector(self, selector: str) -> Watch:
        """Watches only objects whose labels match, as in `app=web,!canary`."""
        self.document["labelSelector"] = selector
        return self

    def field_selector(self, selector: str) -> Watch:
        """Watches only objects whose fields match, as in `metadata.name=kube-root-ca.crt`."""
        self.document["fieldSelector"] = selector
        return self

    def metadata_only(self) -> Watch:
        """Caches only metadata."""
        self.document["metadataOnly"] = True
        return self

    def enqueue(self, mapping: Mapping) -> Watch:
        """Adds a mapping."""
        self.document.setdefault("map", []).append(mapping.document)
        return self

    def when(self, *changes: str) -> Watch:
        """Maps only modifications of these types: `generation`, `labels`. Without any, all modifications are mapped."""
        self.document.setdefault("changes", []).extend(changes)
        return self

    def when_at(self, *paths: str) -> Watch:
        """Maps only modifications at these paths, in addition to those of `when`."""
        return self.when(*({"path": path} for path in paths))  # type: ignore[arg-type]


def watch(kind: str | type[View], *fields: str) -> Watch:
    """A watch of a kind with these fields, and those of the view if the kind is one. Name, namespace, UID and resource
    version are always read."""
    return Watch({"kind": _kind(kind)}).fields(*fields_of(kind), *fields)


def watch_discovered(
    period: Duration,
    verbs: tuple[str, ...] = (),
    excluded: tuple[str, ...] = (),
    config: str = "",
    errors: str = "",
) -> Watch:
    """A watch of the metadata of all kinds that the API server serves, with all of these verbs. The host repeats discovery
    with this period, or that of the configuration key `config`. `errors` is a counter that failures increment."""
    kinds: dict[str, Any] = {"periodMs": millis(period)}
    optional = {"verbs": [*verbs], "except": [_kind(kind) for kind in excluded], "config": config, "errors": errors}
    kinds.update((name, value) for name, value in optional.items() if value)
    return Watch({"discovered": kinds})


class Description:
    """The description of a plugin. `document` is what the host reads."""

    def __init__(self, name: str, version: str):
        self.document: dict[str, Any] = {"format": 1, "name": name, "version": version, "queues": []}

    def watch(self, watch: Watch) -> Description:
        """Adds a watch."""
        return self._add("watches", watch.document)

    def queue(
        self,
        name: str,
        *,
        base_delay: Duration | None = None,
        max_delay: Duration | None = None,
        max_retries: int | None = None,
        qps: float | None = None,
        burst: int | None = None,
    ) -> Description:
        """Adds a queue. What is not given has client-go's defaults. The first queue is the primary one; without any, it
        has the plugin's name."""
        settings = {
            "name": name,
            "baseDelayMs": None if base_delay is None else millis(base_delay),
            "maxDelayMs": None if max_delay is None else millis(max_delay),
            "maxRetries": max_retries,
            "qps": qps,
            "burst": burst,
        }
        return self._add("queues", {name: value for name, value in settings.items() if value is not None})

    def index(self, name: str, kind: str | type[View], path: str) -> Description:
        """Adds an index of a watched kind by the value of a field."""
        return self._add("indexes", {"name": name, "kind": _kind(kind), "path": path})

    def ticker(self, key: str, period: Duration, queue: str = "", config: str = "") -> Description:
        """Adds a key that is enqueued periodically. The configuration key `config` takes precedence over the period."""
        ticker = {"key": key, "periodMs": millis(period)}
        if queue:
            ticker["queue"] = queue
        if config:
            ticker["config"] = config
        return self._add("tickers", ticker)

    def permission(self, kind: str | type[View], *verbs: str) -> Description:
        """Requests verbs on a kind; `*` means all kinds."""
        return self.permission_on(kind, "", *verbs)

    def permission_on(self, kind: str | type[View], subresource: str, *verbs: str) -> Description:
        """Requests verbs on a subresource of a kind."""
        name = kind_of(kind)
        if not _PATTERN.fullmatch(name):
            raise ValueError(f"{name!r} is neither a kind, such as v1/Pod, nor `*` nor `GROUP/*`")
        permission: dict[str, Any] = {"kind": name, "verbs": sorted(set(verbs))}
        if subresource:
            permission["subresource"] = subresource
        return self._add("permissions", permission)

    def in_namespaces(self, *namespaces: str) -> Description:
        """Restricts the permission that was asked for last to these namespaces."""
        permissions = self.document.get("permissions")
        if not permissions:
            raise ValueError("in_namespaces follows a permission: ask for one first")
        known = permissions[-1].get("namespaces", [])
        permissions[-1]["namespaces"] = sorted({*known, *namespaces})
        return self

    def import_(self, *imports: str) -> Description:
        """Requests imports that need a grant: `cloud`, `discovery`, `signer`, `raw`."""
        for name in imports:
            if name not in self.document.setdefault("imports", []):
                self.document["imports"].append(name)
        return self

    def config(self, key: str, default: str | None = None, help: str = "") -> Description:
        """Declares a configuration key with its default and help text."""
        value = {"help": help}
        if default is not None:
            value["default"] = default
        self.document.setdefault("config", {})[key] = value
        return self

    def counter(self, name: str, help: str, *labels: str) -> Description:
        """Declares a counter."""
        return self._metric(name, help, labels, "counter")

    def gauge(self, name: str, help: str, *labels: str) -> Description:
        """Declares a gauge."""
        return self._metric(name, help, labels, "gauge")

    def sum(self, name: str, help: str, *labels: str) -> Description:
        """Declares a gauge that shows the sum of what each key has set last. Setting 0 removes the key's part."""
        return self._metric(name, help, labels, "sum")

    def histogram(self, name: str, help: str, buckets: list[float], *labels: str) -> Description:
        """Declares a histogram with these upper bounds."""
        return self._metric(name, help, labels, {"histogram": buckets})

    def concurrency(self, keys: int) -> Description:
        """Sets how many keys are reconciled concurrently; 1 by default."""
        self.document["concurrency"] = keys
        return self

    def memo_schema(self, schema: int) -> Description:
        """Sets the schema of the memo. A reload with another schema empties the memo."""
        self.document["memoSchema"] = schema
        return self

    def complete(self) -> dict[str, Any]:
        """Returns the document, with a queue of the plugin's name if none was added."""
        queues = self.document["queues"] or [{"name": self.document["name"]}]
        return {**self.document, "queues": queues}

    def _metric(self, name: str, help: str, labels: tuple[str, ...], type: Any) -> Description:
        return self._add("metrics", {"name": name, "help": help, "labels": [*labels], "type": type})

    def _add(self, list_name: str, entry: Any) -> Description:
        self.document.setdefault(list_name, []).append(entry)
        return self


def describe(name: str, version: str = "0.1.0") -> Description:
    """Starts a description. `name` is the controller's canonical name: lower-case letters, digits and dashes."""
    return Description(name, version)
