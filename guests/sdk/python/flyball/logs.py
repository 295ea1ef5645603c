"""Python's `logging` over the host's log. The host adds the plugin's name, the key and the time."""

from __future__ import annotations

import logging
from typing import Any

from ._imports import Imports
from .guest import traceback_of

#: The level below `DEBUG`.
TRACE = 5

_LEVELS = [(logging.ERROR, "error"), (logging.WARNING, "warn"), (logging.INFO, "info"), (logging.DEBUG, "debug")]
#: The attributes of every record. Others come from `extra` and become fields of the line.
_STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "fields"}


def level_of(number: int) -> str:
    """Returns the host's level for a level of `logging`."""
    return next((name for least, name in _LEVELS if number >= least), "trace")


class HostHandler(logging.Handler):
    """Writes records to the host's log. What a caller passes as `extra` becomes fields of the line."""

    def __init__(self, imports: Imports):
        super().__init__()
        self._imports = imports

    def emit(self, record: logging.LogRecord) -> None:
        level = level_of(record.levelno)
        if not self._imports.log_enabled(level):
            return
        fields = {name: str(value) for name, value in vars(record).items() if name not in _STANDARD}
        fields.update(getattr(record, "fields", {}))
        if record.exc_info and isinstance(record.exc_info[1], BaseException):
            fields["traceback"] = traceback_of(record.exc_info[1])
        try:
            message = record.getMessage()
        except Exception as error:
            message = f"{record.msg} (can't be formatted: {error})"
        self._imports.log_write(level, message, fields)


class _Record(logging.LogRecord):
    """A record that asks neither for the time nor for processes and threads, which the sandbox lacks."""

    def __init__(
        self, name: str, level: int, pathname: str, lineno: int, msg: Any, args: Any, exc_info: Any,
        func: Any = None, sinfo: Any = None, **_: Any,
    ):  # fmt: skip
        if len(args) == 1 and isinstance(args[0], dict) and args[0]:
            args = args[0]
        filename = pathname.rpartition("/")[2]
        self.__dict__.update(
            name=name, msg=msg, args=args, levelname=logging.getLevelName(level), levelno=level, pathname=pathname,
            filename=filename, module=filename.partition(".")[0], exc_info=exc_info, exc_text=None, stack_info=sinfo,
            lineno=lineno, funcName=func, created=0.0, msecs=0.0, relativeCreated=0.0, thread=None, threadName=None,
            processName=None, process=None, taskName=None,
        )  # fmt: skip


def install(imports: Imports) -> None:
    """Makes the host's log the only handler of the root logger. Levels are the host's to filter."""
    logging.addLevelName(TRACE, "TRACE")
    logging.setLogRecordFactory(_Record)
    logging.raiseExceptions = False
    root = logging.getLogger()
    root.handlers[:] = [HostHandler(imports)]
    root.setLevel(TRACE)
