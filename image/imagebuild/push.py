# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python image/push.py``: image archives to a registry, by whichever of buildah, podman and docker there is.

Several archives, of different architectures, become one name: a manifest list.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from imagebuild.cache import Cache, file_digest, replace
from imagebuild.errors import BuildError, run

PROGRAMS = ("buildah", "podman", "docker")
# Host, path, and a tag: without a tag the next push would silently move "latest".
_DESTINATION = re.compile(r"[\w.-]+(:\d+)?(/[\w.-]+)+:[\w][\w.-]{0,127}")


@dataclass(frozen=True)
class Push:
    """What to push, and how."""

    sources: tuple[str, ...]  # archives, or the name of one image in the program's own storage
    destination: str  # "registry.example/lingjun/rdma-dp:0.1.0"
    program: str  # one of PROGRAMS
    tls_verify: bool = True
    auth_file: str = ""  # as `podman login` writes it; "" for the program's default

    @property
    def archives(self) -> bool:
        """Whether the sources are files."""
        return all(Path(source).is_file() for source in self.sources)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 the registry has the image; 1 something went wrong; 2 wrong usage; 130 interrupted."""
    options = _parser().parse_args(arguments)
    try:
        request = Push(
            sources=tuple(options.source),
            destination=destination(options.destination),
            program=find_program(options.program),
            tls_verify=options.tls_verify == "true",
            auth_file=options.auth_file,
        )
        print(json.dumps(_push_and_remember(request, Cache.of_user().folder / "pushed.json", options.dry_run)))
    except BuildError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; the registry may have the image or not.", file=sys.stderr)
        return 130
    return 0


def destination(text: str) -> str:
    """The name in the registry.

    :raises BuildError: when it is not of the form registry/name:tag.
    """
    name = text.removeprefix("docker://")
    if not _DESTINATION.fullmatch(name):
        raise BuildError(f"{text!r} is no place to push to; give registry/name:tag (registry.example/rdma-dp:1).")
    return name


def find_program(wanted: str) -> str:
    """The program that pushes: the wanted one, or for "auto" the first of PROGRAMS that is installed.

    :raises BuildError: when it is not installed.
    """
    found = next((name for name in (PROGRAMS if wanted == "auto" else (wanted,)) if shutil.which(name)), "")
    if not found:
        names = " or ".join(PROGRAMS) if wanted == "auto" else wanted
        raise BuildError(
            f"Pushing takes {names}, which is not installed: install it, or import the archive on each node."
        )
    return found


def push(request: Push) -> str:
    """Push, and return the digest that the registry knows the image by.

    :raises BuildError: when the program fails; what it said is in the message.
    """
    if request.program == "docker":
        return _push_by_docker(request)
    with tempfile.TemporaryDirectory(prefix="imagebuild-") as scratch:
        digest_file = f"{scratch}/digest"
        common = [f"--tls-verify={str(request.tls_verify).lower()}", f"--digestfile={digest_file}"]
        common += [f"--authfile={request.auth_file}"] if request.auth_file else []
        target = f"docker://{request.destination}"
        if not request.archives:
            _run(request, request.program, "push", *common, request.sources[0], target)
        else:
            # A storage of our own: nothing is left in the user's.
            storage = ("--root", f"{scratch}/storage", "--runroot", f"{scratch}/run", "--storage-driver", "vfs")
            program = (request.program, *storage)
            if len(request.sources) == 1:
                image = _run(request, *program, "pull", "--quiet", f"docker-archive:{request.sources[0]}").strip()
                _run(request, *program, "push", *common, image, target)
            else:
                listing = "localhost/push"
                _run(request, *program, "manifest", "create", listing)
                for source in request.sources:
                    _run(request, *program, "manifest", "add", listing, f"docker-archive:{source}")
                _run(request, *program, "manifest", "push", "--all", *common, listing, target)
        return Path(digest_file).read_text().strip()


def _push_by_docker(request: Push) -> str:
    if len(request.sources) > 1:
        raise BuildError("docker can't push several architectures from archives; take buildah or podman.")
    image = request.sources[0]
    if request.archives:
        loaded = re.search(r"Loaded image: (\S+)", _run(request, "docker", "load", "--input", image))
        if loaded is None:
            raise BuildError(f"docker did not say which image it loaded of {image}.")
        image = loaded[1]
    _run(request, "docker", "tag", image, request.destination)
    pushed = re.search(r"digest: (sha256:[0-9a-f]+)", _run(request, "docker", "push", request.destination))
    return pushed[1] if pushed else ""


def _run(request: Push, *command: str) -> str:
    remedy = "Is the registry right, is it reachable, and did you log in to it?"
    return run(command, f"push to {request.destination}", remedy).decode(errors="replace")


def _push_and_remember(request: Push, memory: Path, dry_run: bool) -> dict[str, object]:
    """Push, and compare with what was pushed there last: the same digest again is no change.

    A push is made in any case, as only the registry knows what it has; of known layers nothing is transferred.
    """
    known = _read(memory)
    before = known.get(request.destination, {})
    contents = [file_digest(Path(source)) if request.archives else source for source in request.sources]
    if dry_run:
        changed = before.get("contents") != contents
        return {"destination": request.destination, "digest": before.get("digest", ""), "changed": changed}
    digest = push(request)
    known[request.destination] = {"digest": digest, "contents": contents}
    memory.parent.mkdir(parents=True, exist_ok=True)
    replace(memory, json.dumps(known, indent=2).encode())
    return {"destination": request.destination, "digest": digest, "changed": before.get("digest") != digest}


def _read(memory: Path) -> dict[str, dict[str, object]]:
    try:
        known = json.loads(memory.read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="push.py", description="Push images to a registry. Prints its name and digest as JSON."
    )
    parser.add_argument("source", nargs="+", help="archive of image/build.py, one per architecture; or an image's name")
    parser.add_argument("destination", help="registry/name:tag")
    parser.add_argument(
        "--program", choices=("auto", *PROGRAMS), default="auto", help="what pushes (default: the first there is)"
    )
    parser.add_argument(
        "--tls-verify", choices=("true", "false"), default="true", help="check the registry's certificate"
    )
    parser.add_argument("--auth-file", default="", help="credentials, as `podman login --authfile` writes them")
    parser.add_argument("--dry-run", action="store_true", help="only say whether something would change")
    return parser
