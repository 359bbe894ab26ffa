package view

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/osd"
)

// TestLeave_unclearable: a host leaves, and the last disk of it cannot be cleared. The word that its Member is lost counts only while the host is off, whether the disk is there or not, so
// the advice is to switch the host off first. Then the disk goes off the record.
func TestLeave_unclearable(t *testing.T) {
	at := metav1.Now()
	gone := func(o *Observation) {
		n := o.Nodes["n1"]
		n.Devices, o.Verdicts = n.Devices[1:], nil
		o.Nodes["n1"] = n
	}
	off := func(o *Observation) {
		o.Verdicts = nil
		o.Nodes["n1"] = decide.Node{Agent: decide.AgentUnreachable}
	}
	for name, tt := range map[string]struct {
		change func(*Observation)
		lost   bool
		counts bool
		says   string
		step   bool
	}{
		"it is there":                    {nil, false, false, "it cannot be read. If the disk fails", false},
		"it is taken out":                {gone, false, false, "tells of no such disk. Put it back, and it is cleared. If the disk fails", false},
		"the host is off":                {off, false, true, "has not said", false},
		"it is off, and declared lost":   {off, true, true, "has not said", true},
		"nobody can say yet of the host": {func(o *Observation) { off(o); o.Nodes["n1"] = decide.Node{Agent: decide.AgentConnecting} }, false, false, "has not said", false},
	} {
		o := joined(v1alpha1.ClusterSpec{})
		m := o.World.Members[0]
		m.UID, m.DeletionTimestamp, m.Spec.Ceph.OSDs[0].Purged = "m", &at, true
		if tt.lost {
			m.Spec.Lost = "m"
		}
		o.Ceph.Map.OSDs, o.Workloads.Daemons = nil, nil
		o.Verdicts = map[string]osd.Verdict{diskUUID: {Kind: osd.Unknown, Message: "it cannot be read."}}
		if tt.change != nil {
			tt.change(&o)
		}
		v := New(o)
		f := v.Facts("n1")
		if counts := f.Reported(false, false).Status == metav1.ConditionFalse; counts != tt.counts || len(f.Holding) > 0 {
			t.Errorf("%s: a word counts %t, %+v", name, counts, f)
		}
		told := strings.Join(v.waits("n1"), " ")
		if !strings.Contains(told, tt.says) || strings.Contains(told, "If the disk fails") != strings.Contains(tt.says, "If the disk fails") {
			t.Errorf("%s: %s", name, told)
		}
		before, _, advised := strings.Cut(told, "declare")
		if advised && !strings.Contains(before, "switch host n1 off") {
			t.Errorf("%s: the word is advised while it is refused: %s", name, told)
		}
		step := false
		for _, s := range v.plan.steps {
			step = step || s.Ceph.Do == ceph.ZapOSD
		}
		if step != tt.step {
			t.Errorf("%s: steps %+v", name, v.plan.steps)
		}
	}
}

// TestSweep_back: a host that was declared lost is back before its OSD is off the record. A disk that carries the OSD is cleared if the OSD was purged, and stays on record with its key if it was not.
func TestSweep_back(t *testing.T) {
	at := metav1.Now()
	for name, tt := range map[string]struct {
		purged bool
		kind   osd.Kind
		change func(*Observation)
		// want is how many devices the one step that takes the disk off the record clears; -1 for no step.
		want int
	}{
		"the host is off":                         {false, osd.Unknown, func(o *Observation) { o.Nodes["n1"] = decide.Node{Agent: decide.AgentUnreachable} }, 0},
		"nobody can say yet of the host":          {false, osd.Unknown, func(o *Observation) { o.Nodes["n1"] = decide.Node{Agent: decide.AgentConnecting} }, -1},
		"the disk is not there":                   {false, osd.Unknown, func(o *Observation) { o.Nodes["n1"] = decide.Node{Agent: decide.AgentUp} }, 0},
		"it carries the OSD":                      {true, osd.Ready, nil, 1},
		"it does, and nobody purged it":           {false, osd.Ready, nil, -1},
		"it cannot be read":                       {true, osd.Unknown, nil, 0},
		"it cannot, and nobody purged the OSD":    {false, osd.Unknown, nil, -1},
		"it carries something else":               {false, osd.Other, nil, 0},
		"it never was made, and nobody purged it": {false, osd.Unfinished, nil, 1},
		"it never was made":                       {true, osd.Unfinished, nil, 1},
		"it is clean, and nobody purged the OSD":  {false, osd.Empty, nil, 0},
	} {
		o := sealedOSD(true, func(r *v1alpha1.MemberOSD) { r.Purged = tt.purged })
		m := o.World.Members[0]
		m.UID, m.DeletionTimestamp, m.Spec.Lost = "m", &at, "m"
		o.Ceph.Map.OSDs, o.Workloads.Daemons = nil, nil
		o.Verdicts = map[string]osd.Verdict{diskUUID: {Kind: tt.kind, Making: "first"}}
		if tt.change != nil {
			tt.change(&o)
		}
		v, got := New(o), []int{}
		for _, s := range v.plan.steps {
			if s.Ceph.Do == ceph.ZapOSD {
				got = append(got, len(s.Devices))
				// The step carries the making for the agent, and it is no part of what a person approves: once the disk is cleared there is none.
				anew := s
				if anew.Making = "second"; len(s.Devices) > 0 && (s.Making != "first" || s.Digest() != anew.Digest()) {
					t.Errorf("%s: it carries another making, or has to be approved for each: %+v", name, s)
				}
			}
		}
		if tt.want < 0 && len(got) > 0 || tt.want >= 0 && (len(got) != 1 || got[0] != tt.want) {
			t.Errorf("%s: steps that clear %v devices, %q", name, got, v.plan.waits)
		}
	}
}
