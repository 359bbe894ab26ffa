package csi_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"google.golang.org/grpc"

	"quarry.storage/quarry/pkg/volumeid"
)

// notRun are the cases of the suite that are not run, by expressions on their names, with the reasons.
var notRun = map[string]string{
	"Node Service":            "the node service is the agent's, and is tested there; the lab runs the whole suite",
	"GroupController Service": "there are no group snapshots",
}

func TestSanity(t *testing.T) {
	s := newSuite(t, true, "node-1", "node-2")
	c := sanity.NewTestConfig()
	c.Address, c.ControllerAddress = "unix://"+nodeService(t, s), "unix://"+s.socket
	c.TargetPath, c.StagingPath = filepath.Join(t.TempDir(), "target"), filepath.Join(t.TempDir(), "staging")
	c.TestVolumeSize, c.TestVolumeExpandSize = gib, 2*gib
	c.TestVolumeParameters = s.parameters()
	c.IDGen = &ids{}
	suite, report := ginkgo.GinkgoConfiguration()
	for name, reason := range notRun {
		t.Logf("not run: %s: %s", name, reason)
		suite.SkipStrings = append(suite.SkipStrings, name)
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
	context := sanity.GinkgoTest(&c)
	defer context.Finalize()
	ginkgo.RunSpecs(t, "CSI", suite, report)
	t.Logf("%d cases passed, %d skipped", passed, skipped)
	if passed < 40 {
		t.Errorf("only %d cases passed", passed)
	}
	for name, a := range s.agents {
		if left := a.Volumes(group); len(left) > 0 {
			t.Errorf("volumes left on %s: %+v", name, left)
		}
	}
}

// nodeService answers in place of a node, whose service the suite calls when it cleans up.
func nodeService(t *testing.T, s *suite) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "node.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	csi.RegisterIdentityServer(g, &forward{client: s.IdentityClient})
	csi.RegisterNodeServer(g, &node{})
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

// forward is the identity service of the node, which answers the same.
type forward struct {
	csi.UnimplementedIdentityServer
	client csi.IdentityClient
}

func (f *forward) GetPluginInfo(ctx context.Context, req *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return f.client.GetPluginInfo(ctx, req)
}

func (f *forward) GetPluginCapabilities(
	ctx context.Context, req *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return f.client.GetPluginCapabilities(ctx, req)
}

func (f *forward) Probe(ctx context.Context, req *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return f.client.Probe(ctx, req)
}

type node struct{ csi.UnimplementedNodeServer }

func (*node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (*node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: "node-1", AccessibleTopology: on("node-1")}, nil
}

func (*node) NodeUnpublishVolume(context.Context, *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// ids makes handles in the form of this driver's.
type ids struct{ n atomic.Int64 }

// GenerateUniqueValidVolumeID makes the handle of a volume that does not exist.
func (g *ids) GenerateUniqueValidVolumeID() string {
	name := volumeid.Name(fmt.Sprintf("sanity-absent-%d", g.n.Add(1)))
	return volumeid.ID{Node: "node-1", Group: group, Name: name}.String()
}

// GenerateInvalidVolumeID makes something that is no handle.
func (g *ids) GenerateInvalidVolumeID() string { return "not/a-volume" }

// GenerateUniqueValidNodeID makes the name of a node that does not exist.
func (g *ids) GenerateUniqueValidNodeID() string { return fmt.Sprintf("absent-node-%d", g.n.Add(1)) }

// GenerateInvalidNodeID makes something that is no name of a node.
func (g *ids) GenerateInvalidNodeID() string { return "Not A Node" }
