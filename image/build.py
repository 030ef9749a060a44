# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the images; ``python image/build.py --help`` says how. The work is done in imagebuild/."""

import sys

# Before the imports, which an older Python does not understand.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(f"Error: building and pushing images takes Python 3.11 or later; this is {sys.version.split()[0]}.")

if __name__ == "__main__":
    try:
        # The import takes a moment, in which Ctrl-C is no reason for a traceback.
        from imagebuild.cli import main

        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
