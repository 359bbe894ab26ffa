package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// TestGuard_deletion: a Cluster whose deletion waits for its volumes still keeps its data from harm. Once it is given up there is nothing to guard.
func TestGuard_deletion(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Observation)
		want   []string
	}{
		"volumes hold it":      {func(*Observation) {}, []string{v1alpha1.ActionBlockClient, v1alpha1.ActionSetNoOut}},
		"its members go":       {func(o *Observation) { o.World.Members[0].DeletionTimestamp = o.Cluster.DeletionTimestamp }, []string{v1alpha1.ActionBlockClient}},
		"it is given up":       {func(o *Observation) { o.Cluster.Annotations[v1alpha1.AnnotationCephRemoved] = "u" }, nil},
		"Ceph is being asked":  {func(o *Observation) { o.Current, o.Asking = false, BeingAsked }, nil},
		"its keys are missing": {func(o *Observation) { o.Cluster.DeletionTimestamp, o.Workloads.Keys = nil, false }, []string{v1alpha1.ActionBlockClient, v1alpha1.ActionSetNoOut}},
	} {
		o := joined(v1alpha1.ClusterSpec{Maintenance: []v1alpha1.HostName{"n1"}})
		o.Cluster.DeletionTimestamp = &metav1.Time{Time: o.Now}
		o.Clients = []ceph.Client{{Node: "n9", Addresses: []string{"10.0.0.9"}, Boot: "one", Tainted: true, Off: true}}
		tt.change(&o)
		w := New(o).Whole(nil)
		var got []string
		for _, s := range backend.Approve(backend.Request{UID: "u", Steps: w.Steps, Offer: "p-1", Silent: w.Silent}).Run {
			if backend.Guards(s) != "" {
				got = append(got, s.Action())
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestBudget: how many OSDs may go follows what Ceph says, and what was set stands while it is being asked. Nobody approves that.
func TestBudget(t *testing.T) {
	unclean := func(o *Observation) { o.Ceph.Groups.Clean-- }
	for name, tt := range map[string]struct {
		change func(*Observation)
		// want is the budget that is set; nil for none.
		want *ceph.Budget
	}{
		"it is as it is to be":        {func(*Observation) {}, nil},
		"there is none":               {func(o *Observation) { o.Workloads.Budget = nil }, &ceph.Budget{Most: 1}},
		"groups are not clean":        {unclean, &ceph.Budget{}},
		"they are not, and it is set": {func(o *Observation) { unclean(o); o.Workloads.Budget = &ceph.Budget{} }, nil},
		"they are clean again":        {func(o *Observation) { o.Workloads.Budget = &ceph.Budget{} }, &ceph.Budget{Most: 1}},
		"Ceph is being asked":         {func(o *Observation) { o.Workloads.Budget, o.Current, o.Asking = nil, false, BeingAsked }, nil},
		"Ceph does not answer":        {func(o *Observation) { o.Current, o.Asking = false, "The monitors do not answer." }, &ceph.Budget{}},
		"no OSD is deployed":          {func(o *Observation) { o.Workloads.Budget, o.Workloads.Daemons = nil, nil }, nil},
		"maintenance, and the host may go": {func(o *Observation) {
			unclean(o)
			o.Cluster.Spec.Maintenance, o.Ceph.Rest = o.Cluster.Spec.Hosts, map[string]ceph.Answer{"n1": ceph.Yes}
		}, &ceph.Budget{Free: []int{1}}},
	} {
		o := joined(v1alpha1.ClusterSpec{Approval: v1alpha1.ApprovalManual})
		tt.change(&o)
		var got *ceph.Budget
		w := New(o).Whole(nil)
		for _, s := range backend.Approve(backend.Request{UID: "u", Mode: v1alpha1.ApprovalManual, Steps: w.Steps, Offer: "p-1", Silent: w.Silent}).Run {
			if s.Action() == v1alpha1.ActionSetBudget {
				got = new(s.(Step).Budget)
			}
		}
		if (got == nil) != (tt.want == nil) || got != nil && !got.Equal(*tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// TestBudget_silence: while the monitors do not answer no OSD may go, and the plan that a person approved is neither over nor void.
func TestBudget_silence(t *testing.T) {
	ask := func(o Observation, recorded *v1alpha1.Plan, approval string) backend.Verdict {
		w := New(o).Whole(nil)
		return backend.Approve(backend.Request{UID: "u", Steps: w.Steps, Recorded: recorded, Approval: approval, Offer: "p-1", Silent: w.Silent})
	}
	o := joined(v1alpha1.ClusterSpec{})
	o.Ceph.Map.OSDs[0].Up, o.Ceph.Map.OSDs[0].In = false, false
	shown := ask(o, nil, "").Plan
	if shown == nil {
		t.Fatal("no replacement is offered")
	}
	o.Current, o.Asking = false, "The monitors do not answer."
	v := ask(o, shown, shown.Digest)
	if v.UsedUp || v.Dropped || v.Plan == nil || v.Plan.Digest != shown.Digest {
		t.Errorf("used up %v, dropped %v, plan %+v", v.UsedUp, v.Dropped, v.Plan)
	}
	if !slices.ContainsFunc(v.Run, func(s backend.Step) bool { return s.Action() == v1alpha1.ActionSetBudget }) || len(v.Run) != 1 {
		t.Errorf("runs %v", v.Run)
	}
}

// TestGuards: clients at each address, and each host, are guarded by themselves, and nothing that a person approves is.
func TestGuards(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range []ceph.Step{{Do: ceph.BlockClient, Host: "n1", Name: "10.0.0.1"}, {Do: ceph.BlockClient, Host: "n1", Name: "10.0.0.2"}, {Do: ceph.SetNoOut, Host: "n1"}} {
		if g := backend.Guards(Step{Does: actions[s.Do], Ceph: s}); g == "" || seen[g] {
			t.Errorf("%s guards %q", s, g)
		} else {
			seen[g] = true
		}
	}
	for _, s := range []Step{{Does: v1alpha1.ActionReplaceOSD, Loses: "x"}, {Does: v1alpha1.ActionUnblockClient, Loses: "x"}, {Does: v1alpha1.ActionStartMonitor}} {
		if g := backend.Guards(s); g != "" {
			t.Errorf("%s guards %q", s.Does, g)
		}
	}
}

// TestBlocklist: an address that is blocked by no record is told, with the node that has it.
func TestBlocklist(t *testing.T) {
	for name, tt := range map[string]struct {
		blocked *[]string
		record  []ceph.Blocked
		want    metav1.ConditionStatus
		says    string
	}{
		"nothing is blocked":   {&[]string{}, nil, metav1.ConditionTrue, ""},
		"by the record":        {&[]string{"10.0.0.9"}, []ceph.Blocked{{Node: "n9", Address: "10.0.0.9", Boot: "one", Machine: "m"}}, metav1.ConditionTrue, ""},
		"the record is lost":   {&[]string{"10.0.0.9"}, nil, metav1.ConditionFalse, "node n9"},
		"nobody can list them": {nil, nil, metav1.ConditionUnknown, ""},
	} {
		o := joined(v1alpha1.ClusterSpec{})
		o.Ceph.Blocked, o.Clients = tt.blocked, []ceph.Client{{Node: "n9", Addresses: []string{"10.0.0.9"}, Boot: "one", Machine: "m"}}
		text, err := noted.BlockedText(o.Cluster, tt.record)
		if err != nil {
			t.Fatal(err)
		}
		o.Cluster.Annotations[v1alpha1.AnnotationCephBlocked] = text
		v := New(o)
		if got := v.blocklist(); got.Status != tt.want || !strings.Contains(got.Message, tt.says) || strings.Contains(strings.Join(v.plan.waits, " "), "no record of the Cluster says why") != (tt.says != "") {
			t.Errorf("%s: %+v, waits %q", name, got, v.plan.waits)
		}
	}
}

// TestGuard_failOver: a metadata server on a host in maintenance hands over to one that stands by elsewhere, without an approval, and not again within a minute.
func TestGuard_failOver(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Observation)
		want   bool
	}{
		"the host is in maintenance": {func(*Observation) {}, true},
		"it is not":                  {func(o *Observation) { o.Cluster.Spec.Maintenance = nil }, false},
		"it was done just now":       {func(o *Observation) { o.FailedOver = o.Now.Add(-59 * time.Second) }, false},
		"it was done a while ago":    {func(o *Observation) { o.FailedOver = o.Now.Add(-time.Minute) }, true},
		"Ceph is being asked":        {func(o *Observation) { o.Current, o.Asking = false, BeingAsked }, false},
		"nothing is deployed of one": {func(o *Observation) { o.Workloads.Daemons = o.Workloads.Daemons[:2] }, false},
	} {
		o := joined(v1alpha1.ClusterSpec{Approval: v1alpha1.ApprovalManual, Maintenance: []v1alpha1.HostName{"n1"}})
		o.Ceph.Daemons = &[]ceph.Daemon{{Kind: cephname.DaemonMetadata, Name: "h1", Running: true, Active: true}, {Kind: cephname.DaemonMetadata, Name: "h2", Running: true}}
		o.Workloads.Daemons = append(o.Workloads.Daemons, Workload{Kind: cephname.DaemonMetadata, ID: "h1", Node: "n1"}, Workload{Kind: cephname.DaemonMetadata, ID: "h2", Node: "n2"})
		tt.change(&o)
		w := New(o).Whole(nil)
		run := backend.Approve(backend.Request{UID: "u", Mode: v1alpha1.ApprovalManual, Steps: w.Steps, Offer: "p-1", Silent: w.Silent}).Run
		if got := slices.ContainsFunc(run, func(s backend.Step) bool {
			return s.Action() == v1alpha1.ActionFailOver && s.(Step).Ceph.Name == "h1" && backend.Guards(s) != "" && backend.Restores(s)
		}); got != tt.want {
			t.Errorf("%s: %t, steps %v", name, got, run)
		}
	}
}
