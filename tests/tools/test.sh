#!/usr/bin/env bash
# All tests in one pytest run, one line for each as it ends: the cluster tests on one worker, the others on a second one meanwhile.
# However it ends, nothing of it stays behind.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=.venv/bin/python
tests=
clean_up() {
    trap '' INT TERM
    # A session of its own, so that playbooks and plugins that the tests started end with them.
    if [ -n "$tests" ]; then kill -TERM -- "-$tests" 2>/dev/null || true; fi
    "$python" -m tests.sandbox down --state build/sandbox-test >/dev/null
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

echo "== Tests (unit, protocol, cluster)"
# Built before, so that the workers do not both build them.
"$python" image/build.py --output build/images
"$python" -m tests.sandbox build
setsid "$python" -m pytest --numprocesses 2 --verbose "$@" tests &
tests=$!
wait "$tests"
