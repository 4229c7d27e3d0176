# make help lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash

GO       ?= go
LINT     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
FUZZTIME ?= 5s
CHAOS_FOR ?= 10m
CHAOS_REDIS ?= server
BIN      := bin/agentsignal
VERSION  ?= 0.1.0
ARCH     ?= $(shell $(GO) env GOHOSTARCH)
SHOTS    ?= build/screenshots

.PHONY: help run build test test-short chaos alerts clients licences screenshots packages packages-check kubernetes-check kubernetes-rules \
	check bench fuzz fmt lint console console-check deps-run deps-test

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: deps-run build ## Start the service with a demo account; data in ./data
	@$(BIN) serve --demo

build: ## Build bin/agentsignal
	@[ -e $(BIN) ] || echo "building $(BIN), which takes a minute or two the first time"
	@$(GO) build -o $(BIN) ./cmd/agentsignal

# The packages with the longest tests, which begin first, so that none is left alone at the end.
LONGEST := ./cmd/agentsignal/e2e/... ./persistence ./actors/webhook ./actors/weather

# Most tests wait for something: so many packages, and tests of each, run at once.
AT_ONCE := -p $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) -parallel 4

# go vet reads what go test -race needs compiled as well, and go test need not vet again. The race detector
# waits at the end of each package for races of other goroutines, by default a second.
test: deps-test ## Run all tests, with the race detector
	$(GO) vet -race ./...
	GORACE=atexit_sleep_ms=100 $(GO) test -race -vet=off $(AT_ONCE) -timeout 20m $(LONGEST) ./...

test-short: deps-test ## Run the tests that take little time, without the race detector
	$(GO) test -short -vet=off $(AT_ONCE) $(LONGEST) ./...

chaos: deps-test ## Put a cluster of nodes through faults at random for CHAOS_FOR (10m) on CHAOS_REDIS=server, sentinel or cluster, then check that damages are found (3 minutes); CHAOS_SEED repeats a run, CHAOS_FAULT makes one fault
	CHAOS_REDIS=$(CHAOS_REDIS) CHAOS_FOR=$(CHAOS_FOR) $(GO) test -race -count=1 -timeout 0 -v -run '^(TestFaults|TestPlants)$$' ./cmd/agentsignal/e2e/chaos

alerts: deps-test ## Make the faults of all 25 alerts and wait until a real Prometheus fires them (10 to 15 minutes)
	TEST_ALERTS=1 $(GO) test -race -count=1 -timeout 30m -v -run '^TestAlerts$$' ./cmd/agentsignal/e2e/operations

clients: deps-test ## Generate clients with four generators and call the service by them (downloads them; npm, Go)
	TEST_CLIENTS=1 $(GO) test -race -vet=off -count=1 -v -run '^TestGeneratedClients$$' ./cmd/agentsignal/e2e/clients

licences: ## Write deploy/LICENCES.md after a change of modules or of the console's packages
	TEST_LICENCES=1 $(GO) test -count=1 -run '^TestLicencesAre' ./deploy

screenshots: deps-test ## Take pictures of every page of the console into SHOTS (build/screenshots; 4 minutes)
	TEST_SCREENSHOTS=$(abspath $(SHOTS)) $(GO) test -count=1 -v -run '^TestScreenshots$$' ./cmd/agentsignal/e2e/console

console: ## Build the package for TypeScript, and by it the browser console into http/console/dist (Node 20.3 or later)
	for dir in deploy/clients/typescript http/console; do \
		(cd $$dir && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm run -s all) || exit 1; done

console-check: console ## Fail if the committed console is not what its source builds
	@test -z "$$(git status --porcelain -- http/console deploy/clients/typescript)" || \
		{ git status --short -- http/console deploy/clients/typescript; \
		echo "what is committed of the console is not what its source builds: commit it"; exit 1; }

# Packages are not part of "make test": a static build and nfpm take minutes, and the check needs root.
packages: ## Build deb and rpm of VERSION for ARCH into build/packages
	deploy/packages/build.sh $(VERSION) $(ARCH) build/packages

packages-check: ## Build the packages; install, start, upgrade and purge the deb (as root, on Debian)
	deploy/packages/check.sh

# A module of its own, so that the types of Kubernetes are no dependency of the service.
kubernetes-check: ## Build the files for Kubernetes, and decode and compare what they describe
	cd deploy/check && $(GO) vet ./... && $(GO) test -count=1 ./...

kubernetes-rules: ## Write the rules of deploy/prometheus for the Prometheus operator
	@{ printf '%s\n' '# Written from ../../prometheus/rules.yml by make kubernetes-rules.' \
		'apiVersion: monitoring.coreos.com/v1' 'kind: PrometheusRule' 'metadata:' '  name: agentsignal' \
		'  labels: {app.kubernetes.io/name: agentsignal}' 'spec:'; \
		sed -n '/^groups:/,$$ { s/^./  &/; p }' deploy/prometheus/rules.yml; } > deploy/kubernetes/base/rules.yaml

check: deps-test fmt lint test fuzz kubernetes-check ## Everything that must hold: format, vet, lint, tests, short fuzzing, files for Kubernetes

fmt: ## Fail if a file is not formatted
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted: $$files"; exit 1; fi

lint: ## Run the linters of .golangci.yaml, staticcheck among them
	$(GO) run $(LINT) run

fuzz: ## Run each fuzz target for FUZZTIME (5s)
	@set -e; for file in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$file); do \
			echo "$$(dirname $$file) $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$(dirname $$file); \
		done; done

bench: deps-run ## Measure against references in the same run (some minutes); see deploy/BENCHMARKS.md
	@$(GO) build -o $(BIN)-bench ./cmd/agentsignal-bench
	@$(BIN)-bench all

# The service works without redis-server, but its data then end with it.
deps-run:
	@command -v redis-server >/dev/null || command -v valkey-server >/dev/null || $(call install,redis-server,redis-server) || \
		echo "redis-server is not installed and could not be: data will not survive a restart"

deps-test:
	@command -v redis-server >/dev/null || $(call install,redis-server,redis-server)
	@command -v chromium >/dev/null || $(call install,chromium)
	@command -v python3 >/dev/null || $(call install,python3)
	@command -v systemd-analyze >/dev/null || $(call install,systemd) || \
		echo "systemd is not installed and could not be: its unit is not checked"
	@command -v nginx >/dev/null || $(call install,nginx-light,nginx) || \
		echo "nginx is not installed and could not be: its configuration is not tested"
	@command -v promtool >/dev/null || $(call install,prometheus,prometheus prometheus-node-exporter) || \
		echo "promtool is not installed and could not be: alerts are not tested"

# install asks apt for a package, as root or by sudo without a password, and stops the services that come with it.
define install
( command -v apt-get >/dev/null && \
  SUDO=$$([ $$(id -u) = 0 ] || echo sudo -n) && echo "installing $(1) by apt" && \
  { $$SUDO apt-get install -y -qq $(1) >/dev/null 2>&1 || { $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq $(1) >/dev/null; }; } && \
  { [ -z "$(2)" ] || [ ! -d /run/systemd/system ] || $$SUDO systemctl disable --now --quiet $(2); } )
endef
