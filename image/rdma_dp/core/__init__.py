# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plugin, the node-side check and the Ansible modules share: sysfs discovery, configuration, pools.

Standard library only, Python 3.8 and later, no I/O except under a root that the caller passes in.
"""
