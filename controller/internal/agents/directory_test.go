package agents

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/sharedvolume"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// directories is the service of an agent with answers that are given.
type directories struct {
	agentv1.UnimplementedSharedDirectoryServiceServer
	asked proto.Message
	share *agentv1.GetShareResponse
	err   error
}

func (d *directories) GetShare(_ context.Context, r *agentv1.GetShareRequest) (*agentv1.GetShareResponse, error) {
	d.asked = r
	return d.share, d.err
}

var made = &agentv1.SharedDirectory{
	OwnerUid: owner, Volume: "v", Directory: "a/v", OnDelete: agentv1.OnDelete_ON_DELETE_ARCHIVE,
	State: agentv1.SharedDirectory_STATE_MADE, CreatedUnixSeconds: 1_700_000_000, ShareId: "id", SizeBytes: 5, Problem: "p",
}

func (d *directories) EnsureDirectory(_ context.Context, r *agentv1.EnsureDirectoryRequest) (*agentv1.EnsureDirectoryResponse, error) {
	d.asked = r
	return &agentv1.EnsureDirectoryResponse{Directory: made}, d.err
}

func (d *directories) RemoveDirectory(_ context.Context, r *agentv1.RemoveDirectoryRequest) (*agentv1.RemoveDirectoryResponse, error) {
	d.asked = r
	return &agentv1.RemoveDirectoryResponse{
		Done: true, RemovedEntries: 7, OnDelete: agentv1.OnDelete_ON_DELETE_RETAIN, ArchivedAs: "archived-v", Note: "n",
	}, d.err
}

func (d *directories) AbandonDirectory(_ context.Context, r *agentv1.AbandonDirectoryRequest) (*agentv1.AbandonDirectoryResponse, error) {
	d.asked = r
	return &agentv1.AbandonDirectoryResponse{}, d.err
}

// begun is the record of a volume that was never made.
var begun = &agentv1.SharedDirectory{
	OwnerUid: owner, Volume: "w", Directory: "a/w", OnDelete: agentv1.OnDelete_ON_DELETE_DELETE, State: agentv1.SharedDirectory_STATE_REMOVING, NeverMade: true,
}

func (d *directories) ListDirectories(_ context.Context, r *agentv1.ListDirectoriesRequest) (*agentv1.ListDirectoriesResponse, error) {
	d.asked = r
	return &agentv1.ListDirectoriesResponse{Directories: []*agentv1.SharedDirectory{made, begun}, NextPageToken: "next"}, d.err
}

// serveDirectories starts the service as the agent of node n1, and a pool that knows it.
func serveDirectories(t *testing.T) (*directories, *Pool) {
	t.Helper()
	d := &directories{}
	return d, serveService(t, d)
}

func serveService(t *testing.T, service agentv1.SharedDirectoryServiceServer) *Pool {
	t.Helper()
	ca := agenttest.NewCA(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{ca.AgentCertificate(t, "n1")}, ClientCAs: ca.Pool(),
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	})))
	agentv1.RegisterSharedDirectoryServiceServer(g, service)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	p := newPool(t, ca)
	p.SetAddress("n1", l.Addr().String(), "pod")
	return p
}

func TestPool_sharedDirectories(t *testing.T) {
	d, p := serveDirectories(t)
	ctx := t.Context()
	share := sharedvolume.Share{Server: "server", Path: "/export", MountOptions: []string{"vers=3"}, Owner: owner, ID: "id", HasVolumes: true}
	wire := &agentv1.Share{Server: "server", Path: "/export", MountOptions: []string{"vers=3"}, OwnerUid: owner, ShareId: "id", HasVolumes: true}
	record := sharedvolume.Directory{
		ID: sharedvolume.ID{Owner: owner, Name: "v"}, Directory: "a/v", OnDelete: sharedvolume.Archive, State: sharedvolume.Made,
		Created: time.Unix(1_700_000_000, 0), ShareID: "id", Bytes: 5, Problem: "p",
	}
	check := func(what string, err error, wantAsked proto.Message, want, got any) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if diff := cmp.Diff(wantAsked, d.asked, protocmp.Transform()); diff != "" {
			t.Errorf("%s asked: %s", what, diff)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s returned: %s", what, diff)
		}
	}
	d.share = &agentv1.GetShareResponse{
		ShareId: "id", TotalBytes: 3, UsedBytes: 2, FreeBytes: 1, Version: "4.2", Address: "10.0.0.1:2049",
		Problem: &agentv1.ShareProblem{Reason: "ReadOnly", Message: "m"},
	}
	report, err := p.GetShare(ctx, "n1", share, true)
	check("GetShare", err, &agentv1.GetShareRequest{Share: wire, Prepare: true}, sharedvolume.Seen{
		ID: "id", Usage: sharedvolume.Usage{Total: 3, Used: 2, Free: 1}, Version: "4.2", Address: "10.0.0.1:2049",
		Problem: &sharedvolume.Problem{Reason: sharedvolume.ReasonReadOnly, Message: "m"},
	}, report)
	got, err := p.EnsureDirectory(ctx, "n1", share, sharedvolume.Wish{Name: "v", Directory: "a/v", OnDelete: sharedvolume.Archive, Bytes: 5})
	check("EnsureDirectory", err, &agentv1.EnsureDirectoryRequest{
		Share: wire, Volume: "v", Directory: "a/v", OnDelete: agentv1.OnDelete_ON_DELETE_ARCHIVE, SizeBytes: 5,
	}, record, got)
	removal, err := p.RemoveDirectory(ctx, "n1", share, "v", "a/v", "")
	check("RemoveDirectory", err, &agentv1.RemoveDirectoryRequest{Share: wire, Volume: "v", Directory: "a/v"},
		sharedvolume.Removal{Done: true, Removed: 7, OnDelete: sharedvolume.Retain, ArchivedAs: "archived-v", Note: "n"}, removal)
	_, err = p.RemoveDirectory(ctx, "n1", share, "v", "", sharedvolume.Delete)
	check("RemoveDirectory", err, &agentv1.RemoveDirectoryRequest{
		Share: wire, Volume: "v", OnDelete: agentv1.OnDelete_ON_DELETE_DELETE,
	}, nil, nil)
	err = p.AbandonDirectory(ctx, "n1", share, "w")
	check("AbandonDirectory", err, &agentv1.AbandonDirectoryRequest{Share: wire, Volume: "w"}, nil, nil)
	neverMade := sharedvolume.Directory{
		ID: sharedvolume.ID{Owner: owner, Name: "w"}, Directory: "a/w", OnDelete: sharedvolume.Delete, State: sharedvolume.Removing, NeverMade: true,
	}
	list, next, err := p.ListDirectories(ctx, "n1", share, "token", true)
	check("ListDirectories", err, &agentv1.ListDirectoriesRequest{Share: wire, PageToken: "token", CheckDirectories: true}, []sharedvolume.Directory{record, neverMade}, list)
	if next != "next" {
		t.Errorf("next is %q", next)
	}
}

func TestPool_faultsOfShares(t *testing.T) {
	d, p := serveDirectories(t)
	fault := func(node string) *decide.Fault {
		t.Helper()
		_, err := p.EnsureDirectory(t.Context(), node, sharedvolume.Share{}, sharedvolume.Wish{})
		var f *decide.Fault
		if !errors.As(err, &f) {
			t.Fatal(err)
		}
		return f
	}
	s, err := status.New(codes.FailedPrecondition, "not allowed").WithDetails(&agentv1.ShareProblem{Reason: "Refused", Message: "m"})
	if err != nil {
		t.Fatal(err)
	}
	d.err = s.Err()
	want := &decide.Fault{
		Kind: decide.FaultPrecondition, Node: "n1", Call: "EnsureDirectory", Reason: sharedvolume.ReasonRefused, Message: "not allowed",
	}
	if diff := cmp.Diff(want, fault("n1")); diff != "" {
		t.Error(diff)
	}
	d.err = status.Error(codes.AlreadyExists, "taken")
	if f := fault("n1"); f.Kind != decide.FaultConflict || f.Reason != "" {
		t.Errorf("%+v", f)
	}
	if f := fault("n2"); f.Kind != decide.FaultUnavailable {
		t.Errorf("%+v", f)
	}
	if names := p.Online(); len(names) > 0 {
		t.Errorf("online are %v: none of them reports", names)
	}
}

// earlier is the service of an agent that does not tell volumes that were never made from others.
type earlier struct {
	agentv1.UnimplementedSharedDirectoryServiceServer
	t *testing.T
}

func (e earlier) RemoveDirectory(context.Context, *agentv1.RemoveDirectoryRequest) (*agentv1.RemoveDirectoryResponse, error) {
	e.t.Error("an earlier agent is asked to remove a volume that may be in use")
	return &agentv1.RemoveDirectoryResponse{Done: true}, nil
}

// TestPool_abandonByAnEarlierAgent expects that an agent that would remove a volume that was made is asked for nothing.
func TestPool_abandonByAnEarlierAgent(t *testing.T) {
	p := serveService(t, earlier{t: t})
	err := p.AbandonDirectory(t.Context(), "n1", sharedvolume.Share{}, "v")
	var f *decide.Fault
	if !errors.As(err, &f) || f.Kind != decide.FaultUnavailable || !strings.Contains(f.Message, "earlier version") {
		t.Errorf("%v", err)
	}
}
