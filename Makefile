# Two targets matter most: `make demo` shows Quarry on a real Kubernetes of three nodes, `make test` proves it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

export HOME ?= /root
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/quarry
# Tools are kept by the hash of what they are built from: a fresh clone finds them.
TOOLS = $(CACHE)/tools/$(shell cat tools/go.mod tools/go.sum | sha256sum | cut -c1-16)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X quarry.storage/quarry/pkg/version.Version=$(VERSION)
# gRPC's traces, which nobody reads here, would keep half of the programs' unused code alive.
# Results of the compiler do not name the directory, so that checkouts share them.
export GOFLAGS := $(GOFLAGS) -trimpath
GOBUILD := CGO_ENABLED=0 GOOS=linux go build -tags grpcnotrace -ldflags "$(LDFLAGS)"
# The architecture of the binaries and images; they run on Linux whatever they are built on.
ARCH ?= $(shell go env GOHOSTARCH)
BINARIES := agent controller
RUN ?= .
SKIP ?=
LAB_NAME ?= quarry
# How many Kubernetes nodes a new lab has. All tests need three; TestCephFSRemoveHost takes four.
LAB_NODES ?= 3
LAB := bin/lab --name $(LAB_NAME)
IMAGES := dist/agent.tar dist/controller.tar

.PHONY: help
help: ## Show the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: $(BINARIES:%=bin/linux-$(ARCH)/%) ## Build the two binaries for Linux into bin/linux-ARCH/. ARCH=arm64 chooses.

.PHONY: build-all
build-all: $(BINARIES:%=bin/linux-amd64/%) $(BINARIES:%=bin/linux-arm64/%) ## Build them for all architectures that images are made for.

.PHONY: FORCE
bin/linux-amd64/%: FORCE
	GOARCH=amd64 $(GOBUILD) -o $@ ./$*

bin/linux-arm64/%: FORCE
	GOARCH=arm64 $(GOBUILD) -o $@ ./$*

bin/lab: FORCE
	CGO_ENABLED=0 go build -o $@ ./test/lab

.PHONY: deps
deps: bin/lab ## Install the Debian packages that the lab and the tests need.
	bin/lab deps

.PHONY: tools
tools: ## Build the pinned tools (buf, controller-gen, golangci-lint, grpcurl) once into the cache.
	@if [ ! -e $(TOOLS)/.complete ]; then \
	  echo "Building the tools, once ($(TOOLS))"; mkdir -p $(TOOLS); \
	  (cd tools && CGO_ENABLED=0 go build -o $(TOOLS)/ tool) && touch $(TOOLS)/.complete; fi

.PHONY: grpcurl
grpcurl: tools ## Put grpcurl into bin/, to talk to agents.
	install -D $(TOOLS)/grpcurl bin/grpcurl

.PHONY: generate
generate: tools ## Write generated code, CRDs and RBAC again.
	cd proto && PATH="$(TOOLS):$$PATH" buf lint && PATH="$(TOOLS):$$PATH" buf generate
	$(TOOLS)/controller-gen object paths=./pkg/api/... crd paths=./pkg/api/... output:crd:dir=deploy/crd
	$(TOOLS)/controller-gen rbac:roleName=quarry-controller paths=./controller/... output:rbac:dir=deploy/rbac

.PHONY: verify
verify: generate ## Fail when generated files, modules or formatting are not as committed.
	$(TOOLS)/golangci-lint fmt --diff ./...
	go mod tidy -diff
	git diff --exit-code -- proto pkg/api deploy go.mod go.sum
	go test -count=1 -v -run '^TestStorageTypesStayInTheirRooms$$' ./pkg/archtest/

.PHONY: lint
lint: tools ## Run golangci-lint with the committed configuration.
	GOGC=50 test/fixed $(TOOLS)/golangci-lint run ./...

.PHONY: model
model: | dist ## Run the protocol of shared LUNs over 100,000 random schedules. With a number in QUARRY_TEST_TURN, over the fifth whose turn it is.
	CGO_ENABLED=0 go test -c -o dist/model.test ./controller/internal/decide/writer
	share=all; [ -z "$$QUARRY_TEST_TURN" ] || share=$$((QUARRY_TEST_TURN % 5)); GOGC=400 test/kept "$$(sha256sum <dist/model.test) $$share" \
	  dist/model.test -test.timeout 60m -test.v -test.run '^TestProtocol' -schedules 100000

# Lint vets; a second time costs minutes where nothing is cached.
.PHONY: unit
unit: deps ## Run unit, import-rule and API server tests with the race detector. RUN=regexp chooses.
	assets=$$(bin/lab assets | tail -n1); KUBEBUILDER_ASSETS=$$assets RUN='$(RUN)' test/fixed test/unit

.PHONY: random
random: ## Drive Clusters on the model host through 10,000 random events, and as many beside restores of the API server. QUARRY_RANDOM_SEED=n and QUARRY_RANDOM_EVENTS=n choose others, QUARRY_TEST_TURN=n other worlds.
	CGO_ENABLED=0 QUARRY_RANDOM=1 QUARRY_RANDOM_SEEDS=$${QUARRY_RANDOM_SEEDS:-25} QUARRY_RANDOM_EVENTS=$${QUARRY_RANDOM_EVENTS:-400} \
	  go test -count=1 -timeout 60m -v -run '$(RUN)' ./controller/internal/randomtest/

.PHONY: images
images: $(IMAGES) ## Build the images of both Dockerfiles for this machine with buildah into dist/.

dist/%.tar: bin/linux-$(shell go env GOHOSTARCH)/% deps Dockerfile.% | dist
	bin/lab image build -f Dockerfile.$* -t quarry.storage/$*:dev --context . -o $@

# The lab builds it once for each content of the Dockerfile. Only tests and the demo of Ceph load it into a lab.
CEPH_TAG := quay.io/ceph/ceph:v20.2.4
dist/ceph.tar: test/ceph/Dockerfile test/ceph/clock.c bin/lab | dist
	bin/lab image build -f test/ceph/Dockerfile -t $(CEPH_TAG) --context test/ceph -o $@

# Another build of it, for the journeys of upgrades. The first journey, which `make test` runs in its turn, does without.
CEPH_NEXT := $(if $(findstring FromDisksToSharedVolume,$(RUN)),,dist/ceph-next.tar)
dist/ceph-next.tar: test/ceph/Dockerfile test/ceph/clock.c bin/lab | dist
	bin/lab image build -f test/ceph/Dockerfile -t quay.io/ceph/ceph:v20.2.5 --build-arg VERSION=20.2.5 --context test/ceph -o $@

# The stand-in for glusterd2. Only tests of Gluster load it into a lab.
dist/gd2.tar: bin/linux-$(shell go env GOHOSTARCH)/test/gd2/serve deps test/gd2/Dockerfile | dist
	bin/lab image build -f test/gd2/Dockerfile -t quarry.storage/gd2:dev --context . -o $@

dist:
	mkdir -p dist

# Ceph's daemons, with the options that the tests set, want no more memory than that.
LAB_UP := $(LAB) up --nodes $(LAB_NODES) --disk 2x2G$(if $(filter %-ceph ceph-lab demo-cephfs,$(MAKECMDGOALS)), --memory 1536M)

.PHONY: lab
lab: deps ## Start the lab: three real Kubernetes nodes (LAB_NODES=n: n of them) with two 2 GiB disks each.
	$(LAB_UP)

# A new lab has the images in its nodes from the start: loading them into nodes that run takes many times as long.
LAB_IMAGES := $(IMAGES) $(if $(filter %-ceph ceph-lab demo-cephfs,$(MAKECMDGOALS)),dist/ceph.tar)

.PHONY: deploy
deploy: deps $(LAB_IMAGES) ## Start the lab, load the images into it and install Quarry there.
	$(LAB_UP) $(addprefix --image=,$(LAB_IMAGES))
	test/deploy $(LAB_NAME)

.PHONY: lab-down
lab-down: bin/lab ## Stop the lab; nothing of it stays behind.
	$(LAB) down

.PHONY: demo
demo: deploy ## Watch raw disks become volumes of pods (about 20 minutes the first time).
	test/demo/run $(LAB_NAME)

.PHONY: demo-cephfs
demo-cephfs: deploy dist/ceph.tar ## Watch raw disks of three nodes become a volume that pods on two of them share.
	test/demo/cephfs $(LAB_NAME)

.PHONY: conformance
conformance: deps ## Run the agent's conformance suite on real kernels, in a bare lab of its own. RUN=regexp chooses, RUNS=n repeats it, NODES=n takes n nodes.
	RUN='$(RUN)' test/conformance $(LAB_NAME)

.PHONY: conformance-ceph
conformance-ceph: deps dist/ceph.tar ## Run the tests that kill a real ceph-osd at work, on a real kernel, in a bare lab of its own. `make test` leaves them out. RUN=regexp chooses.
	root=$$(test/ceph/unpack dist/ceph.tar); CEPH_ROOT=$$root PACKAGES='agent/agenttest/osd agent/internal/apply/ceph' LIMIT=50 NODES=$${NODES:-1} \
	  RUN='$(RUN)' test/conformance $(LAB_NAME)

.PHONY: e2e
e2e: deploy tools ## Run the end-to-end tests in the lab. RUN=regexp chooses, SKIP=regexp leaves out.
	LAB_NAME=$(LAB_NAME) GRPCURL=$(TOOLS)/grpcurl CGO_ENABLED=0 go test -tags e2e -count=1 -timeout 50m -parallel 6 -v -run '$(RUN)' -skip '$(SKIP)' ./test/e2e/...

.PHONY: operators
operators: ## Build the operators that HarborCluster works with from their Go modules, once, into the cache; print where they are.
	@test/operators/build

.PHONY: ceph-lab
ceph-lab: deploy dist/ceph.tar ## Bring the image of Ceph into every node of the lab, where Quarry is installed.
	$(LAB) load dist/ceph.tar

.PHONY: e2e-ceph
e2e-ceph: deploy dist/ceph.tar $(CEPH_NEXT) ## Run the journeys of Ceph in the lab. They take all disks of all nodes; `make test` runs the first one in its turn. RUN=regexp chooses.
	QUARRY_CEPH=1 LAB_NAME=$(LAB_NAME) CGO_ENABLED=0 go test -tags e2e -count=1 -timeout $(if $(filter .,$(RUN)),360m,90m) -v -run '$(if $(filter .,$(RUN)),^TestCephFS,$(RUN))' ./test/e2e/

.PHONY: e2e-gluster
e2e-gluster: deploy dist/gd2.tar ## Run the journey of Gluster in the lab, which `make test` leaves out, with the stand-in for glusterd2 and a real etcd. RUN=TestGlusterPool/STEP chooses a step.
	QUARRY_GLUSTER=1 LAB_NAME=$(LAB_NAME) CGO_ENABLED=0 go test -tags e2e -count=1 -timeout 90m -v -run '$(if $(filter .,$(RUN)),^TestGluster,$(RUN))' ./test/e2e/

.PHONY: upgrade
upgrade: images lab ## Install the version of test/upgrade/base, use it, and install this one over it while pods write.
	test/upgrade/seed $(LAB_NAME)
	test/upgrade/watch $(LAB_NAME) dist/upgrade/agents.json test/deploy $(LAB_NAME)
	UPGRADE_SEEDED=1 UPGRADE_AGENTS=$(CURDIR)/dist/upgrade/agents.json LAB_NAME=$(LAB_NAME) CGO_ENABLED=0 go test -tags e2e -count=1 -timeout 10m -v \
	  -run '^(TestAgentsTakeTurns|TestMembersForExistingClusters)$$' ./test/e2e/

.PHONY: sanity
sanity: deploy ## Run csi-sanity, the conformance suite of CSI, against the driver in a node of the lab.
	test/sanity/run $(LAB_NAME)

.PHONY: sanity-ceph
sanity-ceph: deploy dist/ceph.tar ## Run csi-sanity against the driver of Ceph, with a real Ceph on all disks of three nodes. `make test` leaves it out.
	test/sanity/run $(LAB_NAME) ceph

.PHONY: bench
bench: deploy ## Take the measurements of docs/benchmarks.md. SECTIONS="volumes load" takes only some anew.
	test/bench/run $(LAB_NAME) $(SECTIONS)

.PHONY: test
test: ## Run lint, unit, generated files, conformance on a real kernel, end to end. What takes longest takes turns; EVERY=1 runs all of it but what CONTRIBUTING.md leaves out.
	test/all

.PHONY: clean
clean: ## Remove bin/ and dist/; the cache stays.
	rm -rf bin dist
