# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Between the plugin's values and the messages of kubelet's API: pure translation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rdma_dp.allocate import Grant
from rdma_dp.api import deviceplugin_v1beta1_pb2 as pb
from rdma_dp.core.model import Device

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"
CONTAINER_DEV = "/dev/infiniband/"


def options() -> pb.DevicePluginOptions:
    """What Register and GetDevicePluginOptions both say (rule 11)."""
    return pb.DevicePluginOptions(pre_start_required=False, get_preferred_allocation_available=False)


def device_list(devices: Sequence[Device]) -> pb.ListAndWatchResponse:
    """The complete list, as each message of ListAndWatch has it. Config and pools keep it under 4 MiB (rule 25)."""
    return pb.ListAndWatchResponse(devices=[_device(device) for device in devices])


def _device(device: Device) -> pb.Device:
    health = HEALTHY if device.healthy else UNHEALTHY
    if not device.numa_nodes:
        return pb.Device(ID=device.id, health=health)
    nodes = [pb.NUMANode(ID=node) for node in device.numa_nodes]
    return pb.Device(ID=device.id, health=health, topology=pb.TopologyInfo(nodes=nodes))


def container_answer(grant: Grant, host_dev: Path) -> pb.ContainerAllocateResponse:
    """One container's answer. ``host_dev`` is the directory that holds infiniband/ on the host."""
    host_path = f"{host_dev}/infiniband/"
    return pb.ContainerAllocateResponse(
        envs=grant.env,
        devices=[
            pb.DeviceSpec(host_path=host_path + node, container_path=CONTAINER_DEV + node, permissions="rw")
            for node in grant.nodes
        ],
    )
