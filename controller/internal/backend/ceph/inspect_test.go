package ceph

import (
	"context"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/osd"
)

// carrier has the disks of a node, of which one carries an OSD.
type carrier struct {
	Disks
	carries string
}

func (c carrier) Inspect(_ context.Context, _ string, d decide.Device, o OSD) (osd.Verdict, error) {
	if d.KernelName == c.carries {
		return osd.Verdict{Kind: osd.Ready, Carries: o.UUID}, nil
	}
	return osd.Verdict{Kind: osd.Other}, nil
}

// TestInspectUnrecorded_twins: of two disks with one serial number the agent is asked about each, and what it says of one is not taken for the other.
func TestInspectUnrecorded_twins(t *testing.T) {
	b, c, m, _ := keyed(t, nil)
	b.Disks = carrier{carries: "sdc"}
	m.Spec.Node, m.Spec.Ceph = "n1", nil
	c.Spec.Hosts = []v1alpha1.HostName{"n1"}
	twin := func(name string) decide.Device {
		return decide.Device{Path: "/dev/" + name, KernelName: name, WWN: "same", Serial: "same", SizeBytes: 1 << 40, Type: "disk", Digest: name, Refusals: []v1alpha1.Refusal{{Reason: v1alpha1.RefusalCeph}}}
	}
	o := view.Observation{
		Cluster: c, World: backend.World{Members: []*v1alpha1.Member{m}, Nodes: map[string]backend.Node{"n1": {Name: "n1", Exists: true}}}, Workloads: &view.Workloads{},
		Nodes: map[string]decide.Node{"n1": {Name: "n1", Agent: decide.AgentUp, Devices: []decide.Device{twin("sdb"), twin("sdc")}}},
	}
	if more, err := b.inspectUnrecorded(t.Context(), c, view.New(o), b.memory.of(c.UID), &o); err != nil || !more {
		t.Fatalf("%t, %v", more, err)
	}
	if len(o.Suspected) != 2 {
		t.Fatalf("suspects %+v", o.Suspected)
	}
	for _, u := range view.New(o).Suspects() {
		if carries := o.Suspected[u.Key()].Carries != ""; carries != (u.Device.KernelName == "sdc") {
			t.Errorf("%s carries an OSD: %t", u.Device.Path, carries)
		}
	}
}
