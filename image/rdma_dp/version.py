# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of plugin, image and collection: one number, equal to galaxy.yml's (a test holds them together)."""

VERSION = "0.1.0"
