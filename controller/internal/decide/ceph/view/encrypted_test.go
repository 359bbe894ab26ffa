package view

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// sealedOSD is an observation of one OSD that is encrypted, with changes to its record.
func sealedOSD(wants bool, change func(*v1alpha1.MemberOSD)) Observation {
	o := joined(v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{Encrypted: wants}})
	r := &o.World.Members[0].Spec.Ceph.OSDs[0]
	r.Encrypted, r.Keyed = true, true
	if change != nil {
		change(r)
	}
	o.Workloads.DiskKeys = map[string]string{diskUUID: ""}
	return o
}

func TestEncrypted(t *testing.T) {
	clear := func(r *v1alpha1.MemberOSD) { r.Encrypted, r.Keyed = false, false }
	gone := func(o *Observation) { o.Workloads.DiskKeys = nil }
	for name, tt := range map[string]struct {
		wants  bool
		record func(*v1alpha1.MemberOSD)
		change func(*Observation)
		want   metav1.ConditionStatus
		reason string
		says   string
	}{
		"all are":                           {true, nil, nil, metav1.ConditionTrue, v1alpha1.ReasonDisksEncrypted, "stays where nobody wrote since"},
		"one is not":                        {true, clear, nil, metav1.ConditionFalse, v1alpha1.ReasonDisksNotEncrypted, "1 of 1 OSDs were made before the spec wanted encrypted disks, and stay in the clear until their host has left and is listed again: "},
		"nobody wants it":                   {false, clear, nil, "", "", ""},
		"the spec does not want it now":     {false, nil, nil, metav1.ConditionTrue, v1alpha1.ReasonEncryptionOff, "stay so"},
		"nor then, and its key is gone":     {false, nil, gone, metav1.ConditionFalse, v1alpha1.ReasonDiskKeyMissing, "is gone"},
		"nor then, and nobody knows keys":   {false, nil, func(o *Observation) { o.Workloads = nil }, metav1.ConditionUnknown, v1alpha1.ReasonPending, ""},
		"its key is gone":                   {true, nil, gone, metav1.ConditionFalse, v1alpha1.ReasonDiskKeyMissing, cephname.DiskKey("files", diskUUID)},
		"its key lacks a label":             {true, nil, func(o *Observation) { o.Workloads.DiskKeys[diskUUID] = "it lacks the label x" }, metav1.ConditionFalse, v1alpha1.ReasonDiskKeyMissing, "lacks the label x"},
		"its key is gone, and was in use":   {true, func(r *v1alpha1.MemberOSD) { r.Keyed = false }, gone, metav1.ConditionFalse, v1alpha1.ReasonDiskKeyMissing, ""},
		"its key is gone, and it is unused": {true, func(r *v1alpha1.MemberOSD) { r.Keyed = false }, func(o *Observation) { gone(o); o.Verdicts = nil }, metav1.ConditionTrue, v1alpha1.ReasonDisksEncrypted, ""},
		"nobody knows which keys there are": {true, nil, func(o *Observation) { o.Workloads = nil }, metav1.ConditionUnknown, v1alpha1.ReasonPending, ""},
		"no OSD yet":                        {true, nil, func(o *Observation) { o.World.Members[0].Spec.Ceph.OSDs = nil }, metav1.ConditionFalse, v1alpha1.ReasonPending, ""},
		"it was told before": {false, clear, func(o *Observation) {
			o.Cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDisksEncrypted}}
		}, metav1.ConditionUnknown, v1alpha1.ReasonEncryptionOff, "1 of 1"},
	} {
		o := sealedOSD(tt.wants, tt.record)
		if tt.change != nil {
			tt.change(&o)
		}
		got := bare(o).encrypted()
		if tt.want == "" {
			if len(got) > 0 {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Status != tt.want || got[0].Reason != tt.reason || !strings.Contains(got[0].Message, tt.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestLocked: without the key of its disk no daemon is deployed; with it, it opens the disk.
func TestLocked(t *testing.T) {
	for _, gone := range []bool{false, true} {
		o := sealedOSD(true, nil)
		o.Workloads.Daemons, o.Ceph.Map.OSDs[0].Up = nil, false
		if gone {
			o.Workloads.DiskKeys = nil
		}
		v := New(o)
		i := slices.IndexFunc(v.plan.steps, func(s Step) bool { return s.Does == v1alpha1.ActionStartOSD })
		if (i >= 0) == gone || !gone && !v.plan.steps[i].Daemon.Encrypted {
			t.Errorf("gone %t: %+v", gone, v.plan.steps)
		}
		name := cephname.DiskKey("files", diskUUID)
		if told := slices.ContainsFunc(v.plan.waits, func(w string) bool { return strings.Contains(w, name) && strings.Contains(w, "restore") }); told != gone {
			t.Errorf("gone %t: %q", gone, v.plan.waits)
		}
	}
}

// TestTake_encrypted: disks are taken as the spec wants at that time, and both are other steps to who approves them.
func TestTake_encrypted(t *testing.T) {
	digests := map[string]bool{}
	for _, wants := range []bool{false, true} {
		o := sealedOSD(wants, nil)
		o.World.Members[0].Spec.Ceph.OSDs, o.Ceph.Map.OSDs = nil, nil
		v := New(o)
		h := v.Decide(backend.Member{Node: "n1", Object: o.World.Members[0]})
		if len(h.Steps) != 1 {
			t.Fatalf("%+v", h)
		}
		s := h.Steps[0].(Step)
		if s.Encrypted != wants || strings.Contains(s.Why, "encrypted") != wants {
			t.Errorf("%t: %+v", wants, s)
		}
		digests[s.Digest()] = true
	}
	if len(digests) != 2 {
		t.Error("the steps cannot be told apart")
	}
	o := sealedOSD(true, nil)
	o.World.Members[0].Spec.Ceph.OSDs, o.Ceph.Map.OSDs = nil, nil
	n := o.Nodes["n1"]
	for i := range n.Devices {
		n.Devices[i].SizeBytes += 512
	}
	if h := New(o).Decide(backend.Member{Node: "n1", Object: o.World.Members[0]}); len(h.Steps) > 0 || !strings.Contains(h.Finding.Message, "whole sectors") {
		t.Errorf("%+v", h)
	}
}

// TestWanted_encrypted: what a Deployment is compared with opens the disk if the record says so.
func TestWanted_encrypted(t *testing.T) {
	o := sealedOSD(true, nil)
	v := bare(o)
	have := o.Workloads.Daemons[0]
	d, ok := v.wanted(have)
	if !ok || !d.Encrypted {
		t.Fatalf("%+v", d)
	}
}

// TestUpgrade_locked: a daemon that would not open its disk again is not restarted, whatever it lacks, and the plan says why.
func TestUpgrade_locked(t *testing.T) {
	for _, gone := range []bool{false, true} {
		o := sealedOSD(true, nil)
		if gone {
			o.Workloads.DiskKeys = nil
		}
		v := bare(o)
		have := o.Workloads.Daemons[slices.IndexFunc(o.Workloads.Daemons, func(w Workload) bool { return w.Kind == cephname.DaemonOSD })]
		told := v.deployed([]ceph.Daemon{{Kind: have.Kind, Name: have.ID}, {Kind: cephname.DaemonMonitor, Name: "a"}})
		if (told[0].Locked != "") != gone || told[0].Kind != cephname.DaemonOSD {
			t.Errorf("gone %t: %+v", gone, told)
		}
		// Ceph is asked about the first of these alone, so the one that gets no turn must not stand before the others.
		if asked := Outdated(o); (len(asked) == 0) != gone {
			t.Errorf("gone %t: asked about %v", gone, asked)
		}
	}
}

// TestOwed_keys: a Member that is declared lost stays until Ceph has forgotten its OSDs and the keys of its disks are removed.
func TestOwed_keys(t *testing.T) {
	for name, tt := range map[string]struct {
		record func(*v1alpha1.MemberOSD)
		change func(*Observation)
		owes   string
		step   bool
	}{
		"Ceph knows the OSD":                 {nil, nil, "osd.1", false},
		"nobody knows whether Ceph does":     {nil, func(o *Observation) { o.Current = false }, "the OSD on /dev/sdb", false},
		"Ceph has forgotten it":              {nil, func(o *Observation) { o.Ceph.Map.OSDs = nil }, "the key of disk /dev/sdb", true},
		"so it has, and it was in the clear": {func(r *v1alpha1.MemberOSD) { r.Encrypted, r.Keyed = false, false }, func(o *Observation) { o.Ceph.Map.OSDs = nil }, "", true},
		"nothing is on record any more":      {nil, func(o *Observation) { o.Ceph.Map.OSDs, o.World.Members[0].Spec.Ceph.OSDs = nil, nil }, "", false},
	} {
		o := sealedOSD(true, tt.record)
		m := o.World.Members[0]
		m.UID, m.Spec.Lost, m.DeletionTimestamp = "m", "m", &metav1.Time{Time: o.Now}
		o.Workloads.Daemons, o.Verdicts = nil, nil
		o.Nodes["n1"] = decide.Node{Agent: decide.AgentMissing}
		if tt.change != nil {
			tt.change(&o)
		}
		v := New(o)
		if owes := strings.Join(v.Facts("n1").Holding, ", "); (owes == "") != (tt.owes == "") || !strings.HasPrefix(owes, tt.owes) {
			t.Errorf("%s: %q", name, owes)
		}
		if i := slices.IndexFunc(v.plan.steps, func(s Step) bool { return s.Does == v1alpha1.ActionZapOSD }); (i >= 0) != tt.step || i >= 0 && len(v.plan.steps[i].Devices) > 0 {
			t.Errorf("%s: %+v, %q", name, v.plan.steps, v.plan.waits)
		}
	}
}
