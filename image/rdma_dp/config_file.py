# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the config file: YAML or JSON, by content, plain or inside Helm values or a ConfigMap manifest.

Two exceptions tell what can't be read (ConfigUnreadable: exit code 2) from what is wrong in what was read
(core.config.ConfigInvalid: exit code 1).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

from rdma_dp import documents
from rdma_dp.core import config, config_keys
from rdma_dp.core.model import Config
from rdma_dp.core.problems import ConfigInvalid, Problem, Steps, in_order_of, kind, path, show
from rdma_dp.documents import Document

MAX_BYTES = 1024 * 1024  # what a ConfigMap can hold


class ConfigUnreadable(Exception):
    """The file can't be read. The text goes on from the file's name: "does not exist"."""


def load(file: str | os.PathLike[str]) -> Config:
    """The config in the file, normalised. Raises ConfigUnreadable or ConfigInvalid."""
    return parse_text(_decoded(_read(file)))


def parse_text(text: str, first_line: int = 1) -> Config:
    """The config in the text of a file. Raises ConfigInvalid, whose problems carry line numbers where possible.

    ``first_line`` is the number of the text's first line in the file; 0: lines are not to be counted.
    """
    if not text.strip():
        raise ConfigInvalid([Problem("", "is empty", "write at least configList with one pool")])
    document = documents.read(text)
    try:
        return _of_document(document)
    except ConfigInvalid as error:
        if not first_line:
            raise
        lines = documents.line_finder(document, text)
        numbered = [
            problem if problem.line else dataclasses.replace(problem, line=_shifted(lines(problem.steps), first_line))
            for problem in error.problems
        ]
        raise ConfigInvalid(numbered) from None


def _shifted(line: int, first_line: int) -> int:
    return line + first_line - 1 if line else 0


def _of_document(document: Document) -> Config:
    value = document.value
    if isinstance(value, Mapping):
        if value.get("kind") == "ConfigMap":
            return _of_configmap(document)
        if "apiVersion" in value and "kind" in value:
            message = f"is a manifest of kind {show(value['kind'])}, not the plugin's config"
            raise ConfigInvalid([Problem("", message, "give the config itself, or the ConfigMap that holds it")])
        if "config" in value and not any(str(key).lower() == "configlist" for key in value):
            return _of_helm_values(document)
        if "rdmaSharedDevicePlugin" in value:
            message = "is a key of NVIDIA's network operator, not of the plugin's config"
            hint = "give what stands in its config key: the JSON with configList"
            place: Steps = ("rdmaSharedDevicePlugin",)
            raise ConfigInvalid([Problem(path(place), message, hint, place)])
    return _of_plain(document, value, ())


def _of_plain(document: Document, value: object, place: Steps) -> Config:
    """The config that is ``value``, found at ``place`` of the document.

    What the parser can't see (a key given twice, a number that was meant as text) comes on top of what it finds.
    """
    mistakes = tuple(documents.mistakes(value, config_keys.remedy))
    told = {problem.steps for problem in mistakes}
    try:
        found = config.parse(value)
        problems: tuple[Problem, ...] = ()
    except ConfigInvalid as error:
        problems = tuple(problem for problem in error.problems if problem.steps not in told)
    if not problems and not mistakes:
        return found
    merged = in_order_of(value, (*problems, *mistakes))
    # Paths are those of the config, as everywhere; the steps lead through the whole document, for the line.
    raise ConfigInvalid([dataclasses.replace(problem, steps=place + problem.steps) for problem in merged])


def _of_helm_values(document: Document) -> Config:
    """``config:`` of the values of today's plugin's chart; all else there is the chart's business."""
    value = document.value["config"]
    if isinstance(value, str):
        return _embedded(document, value, ("config",))
    if not isinstance(value, Mapping):
        hint = "put periodicUpdateInterval and configList under it"
        raise ConfigInvalid([Problem("config", f"must be a mapping, not {kind(value)}", hint, ("config",))])
    return _of_plain(document, value, ("config",))


def _of_configmap(document: Document) -> Config:
    """The one file of a ConfigMap that can be a config."""
    data = document.value.get("data")
    files = data if isinstance(data, Mapping) else {}
    names = [name for name in files if str(name).endswith((".json", ".yaml", ".yml"))] or list(files)
    if "config.json" in files:
        names = ["config.json"]
    if len(names) != 1:
        message = f"holds {len(names)} files that could be the config" if names else "the ConfigMap holds no file"
        raise ConfigInvalid([Problem("data", message, "name the config config.json", ("data",))])
    place: Steps = ("data", names[0])
    text = files[names[0]]
    if not isinstance(text, str):
        hint = f"write {names[0]}: | and indent the config below it"
        raise ConfigInvalid([Problem(path(place), f"must be text, not {kind(text)}", hint, place)])
    return _embedded(document, text, place)


def _embedded(document: Document, text: str, place: Steps) -> Config:
    try:
        return parse_text(text, documents.first_line_of_block(document, place))
    except ConfigInvalid as error:
        # Where lines inside the text can't be counted, the line on which the text stands has to do.
        raise ConfigInvalid([dataclasses.replace(problem, steps=place) for problem in error.problems]) from None


def _read(file: str | os.PathLike[str]) -> bytes:
    try:
        with open(file, "rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise ConfigUnreadable("is a directory; name the file in it") from None
    except FileNotFoundError:
        raise ConfigUnreadable("does not exist") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigUnreadable(f"can't be read: {reason}") from None
    if len(content) > MAX_BYTES:
        raise ConfigUnreadable(f"has more than {MAX_BYTES} bytes, so it is not the plugin's config")
    return content


def _decoded(content: bytes) -> str:
    """UTF-8, with or without a byte order mark."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigInvalid([Problem("", "is encoded as UTF-16", "save it as UTF-8")])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"is not UTF-8: byte 0x{content[error.start]:02x} is no part of a character"
        raise ConfigInvalid([Problem("", message, "save it as UTF-8", line=line)]) from None
