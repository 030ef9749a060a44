# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user may ask the sandbox for, and how a wrong wish is answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sandbox import cli
from tests.sandbox.errors import SandboxError
from tests.sandbox.spec import NodeSpec, node_specs, parse_nodes


def test_nodes_keep_their_order() -> None:
    assert list(parse_nodes("node-b=h20, node-a=b300").items()) == [("node-b", "h20"), ("node-a", "b300")]


@pytest.mark.parametrize("text", ["", "node-a", "node-a=", "=h20", "node-a=h20,", "node-a=h20,,node-b=h20"])
def test_an_entry_that_is_not_name_and_machine_is_refused(text: str) -> None:
    with pytest.raises(SandboxError, match="is not name=machine"):
        parse_nodes(text)


def test_a_name_that_comes_twice_is_refused() -> None:
    with pytest.raises(SandboxError, match="'n' comes twice"):
        parse_nodes("n=h20,n=b300")


def test_nodes_are_numbered_from_zero() -> None:
    assert node_specs({"x": "h20", "y": "b300"}) == (NodeSpec("x", "h20", 0), NodeSpec("y", "b300", 1))


# RFC 1123 labels: what Kubernetes takes as a node's name, and a file name at the same time.
@pytest.mark.parametrize("name", ["Node", "-a", "a-", "a_b", "a.b", "a/b", "", "..", "x" * 64, "ä"])
def test_names_that_kubernetes_refuses_are_refused(name: str) -> None:
    with pytest.raises(SandboxError, match="no node name"):
        node_specs({name: "h20"})


@pytest.mark.parametrize("name", ["a", "0", "e01-cn-abc", "x" * 63])
def test_names_that_kubernetes_takes_are_taken(name: str) -> None:
    assert node_specs({name: "h20"})[0].name == name


def test_a_sandbox_has_at_least_one_node() -> None:
    with pytest.raises(SandboxError, match="1 to 100 nodes, not 0"):
        node_specs({})


def test_arguments_of_up_have_the_documented_defaults() -> None:
    options = cli.parser().parse_args(["up"])
    assert options.state == Path(__file__).parents[3] / "build" / "sandbox"
    assert (options.nodes, options.gpus, options.port, options.plain) == ("node-a=b300,node-b=h20", 0, None, False)


def test_exec_passes_options_on_to_the_command() -> None:
    options = cli.parser().parse_args(["exec", "--state", "x", "node-a", "ls", "-la", "--state"])
    assert (options.state, options.node, options.argv) == (Path("x"), "node-a", ["ls", "-la", "--state"])


@pytest.mark.parametrize(
    "argv", [["up", "--gpus", "-1"], ["up", "--port", "0"], ["up", "--port", "65536"], ["load-image"], ["reboot"], []]
)
def test_wrong_usage_ends_with_two(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["up", "--nodes", "a"], "is not name=machine"),
        (["load-image", "x.tar"], "No sandbox runs"),
        (["restart-kubelet", "node-a"], "No sandbox runs"),
        (["exec", "node-a", "true"], "No sandbox runs"),
    ],
)
def test_a_failure_is_one_sentence_and_exit_code_one(
    argv: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([argv[0], "--state", str(tmp_path / "none"), *argv[1:]]) == 1
    message = capsys.readouterr().err
    assert words in message
    assert "Traceback" not in message


def test_status_of_nothing_is_not_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", "--state", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().out == "not up\n"
    assert not (tmp_path / "none").exists()
