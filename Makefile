# Targets for people and for continuous integration. `make test` and `make check` install what they need below bin/ and the user's cache.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

LINT_VERSION := v2.15.0
LINT := bin/golangci-lint-$(LINT_VERSION)
SOAK_MINUTES ?= 60
BENCH ?=
DEMO ?=
# Packages that run clusters, gateways and clients in processes of their own: one package at a time, since times matter there, and with
# -count=1, since the go command does not see that the binary under test has changed. The others wait much, so that four go side by side, those
# that take longest first. (make check vets them.)
SCENARIOS = ./test/matrix ./test/cases ./test/chaos
LONGEST = ./client ./internal/gateway ./cmd/tandem ./test/harness ./internal/upstream
FAST = $$(go list ./... | grep -v -e /test/ -e /bench)

.PHONY: build test test-again check soak bench demo clients report needs

build: ## the binary, in bin/tandem
	go build -o bin/tandem ./cmd/tandem

test: report needs clients ## everything once, on real Kafka and on the embedded engine: at most 15 minutes on 2 cores
	{ failed=0; go test -json -count=1 -vet=off -p 4 -parallel 4 $(LONGEST) $$(go list ./... | grep -v $(patsubst .%,-e %$$,$(SCENARIOS))) || failed=1; \
	  go test -json -count=1 -timeout 15m -p 1 $(SCENARIOS) || failed=1; exit $$failed; } | bin/report -failed bin/failed-tests

test-again: report ## what failed in the last `make test`, once more: what passes now is flaky
	bin/report -again bin/failed-tests

check: $(LINT) report ## formats, vet, linters, repository rules, the fast packages under the race detector: at most 3 minutes once cached
	@bad=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); [ -z "$$bad" ] || { echo "gofmt -w $$bad" >&2; exit 1; }
	go vet ./...
	$(LINT) run
	{ failed=0; go test -json -short ./test/... || failed=1; \
	  go test -json -short -race -p 3 -parallel 4 $(FAST) || failed=1; exit $$failed; } | bin/report -failed bin/failed-checks
	cd test/clients/go && go vet ./...
	test/clients/check-test

soak: report needs clients ## long rounds: codecs, restarts, seeds. SOAK_MINUTES bounds it
	TANDEM_SOAK=1 SOAK_MINUTES=$(SOAK_MINUTES) go test -json -count=1 -timeout $$(( $(SOAK_MINUTES) + 15 ))m -p 1 -run '^TestSoak' ./... | bin/report

bench: ## the measurements of docs/benchmarks.md
	go run ./bench $(BENCH)

demo: ## the demonstration, on the embedded engine
	go run ./cmd/tandem demo $(DEMO)

clients: needs ## the client libraries and the jars of Kafka, for the tests
	test/clients/setup
	test/kafka/kafka-cluster fetch

report:
	@go build -o bin/report ./test/report

needs:
	@for need in "go:Go 1.26" "java:a Java 17 JDK" "javac:a Java 17 JDK" "mvn:Maven" "node:Node.js 20" "npm:npm" "python3:Python 3 with venv"; do \
	  command -v "$${need%%:*}" >/dev/null || { echo "make: $${need%%:*} is missing: install $${need#*:}" >&2; exit 1; }; done

$(LINT):
	GOBIN=$(CURDIR)/bin/lint go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	mv bin/lint/golangci-lint $(LINT)
	rmdir bin/lint
