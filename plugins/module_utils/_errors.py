# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The failures that a module reports as one sentence. Private to this collection."""

from __future__ import annotations

from typing import Any, Dict


class Problem(Exception):
    """A failure for the person at the keyboard: what is wrong, where, what to do. ``facts`` go into the result."""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts: Dict[str, Any] = facts


class ConnectionOptionsError(Problem):
    """The connection options, the environment or the kubeconfig don't lead to an API server."""


class InvalidValue(Problem):
    """A module option has a value that can't be meant."""


class UnknownNodes(Problem):
    """Node names that the cluster does not have."""


class Unreachable(Problem):
    """No usable answer came: refused, timed out, reset, untrusted certificate."""


class ApiError(Problem):
    """The API server answered, and the answer is no."""

    def __init__(self, message: str, status: int, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.status = status


class Unauthorized(ApiError):
    """401: the server does not know who we are."""


class Forbidden(ApiError):
    """403: it knows, and says no."""


class NotFound(ApiError):
    """404: the object, or the path, is not there."""


class Conflict(ApiError):
    """409: the object changed since it was read: by somebody else, or by ourselves when ``resent``."""

    resent = False  # True when an earlier attempt of the same request was sent and its answer lost


class Expired(ApiError):
    """410: the resource version or the page of a list is too old; begin anew."""
