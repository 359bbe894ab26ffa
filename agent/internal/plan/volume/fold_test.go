package volume

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/plan"
)

func TestSnapshot_ownChangesAreFoldedIn(t *testing.T) {
	was := plan.Snapshot{Groups: []plan.Group{stocked()}}
	added := plan.Volume{Name: "m", ID: "id-m", SizeBytes: 40 * mb}
	s := With(With(was, "vg", "vg", added), "vg", "vg", added)
	s = With(s, "vg", "vg", plan.Volume{Name: "t2", Pool: "pool", SizeBytes: 8 * mb})
	s = Without(Without(s, "vg", "vg", "snap"), "vg", "vg", "x")
	g := s.Groups[0]
	if diff := cmp.Diff([]string{"alien", "clone", "lin", "m", "open", "other", "t2", "thin"}, g.Volumes); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if p, _ := g.Pool("pool"); g.FreeBytes != 260*mb || g.PVs[0].FreeBytes != 260*mb || p.VirtualBytes != 408*mb || p.Volumes != 3 {
		t.Errorf("free %d, %d, pool %+v", g.FreeBytes/mb, g.PVs[0].FreeBytes/mb, p)
	}
	if diff := cmp.Diff(stocked(), was.Groups[0]); diff != "" {
		t.Errorf("the snapshot before was changed:\n%s", diff)
	}
	if diff := cmp.Diff(was, With(was, "vg", "another", added)); diff != "" {
		t.Errorf("a group with another UUID was changed:\n%s", diff)
	}
}

func TestWithGroup_replacesOne(t *testing.T) {
	was := plan.Snapshot{Groups: []plan.Group{{Name: "vg1", UUID: "1"}, stocked()}}
	now := stocked()
	now.LogicalVolumes = now.LogicalVolumes[:1]
	s := WithGroup(was, now)
	if diff := cmp.Diff([]plan.Group{{Name: "vg1", UUID: "1"}, now.Named()}, s.Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(stocked(), was.Groups[1]); diff != "" {
		t.Errorf("the snapshot before was changed:\n%s", diff)
	}
}
