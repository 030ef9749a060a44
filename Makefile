# Everything a person does with this project. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
SANDBOX := $(BIN)/python -m tests.sandbox

# What a target's recipe is about, on a terminal and in a CI log alike.
say = @printf '\n== %s\n' "$(1)"

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## install the Debian packages that are missing (root)
	@tests/tools/deps.sh requirements/debian.txt

.PHONY: venv
venv: $(VENV)/.ready build/ansible_collections/lingjun/rdma api ## .venv with the plugin, Ansible and this collection

$(VENV)/.ready: requirements/dev.txt image/pyproject.toml
	$(call say,Python environment in $(VENV) (about 90 s))
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --require-hashes --requirement requirements/dev.txt
	@# setuptools warns about editable installations in general.
	PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --no-deps --no-build-isolation --editable image
	@printf '%s\n' '$(CURDIR)/build' > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/lingjun_rdma_collection.pth"
	@touch $@

# The collection is found from a checkout through this link, without installing it.
build/ansible_collections/lingjun/rdma:
	@mkdir -p $(@D)
	@ln -sfn ../../.. $@

PROTOS := $(wildcard proto/rdma_dp/api/*.proto)
.PHONY: api
api: build/.api ## generate the gRPC code of proto/
build/.api: $(PROTOS) | $(VENV)/.ready
	@mkdir -p build
	$(BIN)/python -m grpc_tools.protoc -I proto --python_out=image --pyi_out=image --grpc_python_out=image $(PROTOS)
	@touch $@

.PHONY: image
image: deps venv ## build the plugin's and the test image into build/images/
	$(call say,Images)
	@$(BIN)/python image/build.py --output build/images

.PHONY: cluster-up
cluster-up: deps venv ## start the sandbox cluster (NODES="node-a=b300,node-b=h20")
	$(call say,Sandbox cluster)
	@$(SANDBOX) up $(if $(NODES),--nodes $(NODES))

.PHONY: cluster-down
cluster-down: ## stop the sandbox cluster and remove everything it made
	@$(SANDBOX) down

.PHONY: cluster-status
cluster-status: ## what runs of the sandbox cluster
	@$(SANDBOX) status

.PHONY: demo
demo: deps venv ## bare machine to the logs of both Jobs; the cluster stays up
	@tests/demo/demo.sh

.PHONY: demo-down
demo-down: cluster-down ## remove what `make demo` left running

.PHONY: test
test: deps venv lint ## every test
	@tests/tools/test.sh

.PHONY: test-fast
test-fast: venv ## unit and protocol tests, under a minute
	@$(BIN)/python -m pytest -q -n 2 -m 'not slow' tests/unit tests/protocol

.PHONY: lint
lint: venv ## all linters and type checks
	@tests/tools/lint.sh

.PHONY: requirements
requirements: venv ## pin the Python requirements anew
	cd image && CUSTOM_COMPILE_COMMAND="make requirements" ../$(BIN)/pip-compile $(PIP_COMPILE_FLAGS) -o requirements.txt requirements.in
	CUSTOM_COMPILE_COMMAND="make requirements" $(BIN)/pip-compile $(PIP_COMPILE_FLAGS) -o requirements/dev.txt requirements/dev.in
	cd image && CUSTOM_COMPILE_COMMAND="make requirements" ../$(BIN)/pip-compile $(PIP_COMPILE_FLAGS) -o requirements-build.txt requirements-build.in
PIP_COMPILE_FLAGS := --quiet --upgrade --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --allow-unsafe --strip-extras

.PHONY: clean
clean: ## remove .venv and build/ (stop the cluster first)
	rm -rf $(VENV) build
