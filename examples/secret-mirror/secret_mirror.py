"""Copies Secrets to other namespaces, and keeps the copies.

A source is a Secret with the label `secret-mirror.flyball.dev/role=source`. Its annotation `secret-mirror.flyball.dev/to` names
the namespaces of its mirrors, and a namespace allows mirrors by its annotation `secret-mirror.flyball.dev/from`: without the
consent of both sides, who may write Secrets in one namespace could place them in all. A mirror has the source's name, type and
data. It is deleted when its source goes, or when either side changes its mind. A Secret that is no mirror of the source is never
written."""

import logging

from flyball import ApiError, Controller, Key, Mapping, RequeueAfter, View, Write, describe, field, finalizers, labels, view, watch

ROLE = "secret-mirror.flyball.dev/role"
SOURCE, MIRROR = "source", "mirror"
#: On sources: the namespaces to copy to; `*` for all namespaces that allow it.
TO = "secret-mirror.flyball.dev/to"
#: On namespaces: the namespaces whose Secrets may be copied here; `*` for all.
FROM = "secret-mirror.flyball.dev/from"
#: On mirrors: the namespace and the name of the source.
OF = "secret-mirror.flyball.dev/of"

#: Other controllers act on Secrets of these types in any namespace, and would give credentials to the author of the
#: source.
REFUSED_TYPES = {"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"}

#: The queue and the key that enqueue all sources, since any may name a changed namespace.
SOURCES = "sources"
#: Seconds after which it is tried again whether a name is still taken. Such Secrets are not watched.
RETRY_TAKEN = 300
#: Writes that are run at once.
BATCH = 100

log = logging.getLogger(__name__)


@view("v1/Secret", "deletionTimestamp", f"labels['{ROLE}']", f"annotations['{TO}']", f"annotations['{OF}']")
class Secret(View):
    type: str = field("type")
    data: dict = field("data", default={})
    immutable: bool = field("immutable", default=False)


@view("v1/Namespace", "deletionTimestamp", f"annotations['{FROM}']")
class Namespace(View):
    pass


class SecretMirror(Controller):
    def describe(self):
        of, to, consent = (f"metadata.annotations['{name}']" for name in (OF, TO, FROM))
        return (
            describe("secret-mirror", "0.1.0")
            .watch(
                # No other Secret enters the sandbox.
                watch(Secret)
                .label_selector(ROLE)
                .enqueue(Mapping.itself().having_any(to))
                # The annotation of a mirror is the key of its source.
                .enqueue(Mapping.named(of, namespaced=False))
            )
            .watch(
                watch(Namespace)
                .when_at(consent, "metadata.deletionTimestamp")
                .enqueue(Mapping.key(SOURCES).queue(SOURCES))
            )
            .queue("secret-mirror")
            .queue(SOURCES)
            .index("of", Secret, of)
            .permission(Secret, "get", "create", "update", "delete")
        )

    def reconcile(self, host, request):
        if request.queue == SOURCES:
            enqueue_sources(host)
            return None
        key = request.key
        source = host.get(Secret, *key)
        if source is not None and not is_source(source):
            source = None
        found = host.list(Secret, index=("of", str(key)))
        mirrors = {mirror.metadata["namespace"]: mirror for mirror in found if is_mirror(mirror, key)}
        wanted = targets(host, source) if source else set()
        return run(host, source, plan(key, source, mirrors, wanted))


def enqueue_sources(host):
    """Enqueues all sources."""
    for namespace, name, role in host.rows(Secret, ["metadata.namespace", "metadata.name", f"metadata.labels['{ROLE}']"]):
        if role == SOURCE:
            host.queue.add(Key(namespace, name))


def is_source(secret):
    return labels.label(secret, ROLE) == SOURCE and not finalizers.is_deleting(secret)


def is_mirror(secret, key):
    """Whether a Secret is a mirror of the source with this key. A copy of one under another name is its owner's."""
    meta = secret.metadata
    return labels.label(secret, ROLE) == MIRROR and meta["name"] == key.name and meta["namespace"] != key.namespace


def names(text):
    """Returns the names in a list with commas or spaces between."""
    return set((text or "").replace(",", " ").split())


def allows(namespace, source):
    """Whether a namespace, which may not exist, allows mirrors of a source."""
    if namespace is None or finalizers.is_deleting(namespace):
        return False
    return not names(labels.annotation(namespace, FROM)).isdisjoint({"*", source.metadata["namespace"]})


def targets(host, source):
    """Returns the namespaces that a source is to be copied to. Those that do not allow it get an event on the source."""
    own = source.metadata["namespace"]
    wanted = names(labels.annotation(source, TO)) - {own}
    if source.type in REFUSED_TYPES:
        if wanted:
            warn(host, source, "MirrorRefused", f"a Secret of the type {source.type} is not copied")
        return set()
    if "*" in wanted:
        return {found.metadata["name"] for found in host.list(Namespace) if allows(found, source)} - {own}
    allowed = {name for name in wanted if allows(host.get(Namespace, "", name), source)}
    if refused := wanted - allowed:
        message = f"these namespaces do not have the annotation {FROM} with {own}: {some(refused)}"
        warn(host, source, "MirrorRefused", message)
    return allowed


def plan(key, source, mirrors, wanted):
    """Returns the writes, by namespace, that make the mirrors what is wanted."""
    writes = {}
    for namespace in sorted(wanted | mirrors.keys()):
        mirror = mirrors.get(namespace)
        if mirror is None:
            writes[namespace] = Write.create(Secret, namespace, copy_of(source))
        elif finalizers.is_deleting(mirror):
            # Its deletion enqueues the key.
            continue
        elif namespace not in wanted:
            writes[namespace] = Write.delete(Secret, mirror)
        elif mirror.type != source.type or (mirror.immutable and mirror.data != source.data):
            # The API doesn't allow this change. The deletion enqueues the key, and the mirror is then created again.
            writes[namespace] = Write.delete(Secret, mirror)
        elif mirror.data != source.data:
            gone = {name: None for name in mirror.data.keys() - source.data.keys()}
            writes[namespace] = Write.update(Secret, mirror, {"data": {**source.data, **gone}})
    return writes


def copy_of(source):
    """Returns the mirror of a source. Labels and annotations are not copied: they mean something to other controllers."""
    meta = source.metadata
    own = {"name": meta["name"], "labels": {ROLE: MIRROR}, "annotations": {OF: str(Key(meta["namespace"], meta["name"]))}}
    return {"metadata": own, "type": source.type, "data": source.data}


def run(host, source, writes):
    """Runs writes, all of them even if some fail. Raises the first failure that a retry may resolve."""
    results = {}
    items = list(writes.items())
    for at in range(0, len(items), BATCH):
        some_items = items[at : at + BATCH]
        batch = host.batch().extend(write for _, write in some_items)
        results.update(zip((namespace for namespace, _ in some_items), batch.run()))
    errors = {namespace: error for namespace, error in results.items() if isinstance(error, ApiError)}
    written = {"create": [], "update": [], "delete": []}
    for namespace in results.keys() - errors.keys():
        written[writes[namespace].verb].append(namespace)
    for verb, namespaces in written.items():
        if namespaces:
            log.info("%sd mirrors in %s", verb, some(namespaces))
    if source is not None and (kept := written["create"] + written["update"]):
        host.emit(Secret, source, "Normal", "Mirrored", f"wrote mirrors in {some(kept)}")
    taken = {namespace for namespace, error in errors.items() if error.is_already_exists()}
    if taken:
        warn(host, source, "NameTaken", f"a Secret of this name, which is no mirror of it, exists in {some(taken)}")
    for namespace, error in errors.items():
        if namespace not in taken and not is_settled(error, writes[namespace]):
            error.message = f"can't {writes[namespace].verb} the mirror in {namespace}: {error.message}"
            raise error
    return RequeueAfter(RETRY_TAKEN) if taken else None


def is_settled(error, write):
    """Whether nothing is left to do after this failure: a change that enqueues the key is on its way."""
    if write.verb == "delete":
        return error.is_not_found() or error.is_conflict()
    return error.is_namespace_terminating()


def warn(host, source, reason, message):
    host.emit(Secret, source, "Warning", reason, message, once=True)


def some(namespaces, most=10):
    """Returns a text with the first names, for messages."""
    ordered = sorted(namespaces)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(ordered[:most]) + more
