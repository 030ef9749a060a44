#!/usr/bin/env bash
# The whole way on a sandbox cluster: cluster, images, site.yml, the node's resource, both Jobs with their logs.
# The cluster stays up; Ctrl-C takes it down again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

bin=.venv/bin
inventory=tests/demo/inventory.yml
export KUBECONFIG=$PWD/build/sandbox/kubeconfig
export K8S_AUTH_KUBECONFIG=$KUBECONFIG
export PYTHONUNBUFFERED=1

step() { printf '\n== [%3d s] %s\n' "$SECONDS" "$1"; }
sandbox() { "$bin/python" -m tests.sandbox "$@"; }

interrupted() {
    trap '' INT TERM
    step "Interrupted: taking the sandbox down"
    sandbox down
    exit 130
}
trap interrupted INT TERM
failed() {
    step "The demo failed; the message is above."
    echo "   The cluster, if it came up, still runs: export KUBECONFIG=build/sandbox/kubeconfig, or make demo-down to remove it."
}
trap failed ERR

step "Images of the plugin and of the test Job"
"$bin/python" image/build.py --output build/images

step "Sandbox cluster: two nodes with simulated RDMA NICs"
sandbox up --gpus 8
sandbox load-image build/images/rdma-dp.tar build/images/rdma-test.tar

step "ansible-playbook site.yml"
"$bin/ansible-playbook" -i "$inventory" site.yml

step "What the nodes offer now"
"$bin/kubectl" get nodes -o custom-columns='NODE:.metadata.name,MODE:.metadata.labels.lingjun\.rdma/mode,RDMA/HCA ALLOCATABLE:.status.allocatable.rdma/hca,CAPACITY:.status.capacity.rdma/hca'

step "ansible-playbook playbooks/rdma_test.yml"
"$bin/ansible-playbook" -i "$inventory" playbooks/rdma_test.yml

step "Done. The cluster stays up."
cat <<'TEXT'
   Look at it:     export KUBECONFIG=build/sandbox/kubeconfig PATH=$PWD/.venv/bin:$PATH
                   kubectl get nodes; kubectl -n kube-system get pods -o wide; kubectl -n kube-system logs -l app.kubernetes.io/name=rdma-dp --prefix --tail=-1
   Use it:         K8S_AUTH_KUBECONFIG=$KUBECONFIG ansible-playbook -i tests/demo/inventory.yml site.yml
   Run it again:   make demo
   Remove it:      make demo-down
TEXT
