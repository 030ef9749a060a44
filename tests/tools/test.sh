#!/usr/bin/env bash
# All tests in one pytest run, one line for each as it ends: the cluster tests on one worker, the others on a second one meanwhile.
# However it ends, nothing of it stays behind.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=.venv/bin/python
remove_cluster() { "$python" -m tests.sandbox down --state build/sandbox-test >/dev/null; }
trap remove_cluster EXIT
trap 'exit 130' INT TERM

echo "== Tests (unit, protocol, cluster)"
# Built before, so that the workers do not both build them.
"$python" image/build.py --output build/images
"$python" -m tests.sandbox build
"$python" -m pytest --numprocesses 2 --dist loadgroup --verbose "$@" tests
