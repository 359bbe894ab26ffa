package view

import (
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestFound_unasked: while Ceph does not say how the OSDs are, a dead one is no disk that becomes an OSD.
func TestFound_unasked(t *testing.T) {
	const silent = "the monitors do not answer"
	for name, tt := range map[string]struct {
		change func(*Observation)
		kind   backend.Kind
		reason string
		says   string
	}{
		"it ran when Ceph said last":       {nil, 0, "", ""},
		"it did not":                       {func(o *Observation) { o.Ceph.Map.OSDs[0].Up = false }, backend.Bad, v1alpha1.ReasonOSDWaiting, "did not run when Ceph said last how they are: osd.1 on /dev/sdb. Ceph said that at 2001-09-09T01:46:40Z. Since then: " + silent},
		"it did not, and Ceph is asked":    {func(o *Observation) { o.Ceph.Map.OSDs[0].Up, o.Asking = false, BeingAsked }, backend.Bad, v1alpha1.ReasonOSDWaiting, "did not run"},
		"it never ran":                     {func(o *Observation) { o.Ceph.Map.OSDs[0].Up, o.Ceph.Map.OSDs[0].New = false, true }, backend.Busy, v1alpha1.ReasonPreparing, "its disks become OSDs"},
		"Ceph did not know it":             {func(o *Observation) { o.Ceph.Map.OSDs = nil }, backend.Busy, v1alpha1.ReasonPreparing, "its disks become OSDs"},
		"nobody was ever told":             {func(o *Observation) { o.Ceph = nil }, backend.Bad, v1alpha1.ReasonCephUnreachable, "nobody can say whether its OSDs run: " + silent},
		"nobody was told, and Ceph is":     {func(o *Observation) { o.Ceph, o.Asking = nil, BeingAsked }, backend.Busy, v1alpha1.ReasonPreparing, "is being asked"},
		"nobody was told, and none served": {func(o *Observation) { o.Ceph = nil; delete(o.Cluster.Annotations, v1alpha1.AnnotationCephServed) }, backend.Busy, v1alpha1.ReasonPreparing, "its disks become OSDs"},
	} {
		o := joined(v1alpha1.ClusterSpec{})
		o.Current, o.Asking, o.Now = false, silent, o.Now.Add(10*time.Minute)
		if tt.change != nil {
			tt.change(&o)
		}
		f := New(o).found("n1", *o.World.Members[0].Spec.Ceph)
		if f.Kind != tt.kind || f.Reason != tt.reason || !strings.Contains(f.Message, tt.says) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestUnable_givenUp: an OSD that is given up needs memory as long as its pod is there, and one that stays always does.
func TestUnable_givenUp(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Observation)
		unable bool
	}{
		"it stays":                          {func(o *Observation) { o.Workloads.Daemons = nil }, true},
		"given up, and deployed":            {func(o *Observation) { o.World.Members[0].Spec.Ceph.OSDs[0].Replaced = true }, true},
		"given up, and its pod is stopped":  {func(o *Observation) { o.World.Members[0].Spec.Ceph.OSDs[0].Replaced = true; o.Workloads.Daemons = nil }, false},
		"given up, and nobody can say that": {func(o *Observation) { o.World.Members[0].Spec.Ceph.OSDs[0].Replaced = true; o.Workloads = nil }, true},
	} {
		o := joined(v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{}})
		m := o.Machines["n1"]
		// Room for one OSD, one daemon of each kind, and not for another OSD.
		m.MemoryBytes = 6 << 30
		o.Machines["n1"] = m
		tt.change(&o)
		v := bare(o)
		v.lacks = map[string]bool{"mon": true, "mgr": true, "mds": true}
		if no := v.unable("n1", map[string]int{"osd": 1}); no.IsZero() == tt.unable {
			t.Errorf("%s: %+v", name, no)
		}
	}
}
