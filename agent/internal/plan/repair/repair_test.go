package repair

import (
	"errors"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
)

const me = "8f14e45f-ceea-467f-9575-2d3c1f0a7c11"

// damaged is a group of mine with a damaged pool that is not active, and two volumes in it.
func damaged() plan.Group {
	return plan.Group{
		Name: "vg", UUID: "vg-uuid", OwnerUID: me, PVs: []plan.PV{{Path: "/dev/a", UUID: "pv"}},
		LogicalVolumes: []plan.Volume{
			{Name: "beside", ID: "id-beside", Active: true, Open: true},
			{Name: "t1", ID: "id-t1", Pool: "pool", DeviceID: 2, TransactionID: 1},
			{Name: "t2", ID: "id-t2", Pool: "pool", DeviceID: 1},
		},
		Pools: []plan.Pool{
			{Name: "alien", Damage: "broken"},
			{
				Name: "pool", Ours: true, UUID: "pool-uuid", SizeBytes: 400 << 20, ChunkBytes: 64 << 10, TransactionID: 2, Volumes: 2, Damage: "broken",
				UsageUnknown: true,
			},
		},
	}
}

// TestPool: only a pool that is known to be damaged is repaired, only as it was when that was decided, and never while one of its volumes is used.
func TestPool(t *testing.T) {
	const repairs = "repair the metadata of thin pool vg/pool; activate pool vg/pool"
	active := func(open bool, id string) func(*plan.Group) {
		return func(g *plan.Group) {
			g.LogicalVolumes[1].Active, g.LogicalVolumes[1].Open, g.LogicalVolumes[1].ID = true, open, id
			g.Pools[1].Active = true
		}
	}
	for name, c := range map[string]struct {
		edit  func(*plan.Group)
		spec  func(*Spec)
		steps string
		err   error
	}{
		"damaged":                        {steps: repairs},
		"damaged, and active":            {edit: active(false, "id-t1"), steps: "deactivate vg/t1; deactivate vg/pool; " + repairs},
		"damaged, and in use":            {edit: active(true, "id-t1"), err: plan.ErrInUse},
		"with a volume that is not ours": {edit: active(false, ""), err: plan.ErrInUse},
		"not damaged":                    {edit: func(g *plan.Group) { g.Pools[1].Damage, g.Pools[1].Active = "", true }},
		"perhaps damaged":                {edit: func(g *plan.Group) { g.Pools[1].Damage = "" }, err: plan.ErrUsageUnknown},
		"as it was at another time":      {spec: func(s *Spec) { s.Digest = "v1:other" }, err: plan.ErrMismatch},
		"of which LVM does not tell":     {edit: func(g *plan.Group) { g.LogicalVolumes[2].DeviceID = 0 }, err: plan.ErrUntold},
		"that lacks a device":            {edit: func(g *plan.Group) { g.Partial = true }, err: plan.ErrPartial},
		"over a disk that dropped off":   {edit: func(g *plan.Group) { g.Pools[1].Stale = true }, err: plan.ErrStale},
		"beside a move of extents":       {edit: func(g *plan.Group) { g.Moving = &plan.Moving{} }, err: plan.ErrMoving},
		"that is not ours":               {spec: func(s *Spec) { s.Pool = "alien" }, err: plan.ErrNotOurs},
		"that is not there":              {spec: func(s *Spec) { s.Pool = "other" }, err: plan.ErrNotFound},
		"in a group of somebody else":    {spec: func(s *Spec) { s.OwnerUID = "other" }, err: plan.ErrNotOurs},
		"in a group of another node":     {edit: func(g *plan.Group) { g.Access, g.SystemID = plan.AccessOther, "n2" }, err: plan.ErrOtherNode},
		"in a group that is not there":   {spec: func(s *Spec) { s.Group = "other" }, err: plan.ErrNotFound},
	} {
		g := damaged()
		if c.edit != nil {
			c.edit(&g)
		}
		want := Spec{Group: "vg", OwnerUID: me, Pool: "pool", Digest: Digest(g, g.Pools[1])}
		if c.spec != nil {
			c.spec(&want)
		}
		p, err := Pool(plan.Snapshot{Groups: []plan.Group{g}}, want)
		var steps []string
		for _, s := range p.Steps {
			steps = append(steps, s.String())
		}
		if got := strings.Join(steps, "; "); got != c.steps || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestDigest: what an approval covers is the pool, its volumes and what is kept of earlier repairs; not what is around it, nor in which words it is
// damaged.
func TestDigest(t *testing.T) {
	first := damaged()
	want := Digest(first, first.Pools[1])
	for name, c := range map[string]struct {
		edit func(*plan.Group)
		same bool
	}{
		"other words":        {func(g *plan.Group) { g.Pools[1].Damage = "LVM says something else" }, true},
		"active":             {func(g *plan.Group) { g.Pools[1].Active = true }, true},
		"a volume beside it": {func(g *plan.Group) { g.LogicalVolumes = g.LogicalVolumes[1:] }, true},
		"repaired before":    {func(g *plan.Group) { g.Pools[1].Kept = []string{"pool_meta0"} }, false},
		"a volume less":      {func(g *plan.Group) { g.LogicalVolumes = g.LogicalVolumes[:2] }, false},
		"another device id":  {func(g *plan.Group) { g.LogicalVolumes[1].DeviceID = 7 }, false},
		"another of that id": {func(g *plan.Group) { g.LogicalVolumes[1].TransactionID = 5 }, false},
		"a change later":     {func(g *plan.Group) { g.Pools[1].TransactionID++ }, false},
		"larger":             {func(g *plan.Group) { g.Pools[1].SizeBytes *= 2 }, false},
		"another pool":       {func(g *plan.Group) { g.Pools[1].UUID = "other" }, false},
		"another group":      {func(g *plan.Group) { g.UUID = "other" }, false},
	} {
		g := damaged()
		c.edit(&g)
		if got := Digest(g, g.Pools[1]); got == "" || (got == want) != c.same {
			t.Errorf("%s: %q beside %q", name, got, want)
		}
	}
}
