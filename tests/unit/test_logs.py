# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two forms of a log line."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from rdma_dp.logs import Log, setup


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def written(log_format: str, level: str = "info") -> tuple[Log, io.StringIO]:
    stream = io.StringIO()
    setup(log_format, level, stream)
    return Log().bind(resource="rdma/hca"), stream


def test_text_has_time_level_sentence_and_fields() -> None:
    log, stream = written("text")
    log.warning("a NIC is gone", nic="0000:01:00.0", ids=["a", "b"], count=2, seconds=0.123456)
    line = stream.getvalue()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING a NIC is gone "
        r"resource=rdma/hca nic=0000:01:00\.0 ids=a,b count=2 seconds=0\.123\n",
        line,
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [("two words", '"two words"'), ("", '""'), ("a=b", '"a=b"'), ("a\nb", '"a\\nb"'), (None, "None"), ("ü", "ü")],
)
def test_text_quotes_what_would_not_read_as_one_word(value: object, shown: str) -> None:
    log, stream = written("text")
    log.info("x", value=value)
    assert stream.getvalue().endswith(f" value={shown}\n")


def test_a_sentence_with_line_breaks_stays_one_line() -> None:
    log, stream = written("text")
    log.info("first\nsecond")
    assert stream.getvalue().count("\n") == 1


def test_json_has_the_fields_beside_the_sentence() -> None:
    log, stream = written("json")
    log.error("broken", ids=["a"], path=object)
    line = json.loads(stream.getvalue())
    assert line["level"] == "error"
    assert line["message"] == "broken"
    assert line["resource"] == "rdma/hca"
    assert line["ids"] == ["a"]
    assert "time" in line


def test_level_and_traceback() -> None:
    log, stream = written("json", "warning")
    log.info("not shown")
    log.debug("not shown")
    try:
        raise KeyError("x")
    except KeyError as error:
        log.crash("failed", error, task="nics")
    line = json.loads(stream.getvalue())
    assert "KeyError" in line["traceback"]
    assert line["error"] == "KeyError('x')"


def test_percent_signs_are_only_text() -> None:
    log, stream = written("text")
    log.info("100 %s done")
    assert "100 %s done" in stream.getvalue()
