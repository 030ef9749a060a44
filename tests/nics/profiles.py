# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each driver shows in sysfs where a description says nothing. Sources: the drivers, and the captures."""

from __future__ import annotations

from dataclasses import dataclass, field

ROCE_V1 = "IB/RoCE v1"
ROCE_V2 = "RoCE v2"

_PORT_COUNTERS = (
    "VL15_dropped excessive_buffer_overrun_errors link_downed link_error_recovery local_link_integrity_errors "
    "multicast_rcv_packets multicast_xmit_packets port_rcv_constraint_errors port_rcv_data port_rcv_errors "
    "port_rcv_packets port_rcv_remote_physical_errors port_rcv_switch_relay_errors port_xmit_constraint_errors "
    "port_xmit_data port_xmit_discards port_xmit_packets port_xmit_wait symbol_error unicast_rcv_packets "
    "unicast_xmit_packets"
)
_MLX5 = (
    "duplicate_request implied_nak_seq_err lifespan local_ack_timeout_err np_cnp_sent np_ecn_marked_roce_packets "
    "out_of_buffer out_of_sequence packet_seq_err req_cqe_error req_remote_access_errors resp_cqe_error "
    "resp_local_length_error rnr_nak_retry_err roce_adp_retrans rp_cnp_handled rp_cnp_ignored rx_atomic_requests "
    "rx_read_requests rx_write_requests"
)
_RXE = (
    "ack_deferred completer_retry_err duplicate_request lifespan link_downed out_of_seq_request rcvd_pkts rcvd_rnr_err "
    "rcvd_seq_err rdma_recvs rdma_sends retry_rnr_exceeded_err send_err send_rnr_err sent_pkts"
)
_EFA = (
    "alloc_pd_err completed_cmds lifespan no_completion_cmds rx_bytes rx_drops rx_pkts send_bytes send_wrs "
    "submitted_cmds tx_bytes"
)


@dataclass(frozen=True)
class Profile:
    """One driver's defaults."""

    modules: tuple[str, ...]
    vendor: str = ""
    device_id: str = ""
    node_type: str = "1: CA"
    node_desc: str = ""
    fw_ver: str = ""
    link_layer: str = "Ethernet"
    rate: str = "100 Gb/sec (4X EDR)"
    # Rows that each address gets; iWARP and EFA have one GID, which is no address.
    gid_types: tuple[str, ...] = (ROCE_V1, ROCE_V2)
    table_size: int = 256
    umad: bool = True
    issm: bool = False  # on Ethernet; InfiniBand ports always have one
    lid: str = "0x0"
    counters: tuple[str, ...] = field(default_factory=lambda: tuple(_PORT_COUNTERS.split()))
    hw_counters: tuple[str, ...] = ("lifespan",)
    abi_version: str = "1"


PROFILES = {
    "mlx5_core": Profile(
        modules=("mlx5_core", "mlx5_ib"),
        vendor="15b3",
        device_id="1021",
        node_desc="node HCA-1",
        fw_ver="28.43.1014",
        hw_counters=tuple(_MLX5.split()),
    ),
    "mlx4_core": Profile(
        modules=("mlx4_core", "mlx4_ib", "mlx4_en"),
        vendor="15b3",
        device_id="1003",
        fw_ver="2.42.5000",
        rate="40 Gb/sec (4X QDR)",
        table_size=128,
        hw_counters=("lifespan", "num_cqovf", "rq_num_dup", "sq_num_rnr"),
    ),
    "ice": Profile(
        modules=("ice", "irdma"),
        vendor="8086",
        device_id="1592",
        fw_ver="1.54",
        gid_types=(ROCE_V2,),
        table_size=32,
        lid="0x1",
    ),
    "iavf": Profile(modules=("iavf",), vendor="8086", device_id="1889"),
    "bnxt_en": Profile(modules=("bnxt_en", "bnxt_re"), vendor="14e4", device_id="1750", fw_ver="231.0.154.0"),
    "ionic": Profile(modules=("ionic", "ionic_rdma"), vendor="1dd8", device_id="1002", fw_ver="1.110.1-a-1"),
    "hns3": Profile(modules=("hns3", "hns_roce_hw_v2"), vendor="19e5", device_id="a222", counters=()),
    "hinic3": Profile(modules=("hinic3", "hrdma"), vendor="19e5", device_id="0222", counters=(), hw_counters=()),
    "erdma": Profile(
        modules=("erdma",),
        vendor="1ded",
        device_id="107f",
        node_type="4: RNIC",
        fw_ver="0.2.0",
        gid_types=(ROCE_V1,),
        table_size=1,
        umad=False,
        counters=(),
        hw_counters=("lifespan", "listen_create_cnt", "hw_rx_bytes_cnt", "hw_tx_bytes_cnt"),
    ),
    "efa": Profile(
        modules=("efa",),
        vendor="1d0f",
        device_id="efa1",
        node_type="7: unspecified",
        fw_ver="",
        link_layer="Unknown",
        gid_types=(ROCE_V1,),
        table_size=1,
        umad=False,
        counters=(),
        hw_counters=tuple(_EFA.split()),
    ),
    "rdma_rxe": Profile(
        modules=("rdma_rxe",),
        node_desc="rxe",
        rate="2.5 Gb/sec (1X SDR)",
        gid_types=(ROCE_V2,),
        table_size=1024,
        issm=True,
        counters=(),
        hw_counters=tuple(_RXE.split()),
        abi_version="2",
    ),
    "siw": Profile(
        modules=("siw",),
        node_type="4: RNIC",
        node_desc="Software iWARP stack",
        gid_types=(ROCE_V1,),
        table_size=1,
        umad=False,
        counters=(),
    ),
}
SOFTWARE = ("rdma_rxe", "siw")

# RDMA device name to driver, where a description does not name it.
_BY_NAME = {
    "mlx4": "mlx4_core",
    "irdma": "ice",
    "bnxt": "bnxt_en",
    "hns": "hns3",
    "hrn": "hinic3",
    "erdma": "erdma",
    "rdmap": "efa",
    "rxe": "rdma_rxe",
    "siw": "siw",
}
_BY_VENDOR = {
    "15b3": "mlx5_core",
    "8086": "ice",
    "14e4": "bnxt_en",
    "1ded": "erdma",
    "1d0f": "efa",
    "1dd8": "ionic",
    "19e5": "hns3",
}
# What people call a card, to its PCI ID; the first that fits counts.
_BY_MODEL = (
    ("Adaptive Virtual Function", "1889"),
    ("E810-XXV", "159b"),
    ("ConnectX-6 Virtual Function", "101c"),
    ("ConnectX-6", "101b"),
    ("ConnectX-7", "1021"),
    ("ConnectX7", "1021"),
    ("BlueField-3", "a2dc"),
    ("virtio", "1041"),
)

_RATES = {
    10: "1X QDR",
    25: "1X EDR",
    40: "4X QDR",
    50: "2X EDR",
    100: "4X EDR",
    200: "4X HDR",
    400: "4X NDR",
    800: "8X NDR",
}


def driver_of(name: str, vendor: str) -> str:
    """The driver behind an RDMA device, by its name and vendor; mlx5_core where nothing tells."""
    by_name = next((driver for prefix, driver in _BY_NAME.items() if name.startswith(prefix)), "")
    return by_name or _BY_VENDOR.get(vendor, "mlx5_core")


def device_id_of(model: str) -> str:
    """The PCI device ID of a card by what people call it; "" where unknown. BlueField-3 has "integrated ConnectX-7"."""
    if "BlueField-3" in model:
        return "a2dc"
    return next((device for words, device in _BY_MODEL if words in model), "")


def rate_of(gigabits: int) -> str:
    """The ``rate`` attribute of a port."""
    return f"{gigabits} Gb/sec ({_RATES.get(gigabits, '4X EDR')})"
