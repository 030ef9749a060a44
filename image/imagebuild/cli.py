# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python image/build.py``: the images of the plugin and of the test Job, as archives."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from imagebuild import debian
from imagebuild.builder import PLUGIN, TEST, Builder, Project, Request, Result, archive_path, default_name
from imagebuild.cache import Cache
from imagebuild.errors import BuildError
from imagebuild.source import describe
from rdma_dp.version import VERSION

_IMAGE = Path(__file__).resolve().parents[1]
_OLD = 30  # days after which Debian's packages are worth a refresh


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 the images are there; 1 something went wrong; 2 wrong usage; 130 interrupted."""
    options = _parser().parse_args(arguments)
    targets = [PLUGIN, TEST] if options.target == "all" else [options.target]
    if options.name and len(targets) > 1:
        _parser().error("--name names one image: say which by --target plugin or --target test")
    # A CI that ends us with SIGTERM: temporary directories go away as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()

    def say(message: str) -> None:
        print(f"   [{time.monotonic() - started:4.1f} s] {message}", file=sys.stderr, flush=True)

    try:
        results = _build(options, targets, say)
    except BuildError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"Error: {error.filename or 'input or output'}: {error.strerror or error}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; no image was changed by the step that ran.", file=sys.stderr)
        return 130
    if options.format == "json":
        print(json.dumps({"images": results}, indent=2))
    return 0


def _build(options: argparse.Namespace, targets: Sequence[str], say: Callable[[str], None]) -> list[dict[str, object]]:
    """Build what is asked for, and tell of each image what the role and other programs want to know."""
    arch = options.arch or debian.native_arch()
    cache = Cache.of_user()
    sources = debian.find_sources(options.apt_sources)
    requests = [
        Request(
            target,
            arch,
            options.name or default_name(target, VERSION),
            archive_path(options.output.resolve(), target, arch),
        )
        for target in targets
    ]
    if options.dry_run and (options.refresh or not debian.cached(debian.folder(sources, arch, cache))):
        for request in requests:
            say(f"{request.name}: would be built into {request.archive}")
        return [_would_build(request) for request in requests]

    download = debian.fetch(sources, arch, cache, options.refresh, say)
    age = int((time.time() - download.fetched) / 86400)
    if age >= _OLD:
        say(f"{arch}: Debian's packages in the cache are {age} days old; --refresh gets today's")
    project = Project(_IMAGE, _IMAGE.parent)
    builder = Builder(project, describe(_IMAGE.parent, os.environ), VERSION, cache, download, arch, say, options.force)
    if options.dry_run:
        return [_look(builder, request, options.force, say) for request in requests]
    results = [builder.build(request) for request in requests]
    cache.drop_unused()
    for result in results:
        say(_line(result))
    return [asdict(result) for result in results]


def _look(builder: Builder, request: Request, force: bool, say: Callable[[str], None]) -> dict[str, object]:
    known = None if force else builder.current(request)
    if known is None:
        say(f"{request.name}: would be built into {request.archive}")
        return _would_build(request)
    say(_line(known))
    return asdict(known)


def _would_build(request: Request) -> dict[str, object]:
    return {**asdict(request), "archive": str(request.archive), "changed": True}


def _line(result: Result) -> str:
    done = "built" if result.changed else "unchanged"
    size = f"{result.unpacked_bytes / 1e6:.1f} MB unpacked"
    return f"{result.name}  {result.arch}  {done}  {size}  {result.image_id[:19]}  {_shown(Path(result.archive))}"


def _shown(path: Path) -> str:
    """Relative to the working directory, where that is shorter."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="build.py",
        description="Build the images of the rdma-dp plugin and of its test Job from Debian packages and pinned wheels:"
        " no registry, no daemon, nothing of the image is run. The same inputs give the same image ID.",
    )
    parser.add_argument("--target", choices=(PLUGIN, TEST, "all"), default="all", help="which image (default: all)")
    parser.add_argument(
        "--output",
        type=Path,
        default=_IMAGE.parent / "build" / "images",
        metavar="DIR",
        help="where archives go (default: %(default)s)",
    )
    parser.add_argument(
        "--arch", choices=("amd64", "arm64"), help="architecture of the image (default: this machine's)"
    )
    parser.add_argument("--name", help="name of the image in the archive (default: localhost/lingjun/rdma-dp:VERSION)")
    parser.add_argument("--force", action="store_true", help="build although nothing changed, from the same packages")
    parser.add_argument("--refresh", action="store_true", help="get Debian's packages anew, which may bring newer ones")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be built")
    parser.add_argument(
        "--apt-sources",
        type=Path,
        metavar="FILE",
        help="apt sources of Debian (default: this machine's debian.sources or sources.list)",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json: results on standard output")
    return parser
