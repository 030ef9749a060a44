# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the running plugin reads config and hardware: the core's functions, bound to the places that the options name."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from rdma_dp import config_file, sysfs_look
from rdma_dp.core import discovery, pools
from rdma_dp.core.model import Config, Snapshot
from rdma_dp.core.problems import ConfigInvalid
from rdma_dp.source import ConfigError, Machine

if TYPE_CHECKING:
    from rdma_dp.options import ServeOptions


def machine(options: ServeOptions) -> Machine:
    """The machine that the options describe."""

    def load() -> Config:
        try:
            return config_file.load(options.config)
        except ConfigInvalid as error:
            raise ConfigError(map(str, error.problems)) from error
        except config_file.ConfigUnreadable as error:
            raise ConfigError([f"--config {options.config}: {error}"], unreadable=True) from error

    def scan() -> Snapshot:
        # A scan never fails; but without the mount it would find that all NICs have gone.
        if not (options.sysfs / "class").is_dir():
            raise FileNotFoundError(errno.ENOENT, "no sysfs is mounted there", str(options.sysfs))
        return discovery.scan(options.sysfs, options.dev, all_gids=False)  # nothing that is served depends on them

    return Machine(load, scan, lambda: sysfs_look.look(options.sysfs, options.dev), pools.compute)
