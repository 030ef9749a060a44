# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin's log: one line per event, a sentence plus fields, as text or as JSON, on stderr.

Text: ``2026-12-01T12:00:00.123Z INFO registered with kubelet resource=rdma/hca devices=1000``
JSON: ``{"time": ..., "level": "info", "message": "registered with kubelet", "resource": "rdma/hca", "devices": 1000}``
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import IO, Any

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")


class Log:
    """A logger whose methods take the event's fields as keywords."""

    def __init__(self, name: str = "rdma_dp", **fields: object) -> None:
        self._logger = logging.getLogger(name)
        self._fields = fields

    def bind(self, **fields: object) -> Log:
        """The same logger with fields that every line carries."""
        return Log(self._logger.name, **{**self._fields, **fields})

    def debug(self, message: str, **fields: object) -> None:
        """For whoever debugs the plugin."""
        self._write(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: object) -> None:
        """Something happened that belongs into the story of the node."""
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """Something an operator should look at; the plugin goes on."""
        self._write(logging.WARNING, message, fields)

    def error(self, message: str, **fields: object) -> None:
        """Something is broken."""
        self._write(logging.ERROR, message, fields)

    def crash(self, message: str, error: BaseException, **fields: object) -> None:
        """A defect of the plugin itself: the only lines that carry a traceback."""
        self._write(logging.ERROR, message, {**fields, "error": repr(error)}, error)

    def _write(self, level: int, message: str, fields: dict[str, object], error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", message, extra={"fields": {**self._fields, **fields}}, exc_info=error)


def setup(log_format: str, level: str, stream: IO[str] | None = None) -> None:
    """Sends everything, what libraries log included, to the stream (default stderr)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Json() if log_format == "json" else _Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("rdma_dp").setLevel(level.upper())
    # It reports every selector it chooses at debug, and nothing that we do not report better.
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _time(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        words = [_time(record), record.levelname, record.getMessage().replace("\n", "; ")]
        words += [f"{key}={_quoted(value)}" for key, value in _fields(record).items()]
        if record.exc_info:
            words.append("\n" + self.formatException(record.exc_info))
        return " ".join(words)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {"time": _time(record), "level": record.levelname.lower(), "message": record.getMessage()}
        line |= _fields(record)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _quoted(value: object) -> str:
    """Quoted when it would not read as one word otherwise."""
    if isinstance(value, float):
        return f"{value:.3g}"
    text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(c in text for c in ' "=\n') else text
