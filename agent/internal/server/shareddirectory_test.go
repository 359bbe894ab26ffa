package server_test

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/agent/agenttest/nfs"
	"quarry.storage/quarry/pkg/sharedvolume"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const nfsUID = "0f3b2c1d-1111-2222-3333-444455556666"

func sharedClient(t *testing.T) (*nfs.Servers, agentv1.SharedDirectoryServiceClient) {
	t.Helper()
	servers := nfs.NewServers()
	a := agenttest.New(t, agenttest.Options{Shares: servers.From("node-1")})
	return servers, agentv1.NewSharedDirectoryServiceClient(a.Dial(t))
}

func share() *agentv1.Share {
	return &agentv1.Share{Server: "nas", Path: "/export", OwnerUid: nfsUID}
}

func TestSharedDirectories(t *testing.T) {
	servers, c := sharedClient(t)
	h := servers.Export("nas", "/export", 1<<30)
	h.Use(1<<20, 1500)
	got, err := c.GetShare(t.Context(), &agentv1.GetShareRequest{Share: share()})
	if err != nil || got.GetProblem().GetReason() != sharedvolume.ReasonNotPrepared || got.GetProblem().GetMessage() == "" {
		t.Fatalf("%v, %v", got, err)
	}
	got, err = c.GetShare(t.Context(), &agentv1.GetShareRequest{Share: share(), Prepare: true})
	if err != nil {
		t.Fatal(err)
	}
	s := share()
	s.ShareId = got.GetShareId()
	want := &agentv1.GetShareResponse{
		ShareId: s.GetShareId(), TotalBytes: 1 << 30, UsedBytes: 1 << 20, FreeBytes: 1<<30 - 1<<20, Version: "4.2", Address: "10.0.0.1:2049",
	}
	if s.GetShareId() == "" || !proto.Equal(want, got) {
		t.Errorf("%v, want %v", got, want)
	}
	for policy, removed := range map[agentv1.OnDelete][]int64{
		agentv1.OnDelete_ON_DELETE_DELETE: {1000, 1500}, agentv1.OnDelete_ON_DELETE_ARCHIVE: {0}, agentv1.OnDelete_ON_DELETE_RETAIN: {0},
	} {
		name := fmt.Sprintf("pvc-%d", policy)
		made, err := c.EnsureDirectory(t.Context(), &agentv1.EnsureDirectoryRequest{
			Share: s, Volume: name, Directory: "d/" + name, OnDelete: policy, SizeBytes: 1 << 30,
		})
		if err != nil {
			t.Fatal(err)
		}
		want := &agentv1.SharedDirectory{
			OwnerUid: nfsUID, Volume: name, Directory: "d/" + name, OnDelete: policy, State: agentv1.SharedDirectory_STATE_MADE,
			CreatedUnixSeconds: made.GetDirectory().GetCreatedUnixSeconds(), ShareId: s.GetShareId(), SizeBytes: 1 << 30,
		}
		page, err := c.ListDirectories(t.Context(), &agentv1.ListDirectoriesRequest{Share: s, PageSize: 1})
		if err != nil || !proto.Equal(want, made.GetDirectory()) || len(page.GetDirectories()) != 1 || !proto.Equal(want, page.GetDirectories()[0]) {
			t.Errorf("%v, %v, %v", made, page, err)
		}
		_, err = c.AbandonDirectory(t.Context(), &agentv1.AbandonDirectoryRequest{Share: s, Volume: name})
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("a volume that was made is abandoned: %v", err)
		}
		removes(t, c, &agentv1.RemoveDirectoryRequest{Share: s, Volume: name}, policy, removed)
	}
}

// removes calls until a volume is gone, and expects the progress of each call.
func removes(t *testing.T, c agentv1.SharedDirectoryServiceClient, req *agentv1.RemoveDirectoryRequest, policy agentv1.OnDelete, removed []int64) {
	t.Helper()
	for i, entries := range removed {
		r, err := c.RemoveDirectory(t.Context(), req)
		want := &agentv1.RemoveDirectoryResponse{Done: i == len(removed)-1, RemovedEntries: entries, OnDelete: policy, ArchivedAs: r.GetArchivedAs()}
		if err != nil || !proto.Equal(want, r) || (r.GetArchivedAs() != "") != (policy == agentv1.OnDelete_ON_DELETE_ARCHIVE) {
			t.Errorf("%v, %v, want %v", r, err, want)
		}
	}
}

func TestSharedDirectories_pages(t *testing.T) {
	servers, c := sharedClient(t)
	servers.Export("nas", "/export", 1<<30)
	if _, err := c.GetShare(t.Context(), &agentv1.GetShareRequest{Share: share(), Prepare: true}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := c.EnsureDirectory(t.Context(), &agentv1.EnsureDirectoryRequest{
			Share: share(), Volume: fmt.Sprintf("pvc-%d", i), Directory: fmt.Sprintf("d%d", i), OnDelete: agentv1.OnDelete_ON_DELETE_DELETE,
		}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for token := ""; ; {
		page, err := c.ListDirectories(t.Context(), &agentv1.ListDirectoriesRequest{Share: share(), PageSize: 2, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range page.GetDirectories() {
			got = append(got, d.GetVolume())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if strings.Join(got, " ") != "pvc-0 pvc-1 pvc-2 pvc-3 pvc-4" {
		t.Errorf("%v", got)
	}
}

// TestSharedDirectories_refuses sends what nobody should, and expects that it reaches no share.
func TestSharedDirectories_refuses(t *testing.T) {
	servers, c := sharedClient(t)
	h := servers.Export("nas", "/export", 1<<30)
	change := func(f func(*agentv1.Share)) *agentv1.Share {
		s := share()
		f(s)
		return s
	}
	for name, s := range map[string]*agentv1.Share{
		"no share": nil, "no server": change(func(s *agentv1.Share) { s.Server = "" }), "a server with a path": change(func(s *agentv1.Share) { s.Server = "nas:/x" }),
		"a relative path": change(func(s *agentv1.Share) { s.Path = "export" }), "a way out": change(func(s *agentv1.Share) { s.Path = "/export/../etc" }),
		"no owner": change(func(s *agentv1.Share) { s.OwnerUid = "" }), "an owner out": change(func(s *agentv1.Share) { s.OwnerUid = "../" + nfsUID }),
		"suid": change(func(s *agentv1.Share) { s.MountOptions = []string{"suid"} }), "an address": change(func(s *agentv1.Share) { s.MountOptions = []string{"ro,addr=10.0.0.9"} }),
		"an identity": change(func(s *agentv1.Share) { s.ShareId = "x" }), "many options": change(func(s *agentv1.Share) { s.MountOptions = make([]string, 65) }),
	} {
		_, getErr := c.GetShare(t.Context(), &agentv1.GetShareRequest{Share: s, Prepare: true})
		_, ensureErr := c.EnsureDirectory(t.Context(), &agentv1.EnsureDirectoryRequest{Share: s, Volume: "a", Directory: "a", OnDelete: agentv1.OnDelete_ON_DELETE_DELETE})
		_, removeErr := c.RemoveDirectory(t.Context(), &agentv1.RemoveDirectoryRequest{Share: s, Volume: "a"})
		_, abandonErr := c.AbandonDirectory(t.Context(), &agentv1.AbandonDirectoryRequest{Share: s, Volume: "a"})
		_, listErr := c.ListDirectories(t.Context(), &agentv1.ListDirectoriesRequest{Share: s})
		for _, err := range []error{getErr, ensureErr, removeErr, abandonErr, listErr} {
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name, req := range map[string]*agentv1.EnsureDirectoryRequest{
		"no volume": {Directory: "a", OnDelete: 1}, "a volume out": {Volume: "../a", Directory: "a", OnDelete: 1}, "no directory": {Volume: "a", OnDelete: 1},
		"a directory out": {Volume: "a", Directory: "../a", OnDelete: 1}, "our marks": {Volume: "a", Directory: ".quarry/volumes", OnDelete: 1},
		"no policy": {Volume: "a", Directory: "a"}, "an unknown policy": {Volume: "a", Directory: "a", OnDelete: 99},
		"a size below nothing": {Volume: "a", Directory: "a", OnDelete: 1, SizeBytes: -1},
	} {
		req.Share = share()
		if _, err := c.EnsureDirectory(t.Context(), req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, req := range map[string]*agentv1.RemoveDirectoryRequest{
		"no volume": {}, "a volume out": {Volume: "a/../b"}, "an unknown policy": {Volume: "a", OnDelete: -1},
	} {
		req.Share = share()
		if _, err := c.RemoveDirectory(t.Context(), req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, volume := range map[string]string{"no volume": "", "a volume out": "a/../b"} {
		if _, err := c.AbandonDirectory(t.Context(), &agentv1.AbandonDirectoryRequest{Share: share(), Volume: volume}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, req := range map[string]*agentv1.ListDirectoriesRequest{"a token out": {PageToken: "../a"}, "a negative size": {PageSize: -1}} {
		req.Share = share()
		if _, err := c.ListDirectories(t.Context(), req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := h.Directories(); len(got) != 0 {
		t.Errorf("made %v", got)
	}
}

// TestSharedDirectories_problems tells apart why a share cannot be used.
func TestSharedDirectories_problems(t *testing.T) {
	servers, c := sharedClient(t)
	h := servers.Export("nas", "/export", 1<<30)
	for reason, code := range map[string]codes.Code{
		sharedvolume.ReasonUnreachable: codes.Unavailable, sharedvolume.ReasonNameUnresolved: codes.Unavailable, sharedvolume.ReasonNoSpace: codes.ResourceExhausted,
		sharedvolume.ReasonRefused: codes.FailedPrecondition, sharedvolume.ReasonNotExported: codes.FailedPrecondition,
		sharedvolume.ReasonReadOnly: codes.FailedPrecondition, sharedvolume.ReasonRootSquashed: codes.FailedPrecondition,
		sharedvolume.ReasonNotNFS: codes.FailedPrecondition, sharedvolume.ReasonUnstable: codes.FailedPrecondition, sharedvolume.ReasonUnknown: codes.FailedPrecondition,
		sharedvolume.ReasonInvalid: codes.InvalidArgument, sharedvolume.ReasonTooManyCalls: codes.Aborted,
	} {
		h.Break("", reason, "why")
		got, err := c.GetShare(t.Context(), &agentv1.GetShareRequest{Share: share(), Prepare: true})
		if err != nil || got.GetProblem().GetReason() != reason || got.GetProblem().GetMessage() != "why" {
			t.Errorf("%s: %v, %v", reason, got, err)
		}
		_, err = c.RemoveDirectory(t.Context(), &agentv1.RemoveDirectoryRequest{Share: share(), Volume: "a"})
		if status.Code(err) != code {
			t.Errorf("%s: %v, want %s", reason, err, code)
		}
		var detail *agentv1.ShareProblem
		for _, d := range status.Convert(err).Details() {
			if p, ok := d.(*agentv1.ShareProblem); ok {
				detail = p
			}
		}
		if detail.GetReason() != reason {
			t.Errorf("%s: details %v", reason, status.Convert(err).Details())
		}
	}
	h.Mend()
	if _, err := c.GetShare(t.Context(), &agentv1.GetShareRequest{Share: share(), Prepare: true}); err != nil {
		t.Fatal(err)
	}
	ensure := func(volume, directory string) error {
		_, err := c.EnsureDirectory(t.Context(), &agentv1.EnsureDirectoryRequest{Share: share(), Volume: volume, Directory: directory, OnDelete: 1})
		return err
	}
	if err := errors.Join(ensure("a", "a")); err != nil {
		t.Fatal(err)
	}
	if err := ensure("b", "a"); status.Code(err) != codes.AlreadyExists {
		t.Errorf("a directory that is taken: %v", err)
	}
	h.Take("a")
	if err := ensure("a", "a"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a directory that is gone: %v", err)
	}
}

func TestSharedDirectories_notServed(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{})
	_, err := agentv1.NewSharedDirectoryServiceClient(a.Dial(t)).GetShare(t.Context(), &agentv1.GetShareRequest{Share: share()})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("%v", err)
	}
}

// TestSharedDirectories_whatIsGone: who has volumes is told of records and directories that are gone, and no volume with a directory counts as removed.
func TestSharedDirectories_whatIsGone(t *testing.T) {
	servers, c := sharedClient(t)
	h := servers.Export("nas", "/export", 1<<30)
	look := func(s *agentv1.Share) string {
		t.Helper()
		got, err := c.GetShare(t.Context(), &agentv1.GetShareRequest{Share: s, Prepare: true})
		if err != nil {
			t.Fatal(err)
		}
		return got.GetProblem().GetReason()
	}
	if got := look(share()); got != "" {
		t.Fatal(got)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := c.EnsureDirectory(t.Context(), &agentv1.EnsureDirectoryRequest{Share: share(), Volume: name, Directory: name, OnDelete: agentv1.OnDelete_ON_DELETE_DELETE}); err != nil {
			t.Fatal(err)
		}
	}
	h.Take("b")
	for _, check := range []bool{true, false} {
		page, err := c.ListDirectories(t.Context(), &agentv1.ListDirectoriesRequest{Share: share(), CheckDirectories: check})
		if err != nil || len(page.GetDirectories()) != 2 || page.GetDirectories()[0].GetProblem() != "" || (page.GetDirectories()[1].GetProblem() != "") != check {
			t.Errorf("check %t: %v, %v", check, page, err)
		}
	}
	h.Forget(nfsUID)
	held := share()
	held.HasVolumes = true
	if got := look(held); got != sharedvolume.ReasonNotPrepared {
		t.Errorf("the records were begun anew: %q", got)
	}
	if got := look(share()); got != "" {
		t.Fatal(got)
	}
	for volume, want := range map[string]codes.Code{"a": codes.FailedPrecondition, "../a": codes.InvalidArgument, "b": codes.OK} {
		r, err := c.RemoveDirectory(t.Context(), &agentv1.RemoveDirectoryRequest{Share: share(), Volume: path.Base(volume), Directory: volume})
		if status.Code(err) != want || r.GetDone() != (want == codes.OK) {
			t.Errorf("%s: %v, %v", volume, r, err)
		}
	}
}
