"""The exports of a component: a controller's methods behind the world's, with every exception caught.

An exception that escapes ends the instance without a readable message. Here it is logged with its traceback, and the call
fails with its type, text, file and line."""

from __future__ import annotations

import json
import logging
from types import TracebackType
from typing import Any

from .controller import (
    Controller,
    Delta,
    Done,
    Failed,
    Key,
    Outcome,
    Request,
    RoutedKey,
    Terminal,
    dumps,
)
from .errors import ApiError, TerminalError
from .host import Host

log = logging.getLogger("flyball")

#: The most frames of a traceback that are logged. A longer traceback keeps its innermost and outermost frames.
MOST_FRAMES = 24


class Exported:
    """A controller as plain functions: keys and documents in, outcomes out."""

    def __init__(self, controller: Controller, host: Host):
        self._controller = controller
        self._host = host

    def describe(self) -> bytes:
        """Returns the description. An exception is logged, and makes the description empty, which the host refuses."""
        try:
            return dumps(self._controller.describe_configured(self._host).complete())
        except BaseException as error:
            _log_failure("describe", error)
            return b""

    def reconcile(self, queue: str, key: str, attempt: int) -> Outcome:
        """Reconciles a key. Never raises."""
        try:
            outcome = self._controller.reconcile(self._host, Request(queue, Key.parse(key), attempt))
            if outcome is None:
                return Done()
            if not isinstance(outcome, Outcome):
                raise TypeError(f"reconcile returned {outcome!r}, which is no Outcome")
            return outcome
        except TerminalError as error:
            return Terminal(str(error))
        except ApiError as error:
            log.debug("reconcile failed", exc_info=error)
            return Failed(str(error))
        except BaseException as error:
            return Failed(_log_failure("reconcile", error))

    def route(self, deltas: list[Delta]) -> list[RoutedKey]:
        """Routes deltas. Raises RouteError alone."""
        try:
            routed = self._controller.route(self._host, deltas)
            return [one if isinstance(one, RoutedKey) else RoutedKey(one) for one in routed]
        except BaseException as error:
            raise RouteError(_log_failure("route", error)) from None


class RouteError(Exception):
    """Routing failed, with a sentence for people."""


def _log_failure(call: str, error: BaseException) -> str:
    summary = f"{describe_exception(error)}{_place(error.__traceback__)}"
    log.error("%s failed: %s", call, summary, extra={"fields": {"traceback": traceback_of(error)}})
    return summary


def describe_exception(error: BaseException) -> str:
    """Returns the type and the text of an exception."""
    try:
        text = str(error)
    except BaseException:
        text = "(its text can't be formatted)"
    name = type(error).__qualname__
    return f"{name}: {text}" if text else name


def traceback_of(error: BaseException) -> str:
    """Returns the traceback of an exception and of those that it was raised from. Unlike `traceback`, it reads no files: the
    sandbox has none."""
    parts = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = _frames(current.__traceback__)
        parts.append("\n".join([describe_exception(current), *(f"  at {frame}" for frame in _cut(frames[::-1]))]))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "\ncaused by ".join(parts)


def _frames(traceback: TracebackType | None) -> list[str]:
    frames = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if traceback.tb_frame.f_globals.get("__name__") != __name__:
            # Python 3.10 has no qualified names.
            name = getattr(code, "co_qualname", code.co_name)
            frames.append(f"{_file(code.co_filename)}:{traceback.tb_lineno} in {name}")
        traceback = traceback.tb_next
    return frames


def _cut(frames: list[str]) -> list[str]:
    if len(frames) <= MOST_FRAMES:
        return frames
    half = MOST_FRAMES // 2
    return [*frames[:half], f"{len(frames) - 2 * half} more", *frames[-half:]]


def _place(traceback: TracebackType | None) -> str:
    """The innermost line of the controller itself, or else of what it called."""
    frames = _frames(traceback)
    own = [frame for frame in frames if not frame.startswith(("flyball/", "/python/"))]
    return f" ({(own or frames)[-1]})" if frames else ""


def _file(path: str) -> str:
    """A path in the sandbox as in the project. Componentizing mounts the folders of the path as `/0`, `/1` and so on."""
    first, _, rest = path.lstrip("/").partition("/")
    return rest if rest and first.isdigit() else path


def parse_object(found: bytes | None) -> dict[str, Any] | None:
    """Parses an object of a delta."""
    return None if found is None else json.loads(found)
