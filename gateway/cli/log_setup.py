"""Logs on standard error: a line for each thing that happened, as text for people or as JSON for collectors."""

from __future__ import annotations

import json
import logging
import re
import sys

from gateway.cli.console import LOG_FORMAT, printable, printable_lines, timestamp

LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
"""The levels from -q (0) over the default (1) to -vv (3)."""
DEFAULT_LEVEL = 1

CHATTY = ("kafka", "py4j", "websockets", "slixmpp")
"""Libraries whose information is about themselves; heard from -vv on."""

BUSY = ("kafka.net.selector", "quic")
"""Complain of each tenth of a second that a busy machine did not give them, and of each packet of a peer that is wrong;
heard from -vv on, too."""

LENGTHY = "kafka"
"""Its clients complain of every try, and librdkafka of many at once."""
REPEAT_SECONDS = 5.0

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        line = printable(
            f"{timestamp(record.created)} {record.levelname.lower()} {record.name}: {record.getMessage()}{fields}"
        )
        return f"{line}\n{printable_lines(self.formatException(record.exc_info))}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class LibraryFilter(logging.Filter):
    """Keeps what one library says short.

    Of lines that differ in numbers only, the first in REPEAT_SECONDS passes. A fault is the end of its line, without
    the library's traceback: it reads from connections that it closes meanwhile, and tells that at length.
    """

    def __init__(self, library: str) -> None:
        super().__init__()
        self._library = library
        self._seen_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] != self._library:
            return True
        if record.exc_info:
            record.msg, record.args = f"{record.getMessage()}: {record.exc_info[1]!r}", None
            record.exc_info = None
        line = re.sub(r"\d+", "", record.getMessage())
        self._seen_at = {message: at for message, at in self._seen_at.items() if record.created - at < REPEAT_SECONDS}
        is_new = line not in self._seen_at
        self._seen_at.setdefault(line, record.created)
        return is_new


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """Returns what was given as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def set_up(verbosity: int, log_format: str) -> None:
    """Sets up the log. `verbosity` is how often -v was given, less how often -q."""
    LOG_FORMAT.set(log_format)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    handler.addFilter(LibraryFilter(LENGTHY))
    at = min(max(DEFAULT_LEVEL + verbosity, 0), len(LEVELS) - 1)
    logging.basicConfig(level=LEVELS[at], handlers=[handler], force=True)
    for library in CHATTY:
        logging.getLogger(library).setLevel(max(LEVELS[at], logging.WARNING) if at < len(LEVELS) - 1 else logging.DEBUG)
    for library in BUSY:
        logging.getLogger(library).setLevel(logging.ERROR if at < len(LEVELS) - 1 else logging.DEBUG)
