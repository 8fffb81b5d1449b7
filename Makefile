# Targets carry their description after ##; `make help` lists them.
.DEFAULT_GOAL := help

GO        ?= go
FUZZ      ?= 10s
DECISIONS ?= 1000000
COUNT     ?= 6
IMAGE     ?= weir
# Of the image; .dockerignore leaves the repository's history out of the build.
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null)
OF_COMMIT  = --build-arg VERSION=$(VERSION) --build-arg COMMIT=$$(git rev-parse HEAD) --build-arg DATE=$$(git log -1 --format=%cI)

# make test RACE=-race finds data races, in twice the time; it needs cgo and a C compiler.
RACE ?=
# A program with it sleeps for a second when it ends, which tests start many times.
export GORACE := atexit_sleep_ms=50

# Many tests at a time, since most wait.
GO_TEST = $(GO) test $(RACE) -timeout=30m
E2E     = $(GO_TEST) -parallel=6 $(TESTFLAGS) ./e2e

# They begin first, because they take longest.
SLOW = ./internal/server ./internal/limiter/redis ./internal/operators ./cmd/server

HELM := $(GO) -C deploy/check tool helm

# Debian's, where scripts/tools.sh installed it; compiling promtool takes ten minutes. Rules
# need no service discovery, which is most of its code.
PROMTOOL = $(or $(wildcard .tools/prometheus/usr/bin/promtool), \
	$(GO) run -modfile=tools/go.mod -tags=remove_all_sd github.com/prometheus/prometheus/cmd/promtool)

GOLANGCI_LINT := $(GO) tool -modfile=tools/go.mod golangci-lint

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## Serve the rules in config/ from memory
	$(GO) run ./cmd/server

.PHONY: build
build: ## Build the program bin/weir; with CGO_ENABLED=0 it is static, as in the image
	$(GO) build -o bin/weir ./cmd/server # with the options of `go run`, to share its build cache

.PHONY: test
test: tools ## Run every test, on real Redis and real Envoy where possible
	$(MAKE) --jobs=2 test-packages test-bench
	$(E2E) # alone, because it measures how late answers are
	@scripts/tools.sh missing

.PHONY: test-packages
test-packages:
	$(GO_TEST) -p=4 -parallel=4 $(TESTFLAGS) $(SLOW) $$($(GO) list ./... | grep -v '/e2e$$')

.PHONY: test-bench
test-bench:
	$(GO) -C bench test $(RACE) $(TESTFLAGS) ./...

.PHONY: e2e
e2e: tools ## Run the end-to-end tests only
	$(E2E) -count=1
	@scripts/tools.sh missing

.PHONY: bench
bench: ## Run the benchmarks of each stage, COUNT (6) times each, for benchstat
	$(GO) test -run='^$$' -bench=. -benchmem -count=$(COUNT) $(BENCHFLAGS) $$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n 1 dirname | sort -u)

.PHONY: measure
measure: tools ## Measure the whole server and update the tables of bench/README.md and docs; MEASURE takes flags
	$(GO) -C bench run . $(MEASURE)

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZ (10s, or 1000x inputs) beyond its stored ones
	@scripts/fuzz.sh $(FUZZ)

.PHONY: manifests
manifests: ## Compare the manifests of the chart and the examples with the schemas of Kubernetes and others
	$(HELM) lint --strict ../chart
	$(GO) -C deploy/check test -count=1 ./manifests

.PHONY: alerts
alerts: tools ## Check and test the alerts, and ask each query of the dashboard of a running server
	$(PROMTOOL) --version
	$(PROMTOOL) check rules --lint=all --lint-fatal deploy/prometheus/alerts.yaml
	$(PROMTOOL) test rules deploy/prometheus/alerts_test.yaml
	$(GO) -C deploy/check test -count=1 ./alerts
	@scripts/tools.sh missing

.PHONY: differential
differential: tools ## Compare DECISIONS (1000000) random decisions of a real Redis with the model
	WEIR_TEST_REQUIRE=redis-server WEIR_DIFFERENTIAL=$(DECISIONS) \
		$(GO) test -run='^TestDifferential' -count=1 -timeout=1h -v ./internal/limiter/redis ./internal/rlqs

.PHONY: lint
lint: ## Run the linter, which also enforces the import arrows
	$(GOLANGCI_LINT) run
	cd bench && $(GO) tool -modfile=../tools/go.mod golangci-lint run

.PHONY: fmt
fmt: ## Format the Go files
	$(GOLANGCI_LINT) fmt

.PHONY: docs
docs: ## Redraw the pictures of the documents and the tables of docs/algorithms.md
	$(GO) run ./docs/draw
	$(GO) -C deploy/check test -count=1 -run=TestQueriesHaveAnswers ./alerts -update-pictures

.PHONY: tools
tools: ## Install redis-server, chromium and Envoy for the tests, where that is possible
	@scripts/tools.sh install
	@scripts/tools.sh missing

.PHONY: docker
docker: ## Build the image
	docker build --build-arg BUILDPLATFORM=linux/$$($(GO) env GOARCH) $(OF_COMMIT) -t $(IMAGE) .

.PHONY: release
release: tools ## Build the archives of a release into dist/, with checksums and what they are made of
	scripts/release.sh dist

.PHONY: image
image: ## Build the image for amd64 and arm64; BUILDX takes flags, such as --push
	docker buildx build --platform=linux/amd64,linux/arm64 $(OF_COMMIT) -t $(IMAGE) $(BUILDX) .

.PHONY: clean
clean: ## Remove what was built and installed here
	rm -rf bin dist .tools
