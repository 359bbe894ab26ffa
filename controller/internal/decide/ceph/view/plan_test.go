package view

import (
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// TestWhole_whatWaitsHoldsNothingBack: a replacement that nobody approves keeps no client of a dead node from being blocked.
func TestWhole_whatWaitsHoldsNothingBack(t *testing.T) {
	for _, mode := range []v1alpha1.Approval{v1alpha1.ApprovalAutomatic, v1alpha1.ApprovalManual} {
		o := joined(v1alpha1.ClusterSpec{Approval: mode})
		o.Ceph.Map.OSDs[0].Up, o.Ceph.Map.OSDs[0].In = false, false
		o.Clients = []ceph.Client{{Node: "n9", Addresses: []string{"10.0.0.9"}, Boot: "one", Tainted: true, Off: true}}
		steps := New(o).Whole(nil).Steps
		verdict := backend.Approve(backend.Request{Mode: mode, UID: "u", Steps: steps, Offer: "p-1"})
		has := func(steps []backend.Step, action string) bool {
			return slices.ContainsFunc(steps, func(s backend.Step) bool { return s.Action() == action })
		}
		if !has(steps, v1alpha1.ActionReplaceOSD) || !has(verdict.Run, v1alpha1.ActionBlockClient) || has(verdict.Run, v1alpha1.ActionReplaceOSD) || !verdict.Waiting() {
			t.Errorf("%s: steps %v, of which run %v", mode, steps, verdict.Run)
		}
	}
}

// TestWhole_release: the address of a node that is gone is let go by a person alone.
func TestWhole_release(t *testing.T) {
	o := joined(v1alpha1.ClusterSpec{})
	text, err := noted.BlockedText(o.Cluster, []ceph.Blocked{{Node: "n9", Address: "10.0.0.9", Boot: "one"}})
	if err != nil {
		t.Fatal(err)
	}
	o.Cluster.Annotations[v1alpha1.AnnotationCephBlocked] = text
	o.Ceph.Blocked = &[]string{"10.0.0.9"}
	i := slices.IndexFunc(New(o).Whole(nil).Steps, func(s backend.Step) bool { return s.Action() == v1alpha1.ActionUnblockClient })
	if i < 0 {
		t.Fatal("it is not offered")
	}
	if s := New(o).Whole(nil).Steps[i]; !s.Destroys() || backend.Restores(s) || !strings.Contains(s.API().Consent, "n9") {
		t.Errorf("%+v", s.API())
	}
}

// TestGrouping: Ceph chooses how many placement groups there are, unless the spec has the table choose, which counts OSDs that stay.
func TestGrouping(t *testing.T) {
	for name, tt := range map[string]struct {
		spec   v1alpha1.CephSpec
		change func(*Observation)
		want   ceph.Grouping
	}{
		"by default":                {v1alpha1.CephSpec{}, nil, ceph.Grouping{Scale: ceph.ScaleOn}},
		"an option":                 {v1alpha1.CephSpec{PGPolicy: v1alpha1.PGPolicyAutoscale, Config: map[string]v1alpha1.CephOption{"global.osd_pool_default_pg_autoscale_mode": "warn"}}, nil, ceph.Grouping{Scale: ceph.ScaleWarn}},
		"an option of the monitors": {v1alpha1.CephSpec{Config: map[string]v1alpha1.CephOption{"mon.osd_pool_default_pg_autoscale_mode": "on", "global.osd_pool_default_pg_autoscale_mode": "off"}}, nil, ceph.Grouping{Scale: ceph.ScaleOn}},
		"theirs is no mode":         {v1alpha1.CephSpec{Config: map[string]v1alpha1.CephOption{"mon.osd_pool_default_pg_autoscale_mode": "perhaps", "global.osd_pool_default_pg_autoscale_mode": "off"}}, nil, ceph.Grouping{Scale: ceph.ScaleOff}},
		"an option that is no mode": {v1alpha1.CephSpec{Config: map[string]v1alpha1.CephOption{"global.osd_pool_default_pg_autoscale_mode": "perhaps"}}, nil, ceph.Grouping{Scale: ceph.ScaleOn}},
		"the table":                 {v1alpha1.CephSpec{PGPolicy: v1alpha1.PGPolicyLegacy}, nil, ceph.Grouping{Scale: ceph.ScaleOff, Disks: 1}},
		"an OSD that is down":       {v1alpha1.CephSpec{PGPolicy: v1alpha1.PGPolicyLegacy}, func(o *Observation) { o.Ceph.Map.OSDs[0].Up = false }, ceph.Grouping{Scale: ceph.ScaleOff, Disks: 1}},
		"one that never ran":        {v1alpha1.CephSpec{PGPolicy: v1alpha1.PGPolicyLegacy}, func(o *Observation) { o.Ceph.Map.OSDs[0].New = true }, ceph.Grouping{Scale: ceph.ScaleOff}},
		"one that is replaced":      {v1alpha1.CephSpec{PGPolicy: v1alpha1.PGPolicyLegacy}, func(o *Observation) { o.World.Members[0].Spec.Ceph.OSDs[0].Replaced = true }, ceph.Grouping{Scale: ceph.ScaleOff}},
	} {
		o := joined(v1alpha1.ClusterSpec{Ceph: &tt.spec})
		if tt.change != nil {
			tt.change(&o)
		}
		got := bare(o).grouping(o.Ceph.Facts)
		if got.Scale != tt.want.Scale || got.Disks != tt.want.Disks || !slices.Equal(got.Pools, []string{"quarry-metadata", "quarry-data"}) || !slices.Equal(got.Bulk, []string{"quarry-data"}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestReplicas_unasked: a controller that starts anew does not take a host that left for a copy less, before Ceph said how many there are.
func TestReplicas_unasked(t *testing.T) {
	for name, tt := range map[string]struct {
		spec   int32
		config string
		pools  []ceph.Pool
		asked  bool
		want   int
	}{
		"Ceph was not asked yet":      {0, "osd_pool_default_size = 3\n", nil, false, 3},
		"nor told anything":           {0, "", nil, false, 1},
		"Ceph has three copies":       {0, "", []ceph.Pool{{Name: cephname.PoolData, Size: 3, MinSize: 2}}, true, 3},
		"Ceph has one, whatever said": {0, "osd_pool_default_size = 3\n", nil, true, 1},
		"more than any pool may have": {6, "osd_pool_default_size = 3\n", nil, false, 6},
		"the spec says two":           {2, "osd_pool_default_size = 3\n", nil, false, 2},
	} {
		o := joined(v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{Replicas: tt.spec}})
		o.Workloads.Config, o.Ceph.Map.Pools = tt.config, tt.pools
		if !tt.asked {
			o.Ceph = nil
		}
		if got := bare(o).replicas(); got != tt.want {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// TestPlanMonitors_wired: which monitors fail, and which were removed, reaches the rules. n1 has the monitor a on record, and one that is deployed beside it has not joined.
func TestPlanMonitors_wired(t *testing.T) {
	for name, tt := range map[string]struct {
		failing bool
		swept   []string
		in      []string
		want    string
	}{
		"it may join":                {in: []string{"a"}},
		"its pod fails":              {in: []string{"a"}, failing: true, want: "RemoveMonitor b n2"},
		"it was removed, and joined": {in: []string{"a", "b", "c"}, swept: []string{"c"}, want: "RemoveMonitor c n2"},
	} {
		o := joined(v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{Mons: 1}})
		o.World.Members[0].Spec.Ceph.Monitor = &v1alpha1.MemberMonitor{Name: "a", Address: "10.0.0.1"}
		second := o.World.Members[0].DeepCopy()
		second.Name, second.Spec.Node = "files.n2", "n2"
		second.Spec.Ceph = &v1alpha1.MemberCeph{Monitor: &v1alpha1.MemberMonitor{Name: "b", Address: "10.0.0.2"}, Swept: tt.swept}
		o.World.Members = append(o.World.Members, second)
		o.Cluster.Spec.Hosts = append(o.Cluster.Spec.Hosts, "n2")
		o.World.Nodes["n2"], o.Nodes["n2"], o.Addresses["n2"], o.Machines["n2"] = backend.Node{Name: "n2", Exists: true}, decide.Node{Agent: decide.AgentUp}, "10.0.0.2", o.Machines["n1"]
		o.Workloads.Daemons = append(o.Workloads.Daemons, Workload{Kind: cephname.DaemonMonitor, ID: "a", Node: "n1", Ready: true}, Workload{Kind: cephname.DaemonMonitor, ID: "b", Node: "n2", Failing: tt.failing})
		o.Ceph.Quorum = &ceph.Quorum{}
		for _, m := range tt.in {
			o.Ceph.Quorum.Monitors = append(o.Ceph.Quorum.Monitors, ceph.Monitor{Name: m, In: true})
		}
		v := New(o)
		var got []string
		for _, s := range v.planMonitors(v.hosts(), true, o.Ceph.Facts).Steps {
			got = append(got, s.String())
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestStep_independent: a disk that cannot be prepared or cleared holds up no other one; a disk that was not wiped is not taken.
func TestStep_independent(t *testing.T) {
	for does, want := range map[string]bool{
		v1alpha1.ActionPrepareOSD: true, v1alpha1.ActionZapOSD: true, v1alpha1.ActionWipeDevice: false, v1alpha1.ActionTakeDisks: false, v1alpha1.ActionPurgeOSD: false, v1alpha1.ActionStartMonitor: false,
	} {
		if got := backend.IsIndependent(Step{Does: does}); got != want {
			t.Errorf("%s: independent %t", does, got)
		}
	}
}

// TestDraining: a host that leaves says how many of its disks are not given back, however much else there is to say.
func TestDraining(t *testing.T) {
	o := joined(v1alpha1.ClusterSpec{})
	v := New(o)
	r := *o.World.Members[0].Spec.Ceph
	for range 5 {
		v.plan.wait("Disk x on n1 is not given back: %s", strings.Repeat("long ", 100))
	}
	if f := v.draining("n1", r); !strings.HasPrefix(f.Message, "is being emptied, and 1 of its disks are not given back yet (status.devices): ") {
		t.Errorf("%+v", f)
	}
	r.OSDs = nil
	if f := v.draining("n1", r); strings.Contains(f.Message, "given back yet") {
		t.Errorf("%+v", f)
	}
}
