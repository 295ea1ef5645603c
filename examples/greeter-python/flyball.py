"""The functions that a controller in Python needs: cached and live reads of objects as dicts, single writes, events,
and a `Guest` that catches exceptions."""

import json
import traceback

from componentize_py_types import Err
from wit_world.exports.guest import Outcome_Done, Outcome_Failed
from wit_world.imports import events, lister, reader, writer
from wit_world.imports.types import Error, ObjectReference


class ApiError(Exception):
    """An error of the API server or the host."""

    def __init__(self, error: Error):
        super().__init__(f"{error.message} ({error.status} {error.reason})")
        self.status = error.status
        self.reason = error.reason
        self.effect = error.effect


def get(kind, namespace, name):
    """Returns the cached object with the declared fields; None if it does not exist."""
    try:
        found = lister.get(kind, namespace, name, [])
    except Err as error:
        raise ApiError(error.value) from None
    return None if found is None else json.loads(found)


def live_object(kind, namespace, name, fields=()):
    """A read of an object from the API server, for `run_live`. Without fields, it reads all of them."""
    return lambda batch: batch.get(kind, namespace, name, list(fields))


def live_list(kind, namespace, parameters=None, fields=()):
    """A read of a list object, for `run_live`, with these fields of each item. The parameters are the API's, such as
    `labelSelector`."""
    pairs = [reader.Parameter(name, value) for name, value in (parameters or {}).items()]
    return lambda batch: batch.list(kind, namespace, pairs, list(fields))


def run_live(*reads):
    """Runs live reads concurrently. Returns one result for each, in their order: a dict or an `ApiError`."""
    with reader.Batch() as batch:
        for read in reads:
            read(batch)
        results = batch.run()
    return [ApiError(one.value) if isinstance(one, Err) else json.loads(one.value) for one in results]


def reference(kind, meta):
    """Names the object of this kind that was read with this metadata, for `emit`."""
    return {"kind": kind, "namespace": meta.get("namespace", ""), "name": meta["name"], "uid": meta["uid"]}


def emit(about, event_type, reason, message, action="", related=None, annotations=None):
    """Emits an event about an object. The type is `Normal` or `Warning`. `action` is what was done, as one CamelCase
    word; `related` refers to a second object that the event concerns."""
    options = {"action": action, "annotations": annotations or {}}
    if related is not None:
        options["related"] = related
    events.emit(ObjectReference(**about), event_type, reason, message, _bytes(options))


def create(kind, namespace, body):
    """Creates an object."""
    _write(lambda batch: batch.create(_target(kind, namespace, ""), _bytes(body), b"", []))


def update(kind, meta, change):
    """Updates the object that was read with this metadata by a JSON merge patch."""
    target = _target(kind, meta["namespace"], meta["name"])
    _write(lambda batch: batch.update(target, meta["resourceVersion"], _bytes(change), b"", []))


def delete(kind, meta):
    """Deletes the object that was read with this metadata, with its UID as a precondition."""
    target = _target(kind, meta["namespace"], meta["name"])
    options = _bytes({"preconditions": {"uid": meta["uid"]}})
    _write(lambda batch: batch.delete(target, options, []))


def guest(describe, reconcile):
    """Returns the class `Guest` that exports a controller: `describe() -> dict` and `reconcile(namespace, name)`.

    It catches all exceptions, because one that escapes would end the instance."""

    class Guest:
        def describe(self):
            return _bytes(describe())

        def reconcile(self, queue, key, attempt):
            namespace, _, name = key.rpartition("/")
            try:
                reconcile(namespace, name)
            except ApiError as error:
                return Outcome_Failed(str(error))
            except BaseException:
                return Outcome_Failed(traceback.format_exc())
            return Outcome_Done()

        def route(self, deltas):
            return []

    return Guest


def _write(add):
    with writer.Batch() as batch:
        add(batch)
        result = batch.run()[0]
    if isinstance(result, Err):
        raise ApiError(result.value)


def _target(kind, namespace, name):
    return writer.Target(kind, namespace, name, "")


def _bytes(body):
    return json.dumps(body).encode()
