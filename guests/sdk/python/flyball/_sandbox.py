"""The sandbox side: the world's imports by the bindings that componentize-py makes, and the class `Guest` that it exports."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any, Sequence

from componentize_py_types import Err
from wit_world.exports import guest
from wit_world.imports import (
    clock,
    config,
    discovery,
    events,
    lister,
    log,
    memo,
    metrics,
    queue,
    random,
    reader,
    signer,
    types,
    writer,
)

from . import _python
from ._imports import Page, Result
from .controller import Controller, Delta, Failed, RequeueAfter, Terminal, dumps, millis
from .errors import ApiError
from .guest import Exported, RouteError, parse_object
from .host import Catalogue, Host, ServedKind
from .local import CertificateTemplate
from .writes import Write

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EFFECTS = {types.Effect.NONE: "none", types.Effect.REFUSED: "refused", types.Effect.UNKNOWN: "unknown"}
_LEVELS = {level.name.lower(): level for level in log.Level}
_OPERATIONS = {"add": metrics.add, "set": metrics.set, "observe": metrics.observe}
_TYPES = {kind: kind.name.lower() for kind in guest.DeltaType}


def _error(error: types.Error) -> ApiError:
    retry_after = None if error.retry_after_ms is None else error.retry_after_ms / 1000
    return ApiError.of(error.status, error.reason, error.message, _EFFECTS[error.effect], retry_after)


def _ask(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Err as error:
        raise _error(error.value) from None


def _results(results: list[Any]) -> list[Result]:
    return [_error(one.value) if isinstance(one, Err) else one.value for one in results]


def _query(kind: str, namespace: str, conditions: list[tuple[str, str]]) -> lister.Query:
    return lister.Query(kind, namespace, [lister.Condition(name, value) for name, value in conditions])


def _page(page: lister.Page) -> Page:
    rest = page.rest
    return (page.items, None if rest is None else lambda limit: _page(_ask(lister.next, rest, limit)))


def _document(value: Any) -> bytes:
    return dumps(value) if value else b""


class Sandbox:
    """The imports, answered by the host."""

    def lister_get(self, kind: str, namespace: str, name: str, fields: list[str]) -> bytes | None:
        return _ask(lister.get, kind, namespace, name, fields)

    def lister_list(self, kind: str, namespace: str, conditions: Any, projection: Any, limit: int) -> Page:
        shape, paths = projection
        if shape == "all":
            lowered: Any = lister.Projection_All()
        elif shape == "fields":
            lowered = lister.Projection_Fields(paths)
        else:
            lowered = lister.Projection_Columns(paths)
        return _page(_ask(lister.list, _query(kind, namespace, conditions), lowered, limit))

    def lister_count(self, kind: str, namespace: str, conditions: list[tuple[str, str]]) -> int:
        return _ask(lister.count, _query(kind, namespace, conditions))

    def lister_deletion_observed(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        return lister.deletion_observed(types.ObjectReference(kind, namespace, name, uid))

    def reader_run(self, reads: Sequence[tuple]) -> list[Result]:
        with reader.Batch() as batch:
            for verb, *arguments in reads:
                if verb == "list":
                    kind, namespace, parameters, fields = arguments
                    parameters = [reader.Parameter(name, value) for name, value in parameters]
                    batch.list(kind, namespace, parameters, fields)
                else:
                    getattr(batch, verb)(*arguments)
            return _results(batch.run())

    def discovery_kinds(self) -> Catalogue:
        found = _ask(discovery.kinds)
        kinds = [
            ServedKind(
                one.kind,
                one.plural,
                one.namespaced,
                one.preferred,
                one.verbs,
                {below.name: below.verbs for below in one.subresources},
            )
            for one in found.kinds
        ]
        return Catalogue(kinds, {failure.group_version: failure.message for failure in found.failures})

    def writer_run(self, writes: list[Write], slow_start: int, stop_on_error: bool) -> list[Result]:
        with writer.Batch() as batch:
            for write in writes:
                _add(batch, write)
            if slow_start:
                batch.slow_start(slow_start)
            if stop_on_error:
                batch.stop_on_error()
            return _results(batch.run())

    def events_emit(self, about: tuple[str, str, str, str], type: str, reason: str, message: str, options: Any) -> None:
        events.emit(types.ObjectReference(*about), type, reason, message, _document(options))

    def queue_add(self, name: str, key: str) -> None:
        _ask(queue.add, name, key)

    def queue_add_after(self, name: str, key: str, delay_ms: int) -> None:
        _ask(queue.add_after, name, key, delay_ms)

    def queue_forget(self, name: str, key: str) -> None:
        _ask(queue.forget, name, key)

    def queue_requeues(self, name: str, key: str) -> int:
        return _ask(queue.requeues, name, key)

    def clock_now(self) -> datetime:
        now = clock.now()
        return _EPOCH + timedelta(seconds=now.seconds, microseconds=now.nanoseconds // 1000)

    def random_bytes(self, count: int) -> bytes:
        return random.bytes(count)

    def log_write(self, level: str, message: str, fields: dict[str, str]) -> None:
        log.write(_LEVELS[level], message, [log.Field(name, value) for name, value in fields.items()])

    def log_enabled(self, level: str) -> bool:
        return log.enabled(_LEVELS[level])

    def metrics(self, operation: str, name: str, labels: list[str], value: float) -> None:
        _OPERATIONS[operation](name, labels, float(value))

    def config_get(self, key: str) -> str | None:
        return config.get(key)

    def memo_get(self, key: str) -> tuple[bytes, int] | None:
        entry = memo.get(key)
        return None if entry is None else (entry.value, entry.version)

    def memo_put(self, key: str, expected: int, value: bytes, object_uid: str, ttl_ms: int) -> int:
        return _ask(memo.put, key, expected, value, object_uid, ttl_ms)

    def memo_remove(self, key: str) -> None:
        memo.remove(key)

    def signer_sign_jwt(self, key: str, claims: bytes) -> str:
        return _ask(signer.sign_jwt, key, claims)

    def signer_verify_jwt(self, key: str, token: str) -> bytes:
        return _ask(signer.verify_jwt, key, token)

    def signer_certificate_authority(self, name: str) -> list[bytes]:
        return _ask(signer.certificate_authority, name)

    def signer_sign_certificate(self, name: str, template: CertificateTemplate) -> bytes:
        return _ask(signer.sign_certificate, name, _template(template))


def _add(batch: writer.Batch, write: Write) -> None:
    target = writer.Target(write.kind, write.namespace, write.name, write.subresource)
    options, returns = _document(write.options), write.returns
    if write.verb == "create":
        batch.create(target, dumps(write.body), options, returns)
    elif write.verb == "update":
        batch.update(target, write.resource_version, dumps(write.body), options, returns)
    elif write.verb == "update_status":
        status, metadata = dumps(write.body), _document(write.metadata)
        batch.update_status(target, write.resource_version, status, metadata, options, returns)
    elif write.verb == "patch":
        batch.patch(target, write.patch_type, dumps(write.body), options, returns)
    elif write.verb == "delete":
        batch.delete(target, options, returns)
    elif write.verb == "delete_collection":
        batch.delete_collection(target, write.label_selector, write.field_selector, options, returns)
    else:
        raise ValueError(f"{write.verb!r} is no verb of a write")


def _template(template: CertificateTemplate) -> signer.CertificateTemplate:
    if template.request:
        key: Any = signer.SubjectKey_Request(template.request)
    else:
        key = signer.SubjectKey_PublicKey(template.public_key)
    usages = signer.KeyUsages(0)
    for name in template.key_usages:
        usages |= signer.KeyUsages[name.upper().replace("-", "_")]
    return signer.CertificateTemplate(
        key,
        [[signer.Attribute(oid, value) for oid, value in names] for names in template.subject],
        template.dns_names,
        template.email_addresses,
        template.ip_addresses,
        template.uris,
        usages,
        template.extended_key_usages,
        _time(template.not_before),
        _time(template.not_after),
    )


def _time(time: datetime) -> types.Time:
    return types.Time(max(int(time.timestamp()), 0), 0)


def export(controller: Controller) -> type:
    """Returns the class `Guest` that exports a controller."""
    sandbox = Sandbox()
    exported = Exported(controller, Host(sandbox))

    class Guest:
        def describe(self) -> bytes:
            _python.seal(sandbox)
            return exported.describe()

        def reconcile(self, queue: str, key: str, attempt: int) -> guest.Outcome:
            _python.seal(sandbox)
            _python.seed(sandbox)
            outcome = exported.reconcile(queue, key, attempt)
            if isinstance(outcome, RequeueAfter):
                return guest.Outcome_RequeueAfter(millis(outcome.delay))
            if isinstance(outcome, Failed):
                return guest.Outcome_Failed(outcome.message)
            if isinstance(outcome, Terminal):
                return guest.Outcome_Terminal(outcome.message)
            return guest.Outcome_Done()

        def route(self, deltas: list[guest.Delta]) -> list[guest.RoutedKey]:
            _python.seal(sandbox)
            _python.seed(sandbox)
            lifted = [
                Delta(one.watch, _TYPES[one.delta_type], parse_object(one.old), parse_object(one.new), one.initial)
                for one in deltas
            ]
            try:
                routed = exported.route(lifted)
            except RouteError as error:
                raise Err(str(error)) from None
            return [guest.RoutedKey(one.queue, str(one.key), millis(one.delay)) for one in routed]

    return Guest
