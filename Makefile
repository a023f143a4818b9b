.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

BIN := .venv/bin
SOURCES := PYTHONPATH=shared:emulator:.

##@ Everyday

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Prepare .venv, .venv-ministack and .venv-sam
	@scripts/setup test

.PHONY: test
test: ## Run all tests but the slow ones
	@scripts/test

.PHONY: test-fast
test-fast: ## Run the tests that start no server
	@scripts/test -m "not slow and not bench and not cloud"

.PHONY: demo
demo: ## Run one real day of air traffic, from HTTP to Iceberg
	@scripts/demo

.PHONY: bench
bench: setup ## Measure, with BENCH="--quick" or other options; nothing fails on speed
	@$(SOURCES) $(BIN)/python -m tests.bench $(BENCH)

.PHONY: soak
soak: setup ## Ask for everything for minutes, with SOAK="--minutes 10"; fails if anything is lost or grows
	@$(SOURCES) $(BIN)/python -m tests.proof.soak $(SOAK)

##@ Checks (each is a test as well)

.PHONY: check
check: lint types floors reference template ## Run every check that is not a test of behaviour

.PHONY: lint
lint: setup ## Look for mistakes and for lines out of shape
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

.PHONY: types
types: setup ## Check types, strictly
	@$(BIN)/mypy

.PHONY: floors
floors: setup ## Check that imports go down only
	@$(SOURCES) $(BIN)/lint-imports --no-logo

.PHONY: reference
reference: setup ## Check that docs/reference says what the code says
	@$(BIN)/python scripts/reference --check

.PHONY: template
template: setup ## Check template.yaml with sam and cfn-lint
	@SAM_CLI_TELEMETRY=0 .venv-sam/bin/sam validate --lint --template template.yaml --region eu-central-1
	@.venv-sam/bin/cfn-lint template.yaml
	@scripts/dashboard --check

.PHONY: review
review: ## Check template.yaml with checkov
	@scripts/setup checkov
	@.venv-checkov/bin/checkov --config-file infra/checkov.yaml

##@ Changes

.PHONY: format
format: setup ## Put lines into shape and rewrite docs/reference
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .
	@$(BIN)/python scripts/reference
	@$(BIN)/python scripts/dashboard
	@$(BIN)/python -m infra.cost_model

# Pins are compiled for every Python that is supported, one version of each package for all of them
# so that a check says the same everywhere; those of deployed functions are compiled for theirs.
EVERY_PYTHON := --universal --fork-strategy fewest --python-version 3.11
DEPLOYED := --python-version 3.13 --python-platform aarch64-manylinux_2_28
COMPILE := $(BIN)/uv pip compile --quiet --no-header --no-annotate --no-emit-index-url --upgrade

# The runtime brings the SDK, which X-Ray's asks for.
BROUGHT := $(addprefix --no-emit-package ,botocore python-dateutil six urllib3)

.PHONY: pins
pins: setup ## Compile requirements/*.txt anew from pyproject.toml
	@$(COMPILE) $(EVERY_PYTHON) pyproject.toml --group build -o requirements/runtime.txt
	@$(COMPILE) $(EVERY_PYTHON) pyproject.toml --group build --group dev -c requirements/runtime.txt -o requirements/test.txt
	@$(COMPILE) $(EVERY_PYTHON) --group ministack -o requirements/ministack.txt
	@$(COMPILE) $(EVERY_PYTHON) --group seaweedfs -o requirements/seaweedfs.txt
	@$(COMPILE) $(EVERY_PYTHON) --group sam -o requirements/sam.txt
	@$(COMPILE) $(EVERY_PYTHON) --group checkov -o requirements/checkov.txt
	@$(COMPILE) $(DEPLOYED) $(BROUGHT) --group thin -c requirements/runtime.txt -o requirements/thin.txt
	@$(COMPILE) $(DEPLOYED) --group thin --group lake -c requirements/runtime.txt -o requirements/lake.txt
	@$(COMPILE) $(DEPLOYED) --group thin --group lake --group agents -c requirements/runtime.txt -o requirements/agents.txt

##@ Deployment

.PHONY: build
# What was built for one machine is deployed for it, without a word, or refused by CloudFormation.
build: setup ## Build all functions into .aws-sam, for ARCHITECTURE=arm64 or x86_64
	@SAM_CLI_TELEMETRY=0 .venv-sam/bin/sam build --config-file infra/samconfig.toml --build-dir $(BUILT) \
	  --parameter-overrides Architecture=$(ARCHITECTURE)
	@sed -i.asked -E -e '/^  Architecture:$$/,/^    Description:/ s/Default: .*/Default: $(ARCHITECTURE)/' \
	  -e '/^  Architecture:$$/,/^    Description:/ { /^    - $(ARCHITECTURE)$$/!{ /^    - /d; }; }' $(BUILT)/template.yaml
	@rm $(BUILT)/template.yaml.asked

BUILT ?= .aws-sam/build

# sam build calls build-<logical id> of infra/build/<Architecture>/Makefile in this folder, with ARTIFACTS_DIR set.
# The platform tags name the C library that the runtime's Amazon Linux has at least.
export ARCHITECTURE ?= arm64
export PYTHON_VERSION ?= 3.13
MACHINE := $(if $(filter arm64,$(ARCHITECTURE)),aarch64,x86_64)
# uv does in a second what takes pip ten.
PIP_FOR_LAMBDA = $(if $(wildcard $(BIN)/uv),$(UV_FOR_LAMBDA),$(BIN)/python -m pip install -qq \
  --disable-pip-version-check --no-compile --no-deps \
  --implementation cp --python-version $(PYTHON_VERSION) --only-binary=:all: \
  --platform manylinux_2_28_$(MACHINE) --platform manylinux2014_$(MACHINE) --target)
UV_FOR_LAMBDA = UV_PYTHON_DOWNLOADS=never UV_SYSTEM_CERTS=true $(BIN)/uv pip install --quiet \
  --no-deps --python-version $(PYTHON_VERSION) --only-binary :all: --link-mode copy \
  --python-platform $(MACHINE)-manylinux_2_28 --target

define code # folder of the function
	cp -R shared/perdure shared/airspace functions/$(1)/app.py "$(ARTIFACTS_DIR)"
	find "$(ARTIFACTS_DIR)" -type d -name __pycache__ -prune -exec rm -rf {} +
	rm -f "$(ARTIFACTS_DIR)"/airspace/data/*.gz
	rm -f "$(ARTIFACTS_DIR)"/.lock
endef

# What a function never loads: the SDK that the runtime brings, Arrow's flight server, the Hive
# catalog, colours for terminals, second names of the same libraries, headers, tests, a second
# engine of zstandard, and what makes SQLAlchemy fast (no function has an SQL catalog).
# Symbols go where the machine's own `strip` knows the other machine's files. Libraries in *.libs
# were moved by their packager already: they do not survive it.
define slim
	cd "$(ARTIFACTS_DIR)" && rm -rf boto3* botocore* s3transfer* bin hive_metastore pygments \
	  pyarrow/include pyarrow/tests pyarrow/src pyarrow/libarrow_flight* pyarrow/_flight* \
	  pyarrow/libarrow*.so pyarrow/libarrow*.so.*.*.* pyarrow/_pyarrow_cpp_tests* \
	  numpy/_core/include numpy/_core/lib numpy/f2py zstandard/_cffi*
	find "$(ARTIFACTS_DIR)/sqlalchemy" -name '*.so' -delete
	find "$(ARTIFACTS_DIR)" \( -name '*.pyx' -o -name '*.pxd' -o -name '*.pyi' -o -name '*.h' -o -name '*.hpp' \) -delete
	find "$(ARTIFACTS_DIR)" -type d -name tests -prune -exec rm -rf {} +
	if [ "$$(uname -m)" = $(MACHINE) ] && command -v strip >/dev/null; then \
	  find "$(ARTIFACTS_DIR)" -name '*.so*' -not -path '*.libs/*' -exec strip --strip-unneeded {} +; fi
endef

# The layer of the functions without Arrow: packages change seldom, so what is deployed daily stays small.
.PHONY: build-Packages
build-Packages:
	$(PIP_FOR_LAMBDA) "$(ARTIFACTS_DIR)/python" --requirement requirements/thin.txt
	rm -f "$(ARTIFACTS_DIR)"/python/.lock

define build-thin # logical id, folder
.PHONY: build-$(1)
build-$(1):
	$$(call code,$(2))
endef
$(eval $(call build-thin,ApiFunction,api))
$(eval $(call build-thin,DispatchFunction,dispatch))

define build-with-arrow # logical id, folder, packages
.PHONY: build-$(1)
build-$(1):
	$$(PIP_FOR_LAMBDA) "$$(ARTIFACTS_DIR)" --requirement requirements/$(3).txt
	$$(call code,$(2))
	$$(slim)
endef
$(eval $(call build-with-arrow,QueryFunction,query,lake))
$(eval $(call build-with-arrow,TickFunction,tick,lake))
$(eval $(call build-with-arrow,LandFunction,land,lake))
$(eval $(call build-with-arrow,SessionsFunction,sessions,agents))
$(eval $(call build-with-arrow,JobsFunction,jobs,lake))
