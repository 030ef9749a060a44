# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON in, JSON out: the only way in which our modules talk to the API server. Private to this collection.

No typed models and no discovery: on long lists they cost three times the time and five times the memory (measured), and
our paths are known. Every request ends: an attempt within ``request_timeout``, the call after ``retries`` more of them.
"""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Dict, Generic, Iterator, List, Mapping, Optional, Tuple, TypeVar
from urllib.parse import urlencode

from ansible_collections.lingjun.rdma.plugins.module_utils._answers import (
    LONGEST_PAUSE,
    Action,
    Resource,
    Retryable,
    judge,
)
from ansible_collections.lingjun.rdma.plugins.module_utils._auth import Session
from ansible_collections.lingjun.rdma.plugins.module_utils._errors import (
    Conflict,
    ConnectionOptionsError,
    Expired,
    Unauthorized,
    Unreachable,
)

T = TypeVar("T")

PAGE = 500
RESTARTS = 3  # of a list whose continue token expired
WATCH_SECONDS = 60  # one watch request; the caller begins the next one
_CONNECT_SECONDS = 10.0
_CHUNK = 1 << 16
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


@dataclass(frozen=True)
class Listing(Generic[T]):
    """A whole list, and the moment it shows."""

    items: List[T]
    resource_version: str


class Client:
    """A connection to one API server. Safe to use from several threads."""

    def __init__(
        self,
        connect: Callable[[], Session],
        *,
        request_timeout: float,
        retries: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``connect`` makes a session; it is called again when the server no longer accepts the credentials."""
        self._connect = connect
        self._session = connect()
        self._lock = threading.Lock()
        self._timeout = request_timeout
        self._retries = retries
        self.clock = clock
        self.sleep = sleep
        self.server_time: Optional[float] = None  # s since the epoch by the server's clock, at its last answer

    @property
    def server(self) -> str:
        """The API server's URL, for messages."""
        return self._session.url

    def list(
        self,
        resource: Resource,
        reduce: Callable[[Dict[str, Any]], Optional[T]],
        *,
        namespace: Optional[str] = None,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> Listing[T]:
        """All objects, page by page; ``reduce`` takes from each what is needed, None drops it.

        A list whose next page has expired (410) is begun anew: the token that comes with the 410 mixes two moments.
        """
        query = {"limit": str(PAGE), "labelSelector": label_selector, "fieldSelector": field_selector}
        headers = [("accept", _METADATA_ONLY if metadata_only else "application/json")]
        action = Action("list", resource, namespace)
        for restart in range(RESTARTS + 1):
            items: List[T] = []
            token = ""
            try:
                while True:
                    page = self._send("GET", resource.path(namespace), {**query, "continue": token}, action, headers)
                    items += [kept for kept in map(reduce, page.get("items") or []) if kept is not None]
                    token = page.get("metadata", {}).get("continue") or ""
                    if not token:
                        return Listing(items, page.get("metadata", {}).get("resourceVersion", ""))
            except Expired:
                if restart == RESTARTS:
                    raise
        raise AssertionError("unreachable")

    def count(self, resource: Resource) -> int:
        """How many objects there are in the whole cluster, from one short answer."""
        page = self._send("GET", resource.path(), {"limit": "1"}, Action("list", resource))
        return len(page.get("items") or []) + int(page.get("metadata", {}).get("remainingItemCount") or 0)

    def get(self, resource: Resource, name: str, namespace: Optional[str] = None) -> Dict[str, Any]:
        """One object; raises NotFound."""
        answer: Dict[str, Any] = self._send(
            "GET", resource.path(namespace, name), {}, Action("get", resource, namespace, name)
        )
        return answer

    def merge_patch(self, resource: Resource, name: str, patch: Mapping[str, Any]) -> Dict[str, Any]:
        """Patch a cluster-wide object (RFC 7386) and return it as it is then.

        Sent again after a lost connection, so the patch must be one that may be applied twice. With a
        ``metadata.resourceVersion`` in it the server refuses it (Conflict) when the object has changed.
        """
        body = json.dumps(patch, separators=(",", ":")).encode()
        headers = [("content-type", "application/merge-patch+json")]
        answer: Dict[str, Any] = self._send(
            "PATCH", resource.path(name=name), {}, Action("patch", resource, name=name), headers, body
        )
        return answer

    def watch(
        self,
        resource: Resource,
        resource_version: str,
        until: float,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Iterator[Tuple[str, Dict[str, Any]]]:
        """(ADDED | MODIFIED | DELETED, object) as they happen after ``resource_version``, until ``until`` on our clock.

        Ends, without an error, also when the server or the network ends it: list again and watch on.
        Raises Expired when ``resource_version`` is too old.
        """
        seconds = max(1, min(WATCH_SECONDS, int(until - self.clock())))
        query = {
            "watch": "1",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        action = Action("watch", resource)
        response = self._retrying(lambda session: self._open(session, resource.path(), query, action, seconds))
        try:
            for line in self._lines(response, self.clock() + seconds + 1):
                event = json.loads(line)
                thing = event.get("object") or {}
                if event.get("type") == "ERROR":
                    judge(int(thing.get("code") or 500), {}, json.dumps(thing).encode(), action, self.server)
                if event.get("type") in ("ADDED", "MODIFIED", "DELETED"):
                    yield event["type"], thing
        except (Retryable, ValueError):
            return  # a transient error event, or a line cut off by a lost connection
        finally:
            response.close()

    # --- one request ------------------------------------------------------------------------------------------------

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        action: Action,
        headers: Optional[List[Tuple[str, str]]] = None,
        body: Optional[bytes] = None,
    ) -> Any:
        def once(session: Session) -> Any:
            deadline = self.clock() + self._timeout
            response = self._answer(session, method, path, query, headers or [], body, action, self._timeout)
            try:
                data = b"".join(self._chunks(response, deadline, action))
            except BaseException:
                response.close()
                raise
            self._remember_time(response.headers)
            return judge(response.status, response.headers, data, action, session.url)

        return self._retrying(once)

    def _open(self, session: Session, path: str, query: Mapping[str, str], action: Action, seconds: int) -> Any:
        response = self._answer(session, "GET", path, query, [], None, action, seconds + 5)
        if response.status != 200:
            data = b"".join(self._chunks(response, self.clock() + self._timeout, action))
            judge(response.status, response.headers, data, action, session.url)
        return response

    def _retrying(self, once: Callable[[Session], T]) -> T:
        """``once`` with a pause between attempts; new credentials once after a 401."""
        failures = 0
        renewed = False
        while True:
            session = self._session
            try:
                return once(session)
            except Unauthorized:
                if renewed or not session.renewable:
                    raise
                renewed = True
                with self._lock:
                    if self._session is session:  # else another thread has done it
                        self._session = self._connect()
            except Conflict as conflict:
                conflict.resent = failures > 0
                raise
            except Retryable as failure:
                if failures >= self._retries:
                    raise failure.problem from failure
                pause = min(0.5 * 2**failures, LONGEST_PAUSE) if failure.pause is None else failure.pause
                # Spread, so that many clients don't come back together.
                self.sleep(pause * (1 + random.random() / 4))
                failures += 1

    def _answer(
        self,
        session: Session,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: List[Tuple[str, str]],
        body: Optional[bytes],
        action: Action,
        read_timeout: float,
    ) -> Any:
        """The head of an answer; its body is still to be read."""
        import urllib3

        asked = urlencode({key: value for key, value in query.items() if value})
        sent = urllib3.HTTPHeaderDict(headers)
        for name, value in session.headers():
            sent.add(name, value)
        try:
            return session.pool.request(
                method,
                session.url + path + (f"?{asked}" if asked else ""),
                headers=sent,
                body=body,
                timeout=urllib3.Timeout(connect=min(_CONNECT_SECONDS, self._timeout), read=read_timeout),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _failure(error, session.url, action, self._timeout) from error

    def _chunks(self, response: Any, deadline: float, action: Action) -> Iterator[bytes]:
        """The body as it arrives. ``read1`` returns after each packet, so a server that drips bytes is stopped too."""
        import urllib3

        try:
            while True:
                chunk = response.read1(_CHUNK)
                if not chunk:
                    return
                yield chunk
                if self.clock() > deadline:
                    raise Retryable(
                        Unreachable(
                            f"{self.server} did not finish its answer to '{action}' within {self._timeout:g} s."
                        )
                    )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _failure(error, self.server, action, self._timeout) from error

    def _lines(self, response: Any, deadline: float) -> Iterator[bytes]:
        """The body's lines until it ends, the connection is lost or the deadline is over."""
        rest = b""
        try:
            for chunk in self._chunks(response, deadline, Action("watch", Resource("", ""))):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line for line in lines if line.strip())
        except Retryable:
            return

    def _remember_time(self, headers: Mapping[str, str]) -> None:
        try:
            self.server_time = parsedate_to_datetime(headers.get("date", "")).timestamp()
        except (TypeError, ValueError):
            self.server_time = None


def _failure(error: Exception, server: str, action: Action, timeout: float) -> Exception:
    """What a broken connection means: Retryable, or an error at once where trying again can't help."""
    import urllib3

    said = " ".join(str(error).split())
    if "CERTIFICATE_VERIFY_FAILED" in said or "doesn't match" in said:
        return Unreachable(
            f"The certificate of {server} is not trusted: {_tail(said)}. Set ca_cert or the kubeconfig's"
            " certificate-authority to the cluster's CA, or correct the host name."
        )
    if "WRONG_VERSION_NUMBER" in said or "HTTP_REQUEST" in said:
        return Unreachable(f"{server} does not speak TLS; is the port right, and should the URL begin with http://?")
    if isinstance(error, urllib3.exceptions.LocationValueError):
        return ConnectionOptionsError(f"{server} is no URL of an API server: {said}.")
    # Before timeouts: in urllib3 it is one of them.
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return Retryable(
            Unreachable(f"{server} can't be reached: {_tail(said)}. Is the address right, and the API server up?")
        )
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return Retryable(
            Unreachable(
                f"{server} did not answer '{action}' within {timeout:g} s; is it up and not cut off by a firewall?"
            )
        )
    if isinstance(error, urllib3.exceptions.ProxyError):
        return Retryable(Unreachable(f"The proxy on the way to {server} does not work: {_tail(said)}."))
    return Retryable(Unreachable(f"The connection to {server} broke during '{action}': {_tail(said)}."))


def _tail(text: str) -> str:
    """The last cause in a chain like ``HTTPSConnection(...): Failed to connect: [Errno 111] Connection refused``."""
    return text.rpartition(": ")[2].rstrip(".)'") or text
