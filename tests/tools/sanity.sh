#!/usr/bin/env bash
# ansible-test sanity over the collection, all its tests. Arguments go to ansible-test: `sanity.sh --test validate-modules`.
#
# ansible-test wants the collection in …/ansible_collections/lingjun/rdma as a real directory, kubernetes.core beside it (its
# documentation fragment is used), and a script that puts pip into the environments that it makes, which it would download.
# All of that, its environments and caches live under build/sanity; nothing outside of build/ is touched.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

checkout=$PWD
bin=$checkout/.venv/bin
root=$checkout/build/sanity
collection=$root/ansible_collections/lingjun/rdma

[ -x "$bin/ansible-test" ] || { echo "$bin/ansible-test is missing: run make venv first." >&2; exit 2; }
site=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
[ -d "$site/ansible_collections/kubernetes/core" ] || { echo "kubernetes.core is not in $site: run make venv again." >&2; exit 2; }

# The files that git knows or would take, as they are now.
rm -rf "$root/ansible_collections"
mkdir -p "$collection" "$root/ansible_collections/kubernetes" "$root/home/.ansible/test/cache" "$root/tmp"
git ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' file; do if [ -e "$file" ] || [ -L "$file" ]; then printf '%s\0' "$file"; fi; done |
    tar --create --null --no-recursion --files-from=- | tar --extract --directory="$collection"
# Without a repository around them the copies would count as part of this one, where build/ is ignored.
git init --quiet "$root"
cp -r "$site/ansible_collections/kubernetes/core" "$root/ansible_collections/kubernetes/core"

# What stands in for the downloaded script: it installs the copy of pip that Python carries along.
pip_version=$("$bin/python" - <<'PYTHON'
import pathlib
import re

import ansible_test

text = (pathlib.Path(ansible_test.__file__).parent / "_internal" / "python_requirements.py").read_text()
print(re.search(r"pip=['\"]([0-9.]+)['\"]", text).group(1).replace(".", "_"))
PYTHON
)
cat > "$root/home/.ansible/test/cache/get_pip_$pip_version.py" <<'PYTHON'
"""Install the pip that Python carries along; the arguments of the real script are not for us."""

import sys

import ensurepip

sys.argv[1:] = []
ensurepip.bootstrap(upgrade=True)
PYTHON

# The user's own settings for pip (an index, a proxy) still count.
for settings in .config/pip/pip.conf .pip/pip.conf; do
    if [ -f "$HOME/$settings" ]; then install -D -m 0600 "$HOME/$settings" "$root/home/$settings"; fi
done

cd "$collection"
exec env HOME="$root/home" TMPDIR="$root/tmp" PATH="$bin:/usr/local/bin:/usr/bin:/bin" \
    ANSIBLE_COLLECTIONS_PATH="$root" ANSIBLE_NOCOLOR=1 \
    "$bin/ansible-test" sanity --local --python default --color no "$@"
