#!/usr/bin/env bash
# All tests in one pytest run on two workers, each with a cluster of its own, one line for each test as it ends.
# However it ends, nothing of it stays behind.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=.venv/bin/python
tests=
clean_up() {
    trap '' INT TERM
    # A session of its own, so that playbooks and plugins that the tests started end with them.
    if [ -n "$tests" ]; then kill -TERM -- "-$tests" 2>/dev/null || true; fi
    for state in build/sandbox-test-*; do
        if [ -d "$state" ]; then "$python" -m tests.sandbox down --state "$state" >/dev/null; fi
    done
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

echo "== Tests (unit, protocol, cluster)"
# Built before, so that the workers do not both build them.
"$python" image/build.py --output build/images
"$python" -m tests.sandbox build
setsid "$python" -m pytest --numprocesses 2 --no-loadscope-reorder --verbose "$@" tests &
tests=$!
wait "$tests"
