package repair

import (
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
	"quarry.storage/quarry/pkg/withheld"
)

// withheldScene is a case of the table as an agent sees it: a group on one disk, and a clean one beside it.
func withheldScene(c withheld.Case) plan.Snapshot {
	g := damaged()
	g.SizeBytes, g.FreeBytes, g.ExtentBytes, g.Partial = 10<<30, 4<<30, 4<<20, c.Missing
	g.Pools = g.Pools[1:]
	p, v := &g.Pools[0], &g.LogicalVolumes[1]
	switch p.Stale = c.Stale; c.Pool {
	case withheld.None:
		g.Pools, g.LogicalVolumes = nil, nil
	case withheld.Unknown:
		p.Damage = ""
	case withheld.Well:
		p.Damage, p.Active, p.UsageUnknown = "", true, false
	case withheld.Damaged:
		p.Active, v.Active, v.Open = c.Open, c.Open, c.Open
	}
	switch c.Move {
	case withheld.Agents:
		g.Moving = &plan.Moving{FromUUID: "pv", Bytes: 1}
	case withheld.Persons:
		g.Moving = &plan.Moving{FromUUID: "pv", Bytes: plan.SliceBytes + 1}
	case withheld.Still:
	}
	disk := func(path string) plan.Device {
		return plan.Device{
			Path: path, Serial: path, SizeBytes: 1 << 30, LogicalSectorBytes: 512, HeadTailZero: true, ContentDigest: "d", Type: "disk", Use: plan.Unused,
		}
	}
	old := disk("/dev/a")
	old.PVUUID, old.Group, old.OwnerUID, old.HeadTailZero, old.ContentDigest = "pv", "vg", me, false, ""
	old.Signatures = []plan.Signature{{Type: "LVM2_member"}}
	return plan.Snapshot{Groups: []plan.Group{g}, Devices: []plan.Device{old, disk("/dev/b")}}
}

// TestWithheld: the agent keeps to the rule that the controller decides by.
func TestWithheld(t *testing.T) {
	for _, c := range withheld.Cases {
		s := withheldScene(c)
		for action, a := range map[string]struct {
			want withheld.Verdict
			ask  func() (plan.Plan, error)
		}{
			"extend": {c.Extend, func() (plan.Plan, error) {
				want := plan.GroupSpec{Name: "vg", OwnerUID: me, Devices: []plan.Identity{plan.IdentityOf(s.Devices[1])}}
				return plan.EnsureGroup(s, want, plan.Policy{})
			}},
			"make the pool": {c.Make, func() (plan.Plan, error) {
				p, err := volume.EnsurePool(s, volume.PoolSpec{Group: "vg", OwnerUID: me, Name: "pool", Percent: 20})
				return p.Plan, err
			}},
			"repair": {c.Repair, func() (plan.Plan, error) {
				if c.Pool == withheld.None {
					return plan.Plan{}, nil
				}
				return Pool(s, Spec{Group: "vg", OwnerUID: me, Pool: "pool", Digest: Digest(s.Groups[0], s.Groups[0].Pools[0])})
			}},
		} {
			p, err := a.ask()
			if done := err == nil && len(p.Steps) > 0; done != (a.want == withheld.Done) {
				t.Errorf("%s: %s: %v, %v", c.Name, action, p.Steps, err)
			}
		}
	}
}
