"""Replaces the parts of Python's standard library that call WASI, which traps in the sandbox without a readable message.

The clock and randomness are the host's, standard output is its log, and files don't exist. While the component is built, all
of them are Python's own, so that a module can read files when it is imported. The first call of an instance seals it."""

from __future__ import annotations

import builtins
import datetime
import io
import linecache
import logging
import os
import random
import sys
import time
import warnings
from typing import Any, Callable

from ._imports import Imports
from .logs import install


class _State:
    #: None until the instance is sealed.
    imports: Imports | None = None
    seeded = False


def seal(imports: Imports) -> None:
    """Replaces the rest on the first call of an instance."""
    if _State.imports is not None:
        return
    _State.imports = imports
    install(imports)
    sys.stdout, sys.stderr = _Lines(imports, "info"), _Lines(imports, "warn")  # type: ignore[assignment]
    sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") != "PathFinder"]
    linecache.checkcache = lambda filename=None: None
    linecache.updatecache = lambda filename, module_globals=None, **_: []
    linecache.lazycache = lambda filename, module_globals: False
    warnings.showwarning = _show_warning


def seed(imports: Imports) -> None:
    """Seeds Python's generator once in each instance. A description can't be random, so `describe` does not."""
    if not _State.seeded:
        _State.seeded = True
        random.seed(imports.random_bytes(16))


def _replace(module: Any, name: str, function: Callable[..., Any]) -> None:
    """Replaces a function, also for modules that import its name from now on. Until the instance is sealed, the original is
    called."""
    original = getattr(module, name)

    def replacement(*arguments: Any, **options: Any) -> Any:
        if _State.imports is None:
            return original(*arguments, **options)
        return function(*arguments, **options)

    replacement.__name__ = name
    setattr(module, name, replacement)


def _now() -> datetime.datetime:
    return _State.imports.clock_now()  # type: ignore[union-attr]


def _random(count: int) -> bytes:
    return _State.imports.random_bytes(count)  # type: ignore[union-attr]


def _seconds() -> float:
    return _now().timestamp()


def _nanoseconds() -> int:
    return int(_now().timestamp() * 1e6) * 1000


def _sleep(seconds: float) -> None:
    raise RuntimeError("a controller can't sleep: return RequeueAfter")


def _no_file(path: Any, *_: Any, **__: Any) -> Any:
    raise FileNotFoundError(2, "the sandbox has no files: read it when the module is imported", str(path))


_datetime = datetime.datetime


class _Kind(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _datetime)


class _Datetime(_datetime, metaclass=_Kind):
    """The class `datetime`, with the host's clock."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        if _State.imports is None:
            return _datetime.now(tz)
        now = _now()
        return now.astimezone(tz) if tz is not None else now.replace(tzinfo=None)

    @classmethod
    def utcnow(cls) -> Any:
        return cls.now()

    @classmethod
    def today(cls) -> Any:
        return cls.now()


def _show_warning(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
    logging.getLogger("py.warnings").warning("%s: %s (%s:%d)", category.__name__, message, filename, lineno)


class _Lines(io.TextIOBase):
    """A text stream that writes each line to the host's log."""

    def __init__(self, imports: Imports, level: str):
        self._imports = imports
        self._level = level
        self._pending = ""

    def write(self, text: str) -> int:
        *lines, self._pending = (self._pending + text).split("\n")
        for line in lines:
            self._imports.log_write(self._level, line, {})
        return len(text)

    def flush(self) -> None:
        if self._pending:
            self.write("\n")


for _name in ("time", "monotonic", "perf_counter"):
    _replace(time, _name, _seconds)
    _replace(time, f"{_name}_ns", _nanoseconds)
_replace(time, "sleep", _sleep)
_replace(os, "urandom", _random)
_replace(random, "_urandom", _random)
for _module, _names in (
    (builtins, ["open"]),
    (io, ["open"]),
    (os, ["open", "stat", "lstat", "listdir", "scandir", "mkdir"]),
):
    for _name in _names:
        _replace(_module, _name, _no_file)
datetime.datetime = _Datetime  # type: ignore[misc]
