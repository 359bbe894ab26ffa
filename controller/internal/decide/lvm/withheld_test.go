package lvm

import (
	"slices"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/withheld"
)

// withheldMove is the move as the agent tells it.
func withheldMove(c withheld.Case) *decide.Moving {
	switch {
	case c.Move == withheld.Still:
		return nil
	case c.Move == withheld.Persons:
		return &decide.Moving{Left: "a person began it"}
	case c.Missing || c.Stale:
		return &decide.Moving{Left: "it waits"}
	}
	return &decide.Moving{Bytes: 1, From: "/dev/disk/by-id/sda"}
}

// withheldScene is a case of the table as the controller sees it: a group on two disks, and a clean one beside them.
func withheldScene(c withheld.Case) scene {
	own := func(d decide.Device) decide.Device { d.OwnerUID = "uid"; return d }
	g := groupOf("A", "sda", "sdb")
	pool := decide.ThinPool{Name: "quarry-thin", SizeBytes: 1 << 30, RepairDigest: "v1:d", UsageUnknown: true}
	switch g.Pools = []decide.ThinPool{pool}; c.Pool {
	case withheld.None:
		g.Pools = nil
	case withheld.Damaged:
		g.Pools[0].Damage = "broken"
	case withheld.Well:
		g.Pools[0].UsageUnknown, g.Pools[0].RepairDigest = false, ""
	case withheld.Unknown:
	}
	if g.Partial = c.Missing; c.Missing {
		g.PVs[1].Path = ""
	}
	if c.Stale {
		g.StaleVolumes = []string{"quarry-thin"}
	}
	g.Moving = withheldMove(c)
	percent := int32(5)
	cluster := clusterOf(func(c *v1alpha1.Cluster) {
		c.Spec.LVM = &v1alpha1.LVMSpec{ThinPool: &v1alpha1.ThinPoolSpec{Percent: &percent}}
	})
	in := scene{cluster: cluster, node: up("n1", []decide.Group{g}, own(device("sda")), own(device("sdb")), device("sdc")), object: memberOf(cluster, records("A"))}
	if c.Pool == withheld.Unknown || c.Pool == withheld.Well {
		before := pool
		before.Damage = "broken"
		g.Pools, g.Partial, g.Moving, g.StaleVolumes = []decide.ThinPool{before}, false, nil, nil
		planned := scene{cluster: cluster, node: up("n1", []decide.Group{g}, own(device("sda")), own(device("sdb"))), object: memberOf(cluster, records("A"))}.decide()
		in.object.Status.Plan = &v1alpha1.Plan{}
		for _, s := range planned.Steps {
			in.object.Status.Plan.Steps = append(in.object.Status.Plan.Steps, s.API())
		}
	}
	return in
}

// TestWithheld: the controller asks for what the agent does, or will do, and for nothing else.
func TestWithheld(t *testing.T) {
	for _, c := range withheld.Cases {
		steps := withheldScene(c).decide().Steps
		for action, want := range map[string]withheld.Verdict{
			v1alpha1.ActionEnsureVolumeGroup: c.Extend, v1alpha1.ActionEnsureThinPool: c.Make, v1alpha1.ActionRepairThinPool: c.Repair,
		} {
			asks := slices.ContainsFunc(steps, func(s backend.Step) bool { return s.Action() == action })
			if asks != (want != withheld.Never) {
				t.Errorf("%s: %s is asked for: %t; %v", c.Name, action, asks, steps)
			}
		}
	}
}
