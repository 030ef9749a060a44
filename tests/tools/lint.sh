#!/usr/bin/env bash
# Every linter and type check of the project. All run, even after one failed; the exit code tells whether any did.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit

failed=()
# check NAME COMMAND...: one line, and the output of what failed.
check() {
    local name=$1 output start=$SECONDS
    shift
    if output=$("$@" 2>&1); then
        printf '   %-28s ok (%d s)\n' "$name" $((SECONDS - start))
    else
        printf '   %-28s FAILED (%d s)\n%s\n' "$name" $((SECONDS - start)) "$output"
        failed+=("$name")
    fi
}

export PATH="$PWD/.venv/bin:$PATH" PY_COLORS=0 ANSIBLE_NOCOLOR=1
echo "== Lint"
# By far the longest, so it runs beside the others.
sanity_log=$(mktemp)
trap 'rm -f "$sanity_log"' EXIT
tests/tools/sanity.sh >"$sanity_log" 2>&1 &
sanity=$!

check "ruff check" ruff check
check "ruff format" ruff format --check
check "mypy (strict)" mypy
check "mypy (strict), module_utils" env MYPYPATH=build mypy --package ansible_collections.lingjun.rdma.plugins.module_utils
check "import-linter" env PYTHONPATH=image lint-imports --no-cache
mapfile -t scripts < <(git ls-files --cached --others --exclude-standard '*.sh' .ci/run)
check "shellcheck" shellcheck "${scripts[@]}"
check "yamllint" yamllint --strict .
check "ansible-lint (production)" ansible-lint --offline --profile production
check "antsibull-changelog" antsibull-changelog lint

sanity_rc=0
wait "$sanity" || sanity_rc=$?
ended() { cat "$sanity_log" && return "$sanity_rc"; }
check "ansible-test sanity" ended
# With the copy of kubernetes.core that the sanity tests use: antsibull-docs copies it again, but not what git ignores.
check "antsibull-docs" env ANSIBLE_COLLECTIONS_SCAN_SYS_PATH=0 ANSIBLE_COLLECTIONS_PATH=build/sanity \
    antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck .

if [ ${#failed[@]} -gt 0 ]; then
    echo "Lint failed: ${failed[*]}" >&2
    exit 1
fi
