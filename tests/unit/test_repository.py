# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must agree between files of the repository, and what must not be in any of them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

from rdma_dp.version import VERSION
from tests.tools import link_core

CHECKOUT = Path(__file__).resolve().parents[2]


def test_core_is_linked_into_module_utils_file_by_file() -> None:
    """Ansible modules run the plugin's own code. To mend: python -m tests.tools.link_core."""
    assert link_core.actual() == link_core.expected()
    assert len(link_core.expected()) > 5


def test_one_version_everywhere() -> None:
    galaxy = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text())
    inventory = yaml.safe_load((CHECKOUT / "tests/demo/inventory.yml").read_text())
    assert galaxy["version"] == VERSION
    assert inventory["all"]["vars"]["device_plugin_image"].endswith(f"/rdma-dp:{VERSION}")
    assert inventory["all"]["vars"]["rdma_test_image"].endswith(f"/rdma-test:{VERSION}")


def test_python_requirements_are_pinned_with_hashes_and_without_index_lines() -> None:
    for name in ("image/requirements.txt", "image/requirements-build.txt", "requirements/dev.txt"):
        text = (CHECKOUT / name).read_text()
        pins = re.findall(r"^([A-Za-z0-9_.-]+)==(\S+) \\\n\s+--hash=sha256:", text, re.MULTILINE)
        assert pins
        assert len(pins) == len(re.findall(r"^[A-Za-z0-9]", text, re.MULTILINE)), (
            f"{name}: a requirement without pin or hash"
        )
        assert "://" not in text


def test_image_and_development_pins_agree() -> None:
    def pins(name: str) -> dict[str, str]:
        return dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", (CHECKOUT / name).read_text(), re.MULTILINE))

    image, development = pins("image/requirements.txt"), pins("requirements/dev.txt")
    assert image.items() <= development.items()


def test_no_tracked_file_names_a_path_of_a_developers_machine() -> None:
    found = subprocess.run(
        [
            "git",
            "grep",
            "-nE",
            r"(^|[^a-z.~$}])/(work|farm)/|/home/[a-z]+/",
            "--",
            ":!tests/unit/test_repository.py",
            ":!LICENSE",
        ],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1, f"{found.stdout}{found.stderr}"
