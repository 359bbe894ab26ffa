package lvm_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/csi/lvm"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

func (s *suite) remove(id string) error {
	_, err := s.DeleteVolume(s.t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	return err
}

func TestDeleteVolume(t *testing.T) {
	s := newSuite(t, false, "node-1")
	id := s.create(s.request("pvc-1")).GetVolumeId()
	name := volumeid.Name("pvc-1")
	s.agents["node-1"].OpenVolume(group, name)
	wantCode(t, s.remove(id), codes.FailedPrecondition)
	if v := s.agents["node-1"].Volumes(group); len(v) != 1 {
		t.Fatalf("a volume in use was removed: %+v", v)
	}
	s.agents["node-1"].CloseVolume(group, name)
	for range 2 {
		wantCode(t, s.remove(id), codes.OK)
	}
	if v := s.agents["node-1"].Volumes(group); len(v) != 0 {
		t.Errorf("volumes are %+v", v)
	}
}

func TestDeleteVolume_notOurs(t *testing.T) {
	s := newSuite(t, false, "node-1")
	foreign := volumeid.Name("foreign")
	s.agents["node-1"].AddVolume(group, foreign, gib)
	s.await("nobody on node-9", func() bool { return s.pool.Node("node-9").Agent == decide.AgentMissing })
	before := s.steps()
	for id, want := range map[string]codes.Code{
		"":                                codes.InvalidArgument,
		"pvc-1; rm -rf /":                 codes.OK,
		"node-1/" + group + "/--force":    codes.OK,
		"node-1/other/" + foreign:         codes.OK,
		"node-9/" + group + "/" + foreign: codes.Unavailable,
		"node-1/" + group + "/" + foreign: codes.PermissionDenied,
	} {
		if err := s.remove(id); true {
			t.Log(id)
			wantCode(t, err, want)
		}
	}
	if n := s.steps() - before; n != 0 {
		t.Errorf("%d changes were made", n)
	}
}

func TestDeleteVolume_nodeOrDisksAway(t *testing.T) {
	s := newSuite(t, false, "node-1")
	id := s.create(s.request("pvc-1")).GetVolumeId()
	s.agents["node-1"].Unplug("sdb")
	s.await("group gone", func() bool { g := s.pool.Node("node-1").Groups; return len(g) == 0 || g[0].Partial })
	if err := s.remove(id); err == nil {
		t.Error("a volume on a disk that is away was said to be deleted")
	}
	s.agents["node-1"].Plug("sdb")
	s.agents["node-1"].Kill()
	s.await("node-1 down", func() bool { return !s.pool.Node("node-1").Up() })
	wantCode(t, s.remove(id), codes.Unavailable)
	s.agents["node-1"].Restart(t)
	s.up("node-1")
	s.await("deletion", func() bool { return s.remove(id) == nil })
	if v := s.agents["node-1"].Volumes(group); len(v) != 0 {
		t.Errorf("volumes are %+v", v)
	}
}

// TestDeleteVolume_lostMember: a person said that the node is lost, and it may be back. The driver believes it only while it sees that the
// node is away, or that the group is.
func TestDeleteVolume_lostMember(t *testing.T) {
	s := newSuite(t, false, "node-1")
	a := s.agents["node-1"]
	id := s.create(s.request("pvc-1")).GetVolumeId()
	m := &s.cache.members[0]
	m.Spec.Lost, m.DeletionTimestamp = string(m.UID), new(metav1.Now())

	// The driver has just started: it has not heard of the node.
	young := agents.New(t.Context(), agents.Config{
		TLS: func(node string) (*tls.Config, error) { return a.CA.CSITLS(t, node), nil }, GroupsOnly: true,
		Grace: time.Minute, Patience: 50 * time.Millisecond, Absence: 50 * time.Millisecond,
	})
	t.Cleanup(young.Close)
	driver := &lvm.Backend{Reader: s.cache, Live: s.cache, Agents: young}
	refused := func(when string) {
		t.Helper()
		if err := driver.DeleteVolume(t.Context(), id); err == nil {
			t.Errorf("deleted while %s", when)
		}
		if v := a.Volumes(group); len(v) != 1 {
			t.Fatalf("volumes are %+v while %s", v, when)
		}
	}
	if n := young.Node("node-1"); n.Agent != decide.AgentConnecting {
		t.Fatalf("%+v", n)
	}
	refused("nobody knows the node yet")
	untold := agents.New(t.Context(), agents.Config{Grace: time.Nanosecond})
	t.Cleanup(untold.Close)
	driver.Agents = untold
	refused("nobody was told of any node")
	driver.Agents = young
	young.SetAddress("node-1", "127.0.0.1:1", "nobody")
	refused("the agent connects")

	// LVM fails there, or the disk does not answer.
	a.BreakReport(errors.New("exit status 5"))
	young.SetAddress("node-1", a.Addr(), "pod")
	s.await("the failure", func() bool { n := young.Node("node-1"); return n.Up() && len(n.Unknown) > 0 })
	refused("LVM reports no group")
	clusters := s.cache.clusters
	s.cache.clusters = nil
	refused("LVM reports no group, and the Cluster is gone")
	s.cache.clusters = clusters
	a.Unplug("sdb")
	a.BreakReport(nil)
	a.AddDisks(diskBytes, "sdc")
	a.Corrupt("sdc", "content")
	s.await("node-1 reports", func() bool {
		n := young.Node("node-1")
		return len(n.Unknown) == 0 && len(n.Groups) == 0 && slices.Equal(n.Hiding, []string{a.Path("sdc")})
	})
	refused("a disk does not answer")

	a.Corrupt("sdc", "")
	s.await("all is read", func() bool { return len(young.Node("node-1").Hiding) == 0 })
	if err := driver.DeleteVolume(t.Context(), id); err != nil {
		t.Errorf("the group is not there: %v", err)
	}
	a.Kill()
	s.await("node-1 down", func() bool { return young.Node("node-1").Agent == decide.AgentUnreachable })
	if err := driver.DeleteVolume(t.Context(), id); err != nil {
		t.Errorf("the node is away: %v", err)
	}
}

// TestDeleteVolume_twoMembersOfANode: a person made another Member of the node by hand. Its word does not count.
func TestDeleteVolume_twoMembersOfANode(t *testing.T) {
	s := newSuite(t, false, "node-1")
	id := s.create(s.request("pvc-1")).GetVolumeId()
	byHand := memberOf("node-1", s.pool.Node("node-1").Groups[0].UUID)
	byHand.Name, byHand.Spec.Lost, byHand.DeletionTimestamp = "by-hand", string(byHand.UID), new(metav1.Now())
	s.agents["node-1"].Kill()
	s.await("node-1 down", func() bool { return s.pool.Node("node-1").Agent == decide.AgentUnreachable })
	own := s.cache.members[0]
	for _, members := range [][]v1alpha1.Member{{own, byHand}, {byHand, own}} {
		s.cache.members = members
		wantCode(t, s.remove(id), codes.Unavailable)
	}
	if v := s.agents["node-1"].Volumes(group); len(v) != 1 {
		t.Errorf("volumes are %+v", v)
	}
}

func TestControllerExpandVolume(t *testing.T) {
	for name, c := range map[string]struct {
		thin bool
		size *csi.CapacityRange
		cap  *csi.VolumeCapability
		want codes.Code
		got  int64
		node bool
	}{
		"larger":                    {size: &csi.CapacityRange{RequiredBytes: 2 * gib}, got: 2 * gib, node: true},
		"between two extents":       {size: &csi.CapacityRange{RequiredBytes: gib + 1}, got: gib + 4<<20, node: true},
		"a raw device":              {size: &csi.CapacityRange{RequiredBytes: 2 * gib}, cap: block(), got: 2 * gib},
		"smaller changes nothing":   {size: &csi.CapacityRange{RequiredBytes: 1}, got: gib, node: true},
		"no range":                  {want: codes.InvalidArgument},
		"a limit below it":          {size: &csi.CapacityRange{RequiredBytes: 1, LimitBytes: gib / 2}, want: codes.OutOfRange},
		"above the free space":      {size: &csi.CapacityRange{RequiredBytes: 200 * gib}, want: codes.ResourceExhausted},
		"above the limit of a pool": {thin: true, size: &csi.CapacityRange{RequiredBytes: 101 * gib}, want: codes.OutOfRange},
		"thin":                      {thin: true, size: &csi.CapacityRange{RequiredBytes: 60 * gib}, got: 60 * gib, node: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, c.thin, "node-1")
			id := s.create(s.request("pvc-1")).GetVolumeId()
			s.agents["node-1"].OpenVolume(group, volumeid.Name("pvc-1"))
			r, err := s.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: c.size, VolumeCapability: c.cap})
			wantCode(t, err, c.want)
			if r.GetCapacityBytes() != c.got || r.GetNodeExpansionRequired() != c.node {
				t.Errorf("answer is %v, want %d bytes, node %t", r, c.got, c.node)
			}
			if got := s.agents["node-1"].Volumes(group)[0].SizeBytes; got != max(c.got, gib) {
				t.Errorf("size is %d", got)
			}
		})
	}
}

// TestControllerExpandVolume_smallerThanRecorded: older metadata of LVM shows the volume as it was before it grew. What it would grow over may be its data.
func TestControllerExpandVolume_smallerThanRecorded(t *testing.T) {
	for recorded, want := range map[int64]codes.Code{gib: codes.OK, gib + 1: codes.FailedPrecondition, 2 * gib: codes.FailedPrecondition} {
		s := newSuite(t, false, "node-1")
		made := s.create(s.request("pvc-1"))
		pv := bound("pvc-1", made)
		pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(recorded, resource.BinarySI)}
		s.cache.volumes = []corev1.PersistentVolume{pv}
		_, err := s.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{
			VolumeId: made.GetVolumeId(), CapacityRange: &csi.CapacityRange{RequiredBytes: 3 * gib},
		})
		wantCode(t, err, want)
		grown := s.agents["node-1"].Volumes(group)[0].SizeBytes == 3*gib
		if grown != (want == codes.OK) || err != nil && !strings.Contains(err.Error(), fmt.Sprint(recorded)) {
			t.Errorf("%d bytes on record: grown %t, %v", recorded, grown, err)
		}
	}
}

func block() *csi.VolumeCapability {
	c := mounted("")
	c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	return c
}

func TestControllerGetVolume_condition(t *testing.T) {
	s := newSuite(t, false, "node-1")
	id := s.create(s.request("pvc-1")).GetVolumeId()
	get := func() *csi.ControllerGetVolumeResponse {
		t.Helper()
		r, err := s.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := get(); r.GetStatus().GetVolumeCondition().GetAbnormal() || r.GetVolume().GetCapacityBytes() != gib {
		t.Errorf("a healthy volume is %v", r)
	}
	s.agents["node-1"].SetVolumeHealth(group, volumeid.Name("pvc-1"), "partial")
	if c := get().GetStatus().GetVolumeCondition(); !c.GetAbnormal() || !strings.Contains(c.GetMessage(), "a part of the volume is on it") {
		t.Errorf("condition is %v", c)
	}
	s.agents["node-1"].Kill()
	s.await("node-1 down", func() bool { return !s.pool.Node("node-1").Up() })
	if c := get().GetStatus().GetVolumeCondition(); !c.GetAbnormal() || !strings.Contains(c.GetMessage(), "node-1 cannot be reached") {
		t.Errorf("condition is %v", c)
	}
}

func TestListVolumes_pagesOverNodesAlsoThoseAway(t *testing.T) {
	s := newSuite(t, false, "node-1", "node-1-a", "node-2")
	var want []string
	for _, n := range []string{"node-1", "node-1-a", "node-2"} {
		for _, v := range []string{"pvc-1", "pvc-2"} {
			want = append(want, s.create(s.request(v+n, n)).GetVolumeId())
		}
	}
	s.agents["node-1-a"].Kill()
	s.await("node-1-a down", func() bool { return !s.pool.Node("node-1-a").Up() })
	for limit := range int32(8) {
		var got []string
		for token, first := "", true; first || token != ""; first = false {
			r, err := s.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: limit, StartingToken: token})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range r.GetEntries() {
				got = append(got, e.GetVolume().GetVolumeId())
				away := strings.HasPrefix(e.GetVolume().GetVolumeId(), "node-1-a/")
				if e.GetStatus().GetVolumeCondition().GetAbnormal() != away {
					t.Errorf("entry is %v", e)
				}
			}
			token = r.GetNextToken()
		}
		if !slices.IsSorted(want) && limit == 0 {
			t.Log("handles sort otherwise than nodes do")
		}
		slices.Sort(got)
		sorted := slices.Sorted(slices.Values(want))
		if diff := cmp.Diff(sorted, got); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
	_, err := s.ListVolumes(t.Context(), &csi.ListVolumesRequest{StartingToken: "none"})
	wantCode(t, err, codes.Aborted)
}

func TestGetCapacity(t *testing.T) {
	for name, c := range map[string]struct {
		thin bool
		node string
		want int64
	}{
		"one node":         {node: "node-1", want: 98},
		"all nodes":        {want: 198},
		"no host":          {node: "node-9", want: 0},
		"thin, one node":   {thin: true, node: "node-1", want: 99},
		"thin, both nodes": {thin: true, want: 199},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, c.thin, "node-1", "node-2")
			s.create(s.request("pvc-1", "node-1"))
			r := &csi.GetCapacityRequest{Parameters: s.parameters()}
			if c.node != "" {
				r.AccessibleTopology = on(c.node)
			}
			var got *csi.GetCapacityResponse
			s.await("capacity", func() bool {
				var err error
				if got, err = s.GetCapacity(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				return got.GetAvailableCapacity()>>30 == c.want
			})
			largest := min(c.want, 99)
			if c.thin {
				largest = min(c.want, 100)
			}
			if got.GetMaximumVolumeSize().GetValue()>>30 != largest {
				t.Errorf("capacity is %v, want at most %d GiB", got, largest)
			}
		})
	}
}

func TestGetCapacity_tooEarlyToSay(t *testing.T) {
	s := newSuite(t, false, "node-1")
	s.cache.clusters[0].Spec.Hosts = append(s.cache.clusters[0].Spec.Hosts, "node-2")
	s.cache.members = append(s.cache.members, memberOf("node-2", "some"))
	s.pool.SetAddress("node-2", "127.0.0.1:1", "nobody")
	_, err := s.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: s.parameters(), AccessibleTopology: on("node-2")})
	wantCode(t, err, codes.Unavailable)
}
