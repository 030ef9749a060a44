# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers Allocate: the pure answer of allocate.py, on a picture that is checked against the machine in that moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from rdma_dp import nodes
from rdma_dp.allocate import Grant, Index, Refusal, RefusedError
from rdma_dp.core.model import Nic, Picture
from rdma_dp.latest import Latest
from rdma_dp.logs import Log
from rdma_dp.metrics import Metrics

# Kubelet sets no deadline on Allocate and admits no other pod meanwhile (rule 31). A scan takes some tens of ms.
_RESCAN = 2.0  # s
_SHOWN = 4  # IDs in a log line


class Allocator:
    """Serves all resources of the node; keeps no record of what it has given out (rule 32)."""

    def __init__(
        self,
        pictures: Latest[Picture],
        rescan: Callable[[], Awaitable[None]],
        *,
        sysfs: Path,
        dev: Path,
        metrics: Metrics,
        log: Log,
    ) -> None:
        self._pictures = pictures
        self._rescan = rescan
        self._sysfs = sysfs
        self._dev = dev
        self._metrics = metrics
        self._log = log
        self._index = Index(pictures.value)

    async def allocate(self, resource: str, requests: Sequence[Sequence[str]]) -> list[Grant]:
        """One grant per container, in order. Raises RefusedError, for all containers if for one."""
        started = time.perf_counter()
        result = "refused"
        try:
            grants = await self._grants(resource, requests)
            result = "ok"
        except RefusedError as error:
            self._log.warning(f"refused an allocation: {error}", resource=resource, code=error.refusal.value)
            raise
        finally:
            self._metrics.allocated(resource, result, time.perf_counter() - started)
        for ids, grant in zip(requests, grants, strict=True):
            self._log.info(
                "allocated",
                resource=resource,
                count=len(ids),
                ids=[*ids[:_SHOWN], *(["..."] if len(ids) > _SHOWN else [])],
                nics=[nic.rdma_device for nic in grant.nics],
            )
        return grants

    async def _grants(self, resource: str, requests: Sequence[Sequence[str]]) -> list[Grant]:
        if not requests:
            raise RefusedError(Refusal.INVALID, f"{resource}: the request names no container")
        grants = self._answer(resource, requests)
        stale = self._stale(grants)
        if stale is None:
            return grants
        self._log.info("the device nodes have changed, scanning again before the answer", resource=resource, why=stale)
        try:
            async with asyncio.timeout(_RESCAN):
                await self._rescan()
        except TimeoutError:
            text = f"{resource}: {stale}, and the NICs could not be scanned again within {_RESCAN:g} s"
            raise RefusedError(Refusal.UNUSABLE, text) from None
        grants = self._answer(resource, requests)
        stale = self._stale(grants)
        if stale is not None:
            raise RefusedError(Refusal.UNUSABLE, f"{resource}: {stale}; is its driver being loaded? Try again")
        return grants

    def _answer(self, resource: str, requests: Sequence[Sequence[str]]) -> list[Grant]:
        if self._index.picture is not self._pictures.value:
            self._index = Index(self._pictures.value)
        return [self._index.grant(resource, ids) for ids in requests]

    def _stale(self, grants: Sequence[Grant]) -> str | None:
        nics: dict[str, Nic] = {nic.id: nic for grant in grants for nic in grant.nics}
        return nodes.changed(nics.values(), self._pictures.value.rdma_cm, self._sysfs, self._dev)
