# `make help` lists the targets of a newcomer, `make help-all` all. Nothing here
# needs more than Go, and a C compiler for the race detector: tools and the
# control plane are built from the modules that hack/*/go.mod pin, into Go's
# build cache and the user's cache.
#
# The manager, the demo, the control plane and the tests of `make test` are
# compiled with Go's own flags and without the race detector, as `go test` does
# it, so that each package is compiled once for all of them.

SHELL := /usr/bin/env bash -euo pipefail
.DEFAULT_GOAL := help

TOOL           := go tool -modfile=hack/tools/go.mod
GOLANGCI_LINT  := $(TOOL) golangci-lint
CONTROLLER_GEN := $(TOOL) controller-gen
HELM_DOCS      := go tool -modfile=hack/chart/go.mod helm-docs --chart-search-root=charts --sort-values-order=file --log-level=warning

# What --version says. A checkout without tags has its commit for a version,
# and sources without a checkout have none.
VERSION  ?= $(shell git describe --tags --match='v*' --always --dirty 2>/dev/null || echo devel)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
# Where messages lead to: the files of this repository, at the tag of a release, or a site that shows them under the same paths.
DOCS_URL ?= https://github.com/archelon-io/archelon/blob/$(shell git describe --tags --match='v*' --exact-match 2>/dev/null || echo main)
LDFLAGS   = -X github.com/archelon-io/archelon/internal/version.version=$(VERSION) -X github.com/archelon-io/archelon/internal/version.revision=$(REVISION) -X github.com/archelon-io/archelon/internal/docs.base=$(DOCS_URL)

# Libraries are modules of their own, which others import. `./...` of this one does not see them, and neither do tools that go by that: each of
# them is called once more for each library, in its directory. They are no workspace, because tools are run with -modfile, which a workspace
# refuses, and because a workspace would compile them with other versions than their users have.
LIBRARIES := identity providers/capi

# For a part of the tests: make test-unit PKG=./internal/status FOCUS=TestTable
PKG   ?=
FOCUS ?=
# Further flags of go test or ginkgo: make test-unit PKG=./internal/status TESTFLAGS=-v
TESTFLAGS ?=
# For the demo: make demo ARGS=--help
ARGS ?=

##@ General

NEWCOMER := demo test test-unit lint generate
DESCRIBE  = awk 'BEGIN { FS = ":.*\#\# " } \
	/^\#\#@/ { heading = substr($$0, 5) } \
	/^[a-z0-9-]+:.*\#\# / && ("$(1)" == "" || index(" $(1) ", " " $$1 " ")) { \
		if (heading != "" && "$(1)" == "") printf "\n%s\n", heading; \
		heading = ""; printf "  %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: help
help: ## Show the targets that a newcomer needs.
	@$(call DESCRIBE,$(NEWCOMER))
	@printf '\nOne package:             make test-unit PKG=./internal/status FOCUS=TestTable\nAll targets:             make help-all\n'

.PHONY: help-all
help-all: ## Show all targets.
	@$(call DESCRIBE)

##@ Build

.PHONY: build
build: manager ## Compile everything.
	go build ./...
	@$(foreach library,$(LIBRARIES),go -C $(library) build ./... || exit 1;)

.PHONY: manager
manager: ## Build bin/archelon.
	go build -ldflags='$(LDFLAGS)' -o bin/archelon .

.PHONY: controlplane
controlplane: ## Build etcd, kube-apiserver, kube-controller-manager and kubectl, unless they are there.
	@hack/controlplane/build.sh

.PHONY: helm
helm: ## Build helm, helm-unittest and kubeconform, unless they are there.
	@hack/chart/build.sh

.PHONY: prepare
prepare: ## Build all that make test runs, and say how long each part took.
	@hack/prepare.sh

.PHONY: capi
capi: controlplane ## Build the controllers of Cluster API that test-e2e-capi runs, unless they are there.
	@hack/capi/build.sh

.PHONY: metal3
metal3: ## Build the operator and the provider of Metal3 and the clusterctl that test-hostclaim runs, unless they are there.
	@hack/metal3/build.sh

.PHONY: demo
demo: controlplane helm ## Show imports against real API servers and a stand-in of Rancher (ARGS=...).
	@echo "Compiling the demo; the first time this takes some minutes."
	@go run ./hack/demo $(ARGS)

# docs/development/site.md has more.
.PHONY: docs
docs: ## Build the site of the documentation from the Markdown in bin/site.
	@rm -rf bin/site
	@go -C hack/site run . build --root='$(CURDIR)' --out='$(CURDIR)/bin/site'
	@echo "The site is bin/site/index.html."

.PHONY: docs-recording
docs-recording: controlplane helm ## Run the demo and draw what it prints, for the documentation.
	@go build -o bin/demo ./hack/demo
	@go -C hack/site build -o '$(CURDIR)/bin/recorder' .
	@bin/recorder record --out=docs/demo.svg --title='make demo ARGS=--once' -- bin/demo --once

.PHONY: docs-dashboard
docs-dashboard: controlplane helm ## Run the demo and its story of the fleet, and draw the dashboard with the metrics of their managers, for the documentation.
	@go build -o bin/demo ./hack/demo
	@go -C hack/prometheus build -o '$(CURDIR)/bin/dashboard' ./dashboard
	@rm -f bin/metrics.txt
	@export ARCHELON_DEMO_METRICS='$(CURDIR)/bin/metrics.txt'; for story in --once fleet; do bin/demo $$story; done
	@bin/dashboard --metrics=bin/metrics.txt --dashboard=charts/archelon/files/dashboard.json --out=docs/dashboard.svg

# scratch, or an image in a registry with all the platforms, for example gcr.io/distroless/static:nonroot.
IMAGE_BASE      ?= scratch
IMAGE_PLATFORMS ?= linux/amd64,linux/arm64
# The time of the commit, so that whoever builds it again gets the same image.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
.PHONY: image
image: ## Build the image for IMAGE_PLATFORMS as OCI layout bin/image, with bills of materials, and print its digest.
	@go -C hack/image run . build --layout='$(CURDIR)/bin/image' --base='$(IMAGE_BASE)' --platforms='$(IMAGE_PLATFORMS)' \
		--version='$(VERSION)' --revision='$(REVISION)' --epoch='$(SOURCE_DATE_EPOCH)' --ldflags='$(LDFLAGS)'

.PHONY: image-push
image-push: ## Build and push that image (IMAGE_REPO=registry/name, IMAGE_TAG=VERSION), with the credentials that docker login left.
	@[[ -n '$(IMAGE_REPO)' ]] || { echo "say where: make image-push IMAGE_REPO=registry/name"; exit 1; }
	@$(MAKE) --no-print-directory image
	@go -C hack/image run . push --layout='$(CURDIR)/bin/image' '$(IMAGE_REPO):$(or $(IMAGE_TAG),$(VERSION))'

.PHONY: schemas
schemas: ## Make JSON schemas of Kubernetes' kinds and others for kubeconform, and check that they are strict.
	@hack/schemas/check.sh

##@ Release

# Where the image and the chart of a release are. A fork has its own.
RELEASE_IMAGE  ?= ghcr.io/archelon-io/archelon
RELEASE_CHARTS ?= ghcr.io/archelon-io/charts
HELM           := go tool -modfile=hack/chart/go.mod helm
# For a registry without TLS: --plain-http
HELM_PUSH_FLAGS ?=

# What is pushed is in bin/image, what is published beside it in bin/release.
.PHONY: release
release: ## Build all that release VERSION has, a tag with a section in CHANGELOG.md: image, chart, programs, bills of materials, checksums, notes. No network.
	@rm -rf bin/release && mkdir -p bin/release
	@go run ./hack/release notes --version='$(VERSION)' > bin/release-notes.md
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	digest=$$($(MAKE) --silent --no-print-directory image); \
	go run ./hack/release chart --version='$(VERSION)' --image='$(RELEASE_IMAGE)' --digest="$$digest" --out="$$tmp/archelon"; \
	$(HELM) package "$$tmp/archelon" --destination=bin/release; \
	go run ./hack/release settle --epoch='$(SOURCE_DATE_EPOCH)' bin/release/archelon-*.tgz
	@cp bin/image/sbom/* bin/image/programs/* bin/release
	@cd bin/release && sha256sum -- * > "$$OLDPWD/bin/checksums.txt" && mv "$$OLDPWD/bin/checksums.txt" .

.PHONY: release-push
release-push: ## Push the image and the chart that make release has built, and print where they are, with their digests.
	@image=$$(go -C hack/image run . push --layout='$(CURDIR)/bin/image' '$(RELEASE_IMAGE):$(VERSION)'); \
	pushed=$$($(HELM) push $(HELM_PUSH_FLAGS) bin/release/archelon-*.tgz 'oci://$(RELEASE_CHARTS)' 2>&1) || { echo "$$pushed" >&2; exit 1; }; \
	printf '%s\n' "image=$$image" "chart=$(RELEASE_CHARTS)/archelon@$$(sed -n 's/^Digest: //p' <<< "$$pushed")" | tee bin/pushed

COSIGN := go tool -modfile=hack/sign/go.mod cosign
# For another sigstore than the public one: --signing-config=FILE --trusted-root=FILE
COSIGN_FLAGS ?=

# There is no key: the identity that signs is that of the workflow whose job this runs in.
.PHONY: release-sign
release-sign: ## Sign what make release-push has pushed, and attach where it was built and what it consists of; the same for the checksums, in bin/release.
	@go run ./hack/release provenance --revision='$(REVISION)' > bin/provenance.json
	@. bin/pushed; provenance='--type=slsaprovenance1 --predicate=bin/provenance.json'; \
	$(COSIGN) sign --yes $(COSIGN_FLAGS) "$$image" "$$chart"; \
	for subject in "$$image" "$$chart"; do $(COSIGN) attest --yes $(COSIGN_FLAGS) $$provenance "$$subject"; done; \
	for bom in bin/release/*.spdx.json; do $(COSIGN) attest --yes $(COSIGN_FLAGS) --type=spdxjson --predicate="$$bom" "$$image"; done; \
	$(COSIGN) attest-blob --yes $(COSIGN_FLAGS) $$provenance --bundle=bin/release/checksums.txt.sigstore.json bin/release/checksums.txt

##@ Generate

.PHONY: generate
generate: generate-api generate-rbac generate-flags generate-decisions generate-chart ## Run all generators.

# Of the types below api that have markers: their deep copies beside them, and their CRDs in the chart. There is nothing to write of a package without.
# The kinds below api/infrastructure are views of others' CRDs, which are not to be replaced.
API_PATHS = $(foreach group,$(filter-out ./api/infrastructure/,$(wildcard ./api/*/)),paths=$(group)...)
.PHONY: generate-api
generate-api: ## Deep copies and CRDs of the types below api.
	@rm -rf charts/archelon/files/crds
	$(CONTROLLER_GEN) object $(API_PATHS)
	$(CONTROLLER_GEN) crd $(API_PATHS) output:crd:dir=charts/archelon/files/crds
	api/infrastructure/generate.sh

.PHONY: generate-rbac
generate-rbac: ## The roles in config, and what they are made of in the chart, from the kubebuilder:rbac markers of each package.
	go run ./hack/rbac --controller-gen='$(CONTROLLER_GEN)'

.PHONY: generate-chart
generate-chart: ## The README of the chart from the comments in its values.yaml.
	$(HELM_DOCS)

.PHONY: generate-flags
generate-flags: ## The tables in docs/operations/flags.md from the definitions of the flags.
	go run ./hack/flags

DECISIONS = go test -count=1 -p=1 -run='^TestThePageOfDecisions$$' ./internal/import ./internal/hostclaim/baremetal ./internal/hostclaim/remote ./internal/hostclaim/machines
.PHONY: generate-decisions
generate-decisions: ## The pages docs/development/*decisions.md from what the Decide functions say.
	$(DECISIONS) -archelon.decisions

.PHONY: verify
verify: verify-api verify-rbac verify-flags verify-decisions verify-chart verify-modules ## Check that what is generated is up to date.

# It leaves what it has generated: that is what is to be committed if it differs.
.PHONY: verify-api
verify-api:
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; mkdir -p charts/archelon/files/crds; cp -r api identity charts/archelon/files/crds "$$tmp"; \
	$(MAKE) --no-print-directory --silent generate-api; mkdir -p charts/archelon/files/crds; \
	diff -r -u "$$tmp/api" api && diff -r -u "$$tmp/identity" identity && diff -r -u "$$tmp/crds" charts/archelon/files/crds || { echo "deep copies or CRDs were stale: commit what is generated now"; exit 1; }

.PHONY: verify-rbac
verify-rbac:
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	go run ./hack/rbac --controller-gen='$(CONTROLLER_GEN)' --to="$$tmp"; \
	(cd "$$tmp" && find . -type f) | while read -r file; do diff -u "$$file" "$$tmp/$$file" || { echo "$$file is stale: run make generate"; exit 1; }; done; \
	diff <(ls charts/archelon/files/permissions) <(ls "$$tmp/charts/archelon/files/permissions") || { echo "a file of permissions is stale: run make generate"; exit 1; }

.PHONY: verify-chart
verify-chart:
	@$(HELM_DOCS) --dry-run | diff -u charts/archelon/README.md - || { echo "charts/archelon/README.md is stale: run make generate"; exit 1; }

.PHONY: verify-flags
verify-flags:
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	cp docs/operations/flags.md "$$tmp"; go run ./hack/flags --page="$$tmp/flags.md"; \
	diff -u docs/operations/flags.md "$$tmp/flags.md" || { echo "docs/operations/flags.md is stale: run make generate"; exit 1; }

.PHONY: verify-decisions
verify-decisions:
	@$(DECISIONS)

.PHONY: verify-modules
verify-modules:
	@go mod tidy -diff || { echo "go.mod or go.sum is stale: run go mod tidy"; exit 1; }
	@$(foreach library,$(LIBRARIES),go -C $(library) mod tidy -diff || { echo "go.mod or go.sum of $(library) is stale: run go -C $(library) mod tidy"; exit 1; };)

##@ Check

# What is wrong with the texts of the project, not with the program: the program is for make test.
.PHONY: lint
lint: ## Lint the code, and check generated files, workflows, alerts and documentation.
	@go run ./hack/tiers -once=lint-go,lint-workflows,verify,test-alerts,test-docs lint-go lint-workflows verify test-alerts test-docs

.PHONY: lint-go
lint-go: ## golangci-lint for all modules, and that it keeps the layers.
	$(GOLANGCI_LINT) run ./...
	@$(foreach library,$(LIBRARIES),(cd $(library) && go tool -modfile=$(CURDIR)/hack/tools/go.mod golangci-lint run ./...) || exit 1;)
	cd hack/image && go tool -modfile=../tools/go.mod golangci-lint run ./...
	cd hack/sign && go tool -modfile=../tools/go.mod golangci-lint run ./...
	cd hack/site && go tool -modfile=../tools/go.mod golangci-lint run ./...
	cd hack/prometheus && go tool -modfile=../tools/go.mod golangci-lint run ./...
	@hack/lint/layers.sh $$($(TOOL) -n golangci-lint)

.PHONY: lint-workflows
lint-workflows: ## actionlint for the workflows of GitHub.
	go tool -modfile=hack/actions/go.mod actionlint -shellcheck= -pyflakes= .github/workflows/*.yaml

.PHONY: lint-fix
lint-fix: ## Lint and fix what can be fixed by itself.
	$(GOLANGCI_LINT) run --fix ./...
	@$(foreach library,$(LIBRARIES),(cd $(library) && go tool -modfile=$(CURDIR)/hack/tools/go.mod golangci-lint run --fix ./...) || exit 1;)

# Not part of make test: it needs the network, and says something else each day.
VULNDB ?= https://vuln.go.dev
.PHONY: vuln
vuln: ## Look for known vulnerabilities in what the manager calls (VULNDB=URL for a mirror, file:// too).
	@code=0; $(TOOL) govulncheck -db='$(VULNDB)' . || code=$$?; \
	if ((code != 0 && code != 3)); then \
		echo "vuln: nothing was checked: the database $(VULNDB) cannot be reached, or the code does not compile (see above)" >&2; \
	fi; \
	exit $$code

# One after the other: beside each other they wait for processors, and a test that waits long enough fails. test-e2e is the last, so that
# the last lines of a run are the summary of the manager as a whole.
TIERS := test-unit test-simulation test-chart test-claims test-integration test-import test-e2e
# The specs of test-import and test-e2e are among those of test-e2e-long, those of test-integration among those of
# test-integration-long. test-e2e-kind is in neither list: it needs a Docker engine.
ALL   := prepare test-unit test-simulation test-chart lint test-race test-integration-long test-simulation-long test-mutation test-image test-tools test-e2e-long test-e2e-isolated test-e2e-everything test-helm4 test-e2e-capi-long test-hostclaim test-state test-docs-browser

.PHONY: test
test: ## Prove that the program works: what has to pass before a commit, beside make lint.
	@go run ./hack/tiers -once=prepare,test-simulation prepare $(TIERS)

.PHONY: test-all
test-all: ## The same with everything that takes long, but for test-e2e-kind.
	@go run ./hack/tiers -once=prepare,lint,test-race,test-simulation,test-simulation-long,test-mutation $(ALL)

# What runs tiers asks by this variable for times and failures of tests.
JSON  := $(if $(ARCHELON_TIMES),-json)
TIMED := $(if $(ARCHELON_TIMES),| go run ./hack/tiers -)
# go vet is a part of make lint, and no test needs tables for a debugger, without which a test links in half the time.
GOTEST = go test $(JSON) -vet=off -ldflags='-s -w' -count=1
# The same for packages of libraries, and which of them: PKG=./identity/api/v1beta2 is one of them. Each line of a recipe is a call of its own.
IN_LIBRARY = $(strip $(foreach library,$(LIBRARIES),$(filter ./$(library) ./$(library)/%,$(PKG))))
PKGS_OF    = $(if $(PKG),$(patsubst ./$(1)%,.%,$(filter ./$(1) ./$(1)/%,$(PKG))),./...)
define TEST_LIBRARY
$(if $(call PKGS_OF,$(1)),$(subst go test,go -C $(1) test,$(2)) $(call PKGS_OF,$(1)) $(TIMED) $(MATCHED))

endef

# A FOCUS that matches nothing fails. One of Go's tests is looked for in one package, because it matches nothing in most others.
FOCUSED = $(if $(FOCUS),$(if $(PKG),,@echo "FOCUS needs the package, too: PKG=./internal/status"; exit 1))
RUN     = $(if $(FOCUS),-run="$$FOCUS")
MATCHED = $(if $(FOCUS),| awk '{ print } /^ok / && !/no tests to run/ { ran = 1 } /no tests to run/ { none = 1 } \
	END { if (none && !ran) { print "FOCUS matches no test"; exit 1 } }')
export FOCUS

.PHONY: test-chart
test-chart: helm ## The Helm chart: its values and what it renders; no network, no cluster.
	$(GOTEST) -timeout=45m $(RUN) $(TESTFLAGS) ./test/chart $(TIMED) $(MATCHED)

.PHONY: test-alerts
test-alerts: helm ## That the alerts of the chart fire, by promtool, and the picture of its dashboard.
	go -C hack/prometheus build -o '$(CURDIR)/bin/promtool' github.com/prometheus/prometheus/cmd/promtool
	PROMTOOL='$(CURDIR)/bin/promtool' $(GOTEST) $(TESTFLAGS) ./test/chart/alerts $(TIMED)
	go -C hack/prometheus test $(JSON) -count=1 $(TESTFLAGS) ./dashboard $(TIMED)

# Tests of the documentation and of the tools are in test-docs, simulations in test-simulation.
UNIT = $(or $(PKG),$$(go list ./... | grep -v -e /test/ -e /docs -e /hack/) ./test/simulation)
.PHONY: test-unit
test-unit: ## Tests beside the code; one package: PKG=./internal/status, with FOCUS=TestTable one test.
	$(FOCUSED)
	$(if $(IN_LIBRARY),,$(GOTEST) -short -shuffle=on -timeout=30m $(or $(RUN),-skip='$(SIMULATION)') $(TESTFLAGS) $(UNIT) $(TIMED) $(MATCHED))
	$(foreach library,$(LIBRARIES),$(call TEST_LIBRARY,$(library),$(GOTEST) -short -shuffle=on -timeout=30m $(RUN) $(TESTFLAGS)))

# Packages in which goroutines of ours share memory. A new one that starts goroutines belongs here. What runs in a reconciler alone is not
# shared: controller-runtime runs one for each object. The suite of HostClaims is tested with the detector, too: its controllers share
# connections and memories with each other, and run in the process of the test.
RACE += ./internal/edge/...       # the Lease on Rancher's side, renewed beside controllers
RACE += ./internal/fleet/...      # the health of agents, read from many caches
RACE += ./internal/hostclaim/...  # connections to other clusters, opened and closed beside claims
RACE += ./internal/identity/...   # checks of credentials beside reconcilers
RACE += ./internal/import         # jobs, memories and watches that all imports share
RACE += ./internal/instance       # Leases of instances, renewed and observed
RACE += ./internal/rancher        # downloads of manifests and their cache
RACE += ./internal/rolekeeper     # one follower for each namespace
RACE += ./internal/scrape         # scrapes beside each other
RACE += ./internal/setup          # start and end of all controllers
RACE += ./internal/shard          # namespaces that come and go beside caches
RACE += ./internal/status         # questions to many clusters at once
RACE += ./internal/workload       # connections that imports share

# Libraries go with the detector as a whole: clusters come and go beside their readers.
RACED = go test $(JSON) -vet=off -ldflags='-s -w' -race -short -timeout=45m $(RUN) $(TESTFLAGS)
.PHONY: test-race
test-race: controlplane helm ## Tests with the race detector, of the packages whose goroutines meet; one package: PKG=./providers/capi.
	$(if $(IN_LIBRARY),,$(RACED) $(or $(PKG),$(RACE)) $(TIMED) $(MATCHED))
	$(foreach library,$(LIBRARIES),$(call TEST_LIBRARY,$(library),$(RACED)))
	$(if $(PKG),,$(GINKGO) --race $(TESTFLAGS) ./test/integration/hostclaim)

# A simulation is one process in which nothing happens at the same time, so it goes without the race detector; test-race walks some schedules
# with it. It has one processor, and two of them go beside each other: on two processors a fifth of the time of each went into waking the other.
SIMULATION  = Simulation|^TestUpheaval$$
SIMULATE    = $(GOTEST) -cpu=1 -v -timeout=30m $(TESTFLAGS) ./internal/import
SIMULATED   = ./internal/instance ./internal/identity/... ./internal/hostclaim/... ./internal/edge/...
TWO         = $(MAKE) --no-print-directory -j2 $(if $(filter output-sync,$(.FEATURES)),-O)
SIMULATIONS = simulation-v3 simulation-v1 simulation-kind simulation-partitions
.PHONY: test-simulation
test-simulation: ## All controllers in simulated worlds: the import in 53,000, the same each time.
	@$(TWO) $(SIMULATIONS) simulation-others

.PHONY: test-simulation-long
test-simulation-long: ## The import with many schedules, others each time.
	@$(TWO) $(SIMULATIONS) TIMES=4 SEED=-rapid.seed=$$(date +%s)

# They walk so many times the schedules of make test.
TIMES ?= 1
.PHONY: $(SIMULATIONS) simulation-others
simulation-v3 simulation-v1: simulation-%:
	$(SIMULATE) -run='^TestSimulation$$/^$*$$' -rapid.checks=$$((16000 * $(TIMES))) $(SEED) $(TIMED)

simulation-kind:
	$(SIMULATE) -run='^TestSimulationOfAFlippedGate$$' -rapid.checks=$$((4500 * $(TIMES))) $(SEED) $(TIMED)

simulation-partitions:
	$(SIMULATE) -run='^TestSimulationOfPartitions$$' -rapid.checks=$$((6000 * $(TIMES))) $(SEED) $(TIMED)

simulation-others:
	$(GOTEST) -timeout=30m -run='$(SIMULATION)' $(TESTFLAGS) $(SIMULATED) $(TIMED)
	$(GOTEST) -timeout=30m -run='^TestSimulationOfRaces$$' $(TESTFLAGS) ./internal/import $(TIMED)

# Not part of make test: tests that have not changed find what they found.
MUTATE = go run ./hack/mutate --package=./internal/import
FIND   = '-test.run=^(TestDecide|TestThe)' '-test.run=^TestSimulation$$ -rapid.checks=300 $(FOUND)' '-test.skip=^(TestSimulation.*|Fuzz.*)$$'
FOUND  = -rapid.seed=1 -rapid.nofailfile -rapid.shrinktime=1ms
.PHONY: test-mutation
test-mutation: ## Change 60 tokens of the rules of the import, twice, and have tests find all but a few of the changes, and all races that were fixed.
	$(MUTATE) --files=decide.go --count=60 --seed=1 --at-least=57 -- $(FIND)
	$(MUTATE) --files=decide.go --count=60 --seed=18 --at-least=57 -- $(FIND)
	$(MUTATE) --list=internal/import/testdata/races.yaml -- '-test.run=^TestSimulationOfRaces$$' '-test.run=^TestSimulation$$ -rapid.checks=2000 $(FOUND)' '-test.run=^TestSimulationOfPartitions$$ -rapid.checks=2000 $(FOUND)' '-test.run=^TestSimulationOfAFlippedGate$$ -rapid.checks=2000 $(FOUND)'

# Not part of make test: it builds all of a release, twice, and cosign, which takes minutes the first time.
.PHONY: test-image
test-image: ## Build the image and look at what is in it; release, sign and verify it with a registry and a sigstore on loopback.
	go -C hack/image test $(JSON) -count=1 -timeout=45m $(TESTFLAGS) ./... $(TIMED)
	go -C hack/sign test $(JSON) -count=1 -timeout=45m $(TESTFLAGS) ./... $(TIMED)

.PHONY: test-docs
test-docs: ## That the documentation and the code agree, that tools of the project work, and every link in the site of the documentation.
	$(GOTEST) -timeout=30m $(TESTFLAGS) ./docs/... $$(go list ./hack/...) $(TIMED)
	go -C hack/site test $(JSON) -count=1 $(TESTFLAGS) . ./diagram ./recording $(TIMED)

# Not part of make test: it needs a Chromium, which is no Go module.
.PHONY: test-docs-browser
test-docs-browser: docs ## Look at the site in a real browser: search, dark and light, phones. Its pictures are in bin/screenshots.
	go -C hack/site test $(JSON) -count=1 $(TESTFLAGS) ./browser $(TIMED)

# Not part of make test: its client-go is another one than that of everything else, and takes minutes to compile.
.PHONY: test-state
test-state: ## Have kube-state-metrics read examples/kube-state-metrics.yaml.
	go -C hack/state test $(JSON) -count=1 $(TESTFLAGS) ./... $(TIMED)

# Three packages at a time, which wait most of the time: each starts API servers of its own. The longest are the first,
# so that none is alone at the end.
INTEGRATION = ./test/integration/edge ./test/integration/identity $$(go list ./test/integration/... | grep -v -E '/integration/(edge|hostclaim|identity|import)$$')
FOCUSSPEC   = $(if $(FOCUS),-ginkgo.focus="$$FOCUS" -ginkgo.fail-on-empty)
.PHONY: test-integration
test-integration: controlplane helm ## Each controller but those of imports and HostClaims, against real API servers; one suite: PKG=./test/integration/plan, with FOCUS='says what' some specs.
	$(FOCUSED)
	$(GOTEST) -p=3 -timeout=45m $(TESTFLAGS) $(or $(PKG),$(INTEGRATION)) -ginkgo.label-filter='$(CORE)' $(FOCUSSPEC) $(TIMED)

.PHONY: test-integration-long
test-integration-long: controlplane helm ## The same with the race detector, and those for the night, too.
	go test $(JSON) -race -count=1 -p=2 -timeout=60m $(TESTFLAGS) $(INTEGRATION) $(TIMED)

# Not part of make test: what other tests are made of seldom changes, and where it is wrong they fail.
.PHONY: test-tools
test-tools: controlplane helm ## The stand-ins, the test environment and a small benchmark, against real API servers.
	go test $(JSON) -race -count=1 -p=2 -timeout=30m $(TESTFLAGS) ./test/standin/rancher \
		$$(go list ./test/... | grep -v -e /test/e2e -e /test/chart -e /test/integration -e /test/simulation) $(TIMED)

# Scenarios wait much of the time, so three at once are no hindrance to each other on two processors. A part: make test-e2e FOCUS=Watches
# Labels say where a spec runs that is not in make test: nightly in test-e2e-long and in its three variants, or in test-integration-long; long in
# test-e2e-long alone.
CORE   := !nightly && !long
PROCS  := 3
GINKGO = go run github.com/onsi/ginkgo/v2/ginkgo run --procs=$(PROCS) --timeout=90m --no-color --output-interceptor-mode=none --vet=off --ldflags='-s -w' \
	$(if $(FOCUS),--focus="$$FOCUS" --fail-on-empty)

# Four at once, because what is tested is in the process of the tests: each starts fewer programs.
test-claims test-import test-race: PROCS := 4
.PHONY: test-claims
test-claims: controlplane helm ## The controllers of HostClaims, in the process of the tests, against real API servers.
	$(GINKGO) $(TESTFLAGS) ./test/integration/hostclaim

.PHONY: test-import
test-import: controlplane helm ## The import alone, in the process of the tests, against real API servers, without the specs for the night.
	$(GINKGO) --label-filter='$(CORE)' $(TESTFLAGS) ./test/integration/import

# Together they are what the manager is shown by; each label and each flag below is for both.
SUITES := ./test/integration/import ./test/e2e

# Each story of the documentation once, with the program as it is released. The race detector is in test-e2e-long and test-integration-long:
# test-import would take half as long again with it.
.PHONY: test-e2e
test-e2e: controlplane helm ## The whole manager against real API servers, end to end, without the specs for the night.
	$(GINKGO) --label-filter='$(CORE) && !capi && !kind-only' $(TESTFLAGS) ./test/e2e -- -archelon.race=false

.PHONY: test-e2e-long
test-e2e-long: controlplane helm ## All specs of both suites, those for the night and the long ones too, but those of test-e2e-capi and test-e2e-kind.
	$(GINKGO) --race --label-filter='!capi && !kind-only' $(TESTFLAGS) $(SUITES)

.PHONY: test-e2e-isolated
test-e2e-isolated: controlplane helm ## Both suites without the long specs, with the chart installed for named namespaces.
	$(GINKGO) --race --label-filter='!long && !capi && !kind-only' $(TESTFLAGS) $(SUITES) -- -archelon.isolated

.PHONY: test-e2e-everything
test-e2e-everything: controlplane helm ## Both suites without the long specs, with the features of the chart on that are off by default.
	$(GINKGO) --race --label-filter='!long && !capi && !kind-only' $(TESTFLAGS) $(SUITES) -- -archelon.values=$(CURDIR)/test/e2e/testdata/everything.yaml

# What is about no Helm is not repeated.
.PHONY: test-helm4
test-helm4: export ARCHELON_HELM = hack/helm4/go.mod
test-helm4: controlplane helm ## The chart, and the end-to-end specs of releases, with Helm 4.
	@env -u ARCHELON_HELM hack/chart/build.sh
	$(GOTEST) -timeout=45m $(TESTFLAGS) ./test/helm ./test/chart ./test/integration/chart $(TIMED)
	$(GINKGO) --label-filter='!long && !capi && !kind-only' --focus='[Rr]elease' $(TESTFLAGS) ./test/e2e -- -archelon.race=false

.PHONY: test-e2e-feature
FEATURE ?= adoption
test-e2e-feature: controlplane helm ## Both suites without the long specs, with one of the features on: FEATURE=adoption.
	$(GINKGO) --race --label-filter='!long && !capi && !kind-only' $(TESTFLAGS) $(SUITES) -- -archelon.values=$(CURDIR)/test/e2e/testdata/$(FEATURE).yaml

# One process: there can be one in-memory infrastructure on a machine. docs/development/testing.md has more.
.PHONY: test-e2e-capi
test-e2e-capi: capi helm ## End-to-end specs with the real controllers of Cluster API, without 100 clusters at once.
	$(GINKGO) --procs=1 --label-filter='capi && !long' $(TESTFLAGS) ./test/e2e

.PHONY: test-e2e-capi-long
test-e2e-capi-long: capi helm ## All end-to-end specs with the real controllers of Cluster API.
	$(GINKGO) --procs=1 --label-filter='capi' $(TESTFLAGS) ./test/e2e

# Not part of make test: the operator has to be built once, and clusterctl repeats for most of a minute what fails.
.PHONY: test-hostclaim
test-hostclaim: controlplane helm capi metal3 ## The stories of HostClaims, their machines and their move, with the operator and the provider of Metal3 and clusterctl.
	$(GINKGO) --procs=1 --race $(TESTFLAGS) ./test/e2e/metal3

# Needs a Docker engine, and nothing else that is not built from modules: images are built without it and loaded into the nodes. KIND_NODE_IMAGE
# names another node image than kind's default, KIND_KEEP=NAME keeps the clusters and uses them again. One scenario at a time: they share the clusters.
.PHONY: test-e2e-kind
test-e2e-kind: helm ## The scenarios that are labelled kind, and those that are for kind only, with everything in Pods of three clusters of kind.
	go run github.com/onsi/ginkgo/v2/ginkgo run --procs=1 --timeout=90m --grace-period=2m --no-color --output-interceptor-mode=none --poll-progress-after=5m \
		--label-filter='(kind || kind-only) && !long' $(TESTFLAGS) ./test/e2e -- -archelon.kind $(if $(KIND_KEEP),-archelon.kind.keep='$(KIND_KEEP)')

# Rancher's programs are not built here: these are those of its images.
RANCHER_VERSION         ?= v2.15.0
RANCHER_WEBHOOK_VERSION ?= v0.11.0
# With a slash at its end; without one it is where everybody's images are.
RANCHER_REGISTRY        ?=
.PHONY: rancher-programs
rancher-programs: ## Put the programs of RANCHER_VERSION and RANCHER_WEBHOOK_VERSION from Rancher's images into RANCHER_LAB.
	@[ -n '$(RANCHER_LAB)' ] || { echo "RANCHER_LAB has to name a directory."; exit 2; }
	go -C hack/image run . extract --out='$(RANCHER_LAB)/bin' $(RANCHER_REGISTRY)rancher/rancher:$(RANCHER_VERSION) /usr/bin/rancher
	go -C hack/image run . extract --out='$(RANCHER_LAB)/bin' $(RANCHER_REGISTRY)rancher/rancher-webhook:$(RANCHER_WEBHOOK_VERSION) /usr/bin/webhook
	go -C hack/image run . extract --out='$(RANCHER_LAB)/podbin' $(RANCHER_REGISTRY)rancher/rancher-agent:$(RANCHER_VERSION) \
		/usr/bin/agent /usr/bin/run.sh /usr/bin/kubectl '/usr/bin/catatonit?' '/usr/bin/tini?'
	echo '$(RANCHER_VERSION)' > '$(RANCHER_LAB)/version'

# The specs run below a script that gives them a network of their own, for which it has to be root.
.PHONY: test-e2e-rancher
test-e2e-rancher: controlplane helm ## The scenarios that are labelled rancher, with a real Rancher whose programs are in RANCHER_LAB.
	@[ -x '$(RANCHER_LAB)/bin/rancher' ] || { echo "RANCHER_LAB has to be the directory with the programs of Rancher: docs/development/testing.md says which."; exit 2; }
	@mkdir -p bin
	go test -c -o bin/e2e.test ./test/e2e
	go build -o bin/ginkgo github.com/onsi/ginkgo/v2/ginkgo
	GOPROXY=off test/realrancher/run.sh bin/ginkgo run --procs=1 --timeout=90m --no-color --output-interceptor-mode=none --poll-progress-after=5m \
		--label-filter='rancher' $(TESTFLAGS) bin/e2e.test -- -archelon.race=false -archelon.rancher='$(RANCHER_LAB)'

# Rancher's own chart and images, in Pods. RANCHER_CHART is whatever Helm takes for a chart, RANCHER_VALUES a file with further values of it. Nodes
# pull the images, but for those whose archives are in the directory RANCHER_IMAGES. What needs a Rancher of programs is not run.
RANCHER_CHART  ?= https://releases.rancher.com/server-charts/latest/rancher-$(RANCHER_VERSION:v%=%).tgz
RANCHER_VALUES ?=
RANCHER_IMAGES ?=
.PHONY: test-e2e-rancher-kind
test-e2e-rancher-kind: helm ## The scenarios that are labelled rancher, with Rancher installed by its chart, and everything in Pods of two clusters of kind.
	go run github.com/onsi/ginkgo/v2/ginkgo run --procs=1 --timeout=90m --grace-period=2m --no-color --output-interceptor-mode=none --poll-progress-after=5m \
		--label-filter='rancher && !programs' $(TESTFLAGS) ./test/e2e -- -archelon.kind $(if $(KIND_KEEP),-archelon.kind.keep='$(KIND_KEEP)') \
		-archelon.rancher.chart='$(RANCHER_CHART)' -archelon.rancher.values='$(RANCHER_VALUES)' -archelon.rancher.images='$(RANCHER_IMAGES)'

# One target after the other: each uses all processors. What they find is kept in testdata/fuzz and tried by `go test` from then on.
FUZZTIME ?= 60s
.PHONY: fuzz
fuzz: ## Look for input that breaks a parser, FUZZTIME=60s for each.
	@for file in $$(grep -rl --include='*_test.go' '^func Fuzz' api internal $(LIBRARIES)); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' "$$file"); do \
			echo "$$target"; \
			go -C "$$(dirname "$$file")" test . -run='^$$' -fuzz="^$$target$$" -fuzztime=$(FUZZTIME); \
		done; \
	done

.PHONY: bench
bench: controlplane helm ## Measure what imports cost, with 300 clusters unless told otherwise (ARGS=--help).
	@go run ./test/bench $(ARGS)
