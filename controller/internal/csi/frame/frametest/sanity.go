package frametest

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"google.golang.org/grpc"
)

// Sanity says how csi-sanity is run. A test binary can run it once.
type Sanity struct {
	// Parameters of the StorageClass.
	Parameters map[string]string
	// IDs makes handles in the form of the driver.
	IDs sanity.IDGenerator
	// Size of volumes, and the Larger one that they are expanded to.
	Size, Larger int64
	// Node is the name of the node that the node service returns, and its topology.
	Node     string
	Topology map[string]string
	// Least is how many cases have to pass.
	Least int
	// NotRun are cases that are not run, by expressions on their names, with the reasons.
	NotRun map[string]string
}

// notRun are the cases that no controller side is tested with.
var notRun = map[string]string{
	"Node Service":            "the node service is the agent's, and is tested there; the lab runs the whole suite",
	"GroupController Service": "there are no group snapshots",
}

// Run runs csi-sanity against a driver.
func (c Sanity) Run(t *testing.T, s *Served) {
	t.Helper()
	config := sanity.NewTestConfig()
	config.Address, config.ControllerAddress = "unix://"+c.nodeService(t, s), "unix://"+s.Socket
	config.TargetPath, config.StagingPath = filepath.Join(t.TempDir(), "target"), filepath.Join(t.TempDir(), "staging")
	config.TestVolumeSize, config.TestVolumeExpandSize = c.Size, c.Larger
	config.TestVolumeParameters, config.IDGen = c.Parameters, c.IDs
	suite, report := ginkgo.GinkgoConfiguration()
	for _, list := range []map[string]string{notRun, c.NotRun} {
		for name, reason := range list {
			t.Logf("not run: %s: %s", name, reason)
			suite.SkipStrings = append(suite.SkipStrings, name)
		}
	}
	report.Succinct, report.NoColor = true, true
	passed, skipped := 0, 0
	ginkgo.ReportAfterEach(func(r ginkgo.SpecReport) {
		switch r.State {
		case types.SpecStatePassed:
			passed++
		case types.SpecStateSkipped:
			skipped++
			if r.Failure.Message != "" {
				t.Logf("skipped itself: %s: %s", r.FullText(), r.Failure.Message)
			}
		}
	})
	gomega.RegisterFailHandler(ginkgo.Fail)
	context := sanity.GinkgoTest(&config)
	defer context.Finalize()
	ginkgo.RunSpecs(t, "CSI", suite, report)
	t.Logf("%d cases passed, %d skipped", passed, skipped)
	if passed < c.Least {
		t.Errorf("only %d cases passed", passed)
	}
}

// nodeService answers in place of a node. The suite calls it when it cleans up.
func (c Sanity) nodeService(t *testing.T, s *Served) string {
	t.Helper()
	socket := socketPath(t)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	csi.RegisterIdentityServer(g, &forward{client: s.IdentityClient})
	csi.RegisterNodeServer(g, &node{name: c.Node, topology: c.Topology})
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return socket
}

// forward is the identity service of the node, which returns the same as the controller's.
type forward struct {
	csi.UnimplementedIdentityServer
	client csi.IdentityClient
}

// GetPluginInfo forwards the call.
func (f *forward) GetPluginInfo(ctx context.Context, req *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return f.client.GetPluginInfo(ctx, req)
}

// GetPluginCapabilities forwards the call.
func (f *forward) GetPluginCapabilities(
	ctx context.Context, req *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return f.client.GetPluginCapabilities(ctx, req)
}

// Probe forwards the call.
func (f *forward) Probe(ctx context.Context, req *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return f.client.Probe(ctx, req)
}

// node is a node service on which nothing is published.
type node struct {
	csi.UnimplementedNodeServer
	name     string
	topology map[string]string
}

// NodeGetCapabilities returns none.
func (*node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodeGetInfo returns the node's name and topology.
func (n *node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	info := &csi.NodeGetInfoResponse{NodeId: n.name}
	if len(n.topology) > 0 {
		info.AccessibleTopology = &csi.Topology{Segments: n.topology}
	}
	return info, nil
}

// NodeUnpublishVolume has nothing to do.
func (*node) NodeUnpublishVolume(context.Context, *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeUnstageVolume has nothing to do.
func (*node) NodeUnstageVolume(context.Context, *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	return &csi.NodeUnstageVolumeResponse{}, nil
}
