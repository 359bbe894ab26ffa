package inventory

import (
	"testing"

	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/plan"
)

// TestPool_begunAnew: metadata that tells another transaction than LVM recorded is not the pool's. One transaction less is what a killed command
// leaves, unless a volume was used of which nothing is left.
func TestPool_begunAnew(t *testing.T) {
	const none = -1
	for name, c := range map[string]struct {
		kernel, lvm int64
		used        bool
		want        bool
	}{
		"the same":                      {3, 3, true, false},
		"not known":                     {none, 3, true, false},
		"begun anew":                    {0, 3, false, true},
		"older":                         {2, 4, false, true},
		"a command was killed":          {2, 3, true, false},
		"the first volume was not made": {0, 1, false, false},
		"the first volume was used":     {0, 1, true, true},
		"LVM's record was put back":     {4, 3, true, true},
	} {
		thin := &lvm.Thin{TransactionID: c.lvm}
		if c.kernel != none {
			thin.KernelTransactionID = &c.kernel
		}
		volume := lvm.LV{Name: "v", Pool: "p"}
		if !c.used {
			volume.Tags = []string{plan.TagNew}
		}
		v := lvm.LV{Name: "p", ThinPool: true, Active: true, Thin: thin}
		if got := pool(v, []lvm.LV{v, volume, {Name: "elsewhere", Pool: "q"}}); (got.Damage != "") != c.want {
			t.Errorf("%s: %q", name, got.Damage)
		}
	}
	if got := pool(lvm.LV{Name: "p", Damage: "LVM says so"}, nil); got.Damage != "LVM says so" {
		t.Errorf("%q", got.Damage)
	}
}

// TestVolumes_removing: that the removal of a volume began is read from its tag.
func TestVolumes_removing(t *testing.T) {
	for _, tags := range [][]string{{plan.TagVolume + "id"}, {plan.TagVolume + "id", plan.TagRemoving}} {
		g := volumes(plan.Group{}, []lvm.LV{{Name: "v", Tags: tags}})
		if v := g.LogicalVolumes[0]; v.ID != "id" || v.Removing != (len(tags) > 1) {
			t.Errorf("%q: %+v", tags, v)
		}
	}
}
