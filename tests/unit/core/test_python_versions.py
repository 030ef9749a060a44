# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The core on every Python from 3.8 on that this machine has: it also runs where the image's Python does not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import nics

CHECKOUT = Path(__file__).resolve().parents[3]
OLDEST = 8
# From a machine and a config to the picture, and a config with mistakes; the output is the same everywhere.
WHOLE_WAY = """
import importlib, pathlib, sys
image, sysfs, dev = map(pathlib.Path, sys.argv[1:])
sys.path.insert(0, str(image))
for file in sorted((image / "rdma_dp/core").glob("*.py")):
    importlib.import_module("rdma_dp.core." + file.stem)
from rdma_dp.core import config, discovery, pools
pool = {"resourceName": "hca", "mode": "exclusive", "selectors": {"rdmaDevices": ["*"], "vendors": ["0x15B3"]}}
print(pools.compute(config.parse({"configList": [pool]}), discovery.scan(sysfs, dev)))
try:
    config.parse({"configList": [{"resourceName": "_a", "selectors": {"vendors": [1017], "ifName": []}}]})
except config.ConfigInvalid as error:
    print(error)
"""


def interpreters() -> dict[str, str]:
    """Version ("3.8") to executable, of those on the PATH and those that pyenv installed."""
    found = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for path in pyenv.glob("versions/3.*/bin/python"):
        found[".".join(path.parts[-3].split(".")[:2])] = str(path)
    for minor in range(OLDEST, 20):
        on_path = shutil.which(f"python3.{minor}")
        if on_path and works(on_path):
            found[f"3.{minor}"] = on_path
    return {version: path for version, path in found.items() if re.fullmatch(r"3\.(8|9|[1-9]\d)", version)}


def works(python: str) -> bool:
    """A shim of pyenv may stand for a version that is not there."""
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def whole_way(python: str, machine: Path) -> str:
    arguments = [str(CHECKOUT / "image"), str(machine / "sys"), str(machine / "dev")]
    found = subprocess.run(
        [python, "-I", "-B", "-c", WHOLE_WAY, *arguments], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.parametrize(("version", "python"), sorted(interpreters().items()))
def test_core_does_the_same(version: str, python: str, tmp_path: Path) -> None:
    nics.build("h20", tmp_path)
    here = whole_way(sys.executable, tmp_path)
    assert here.count("Device(id='") == 4
    assert "configList[0].selectors.ifName" in here
    assert whole_way(python, tmp_path) == here
