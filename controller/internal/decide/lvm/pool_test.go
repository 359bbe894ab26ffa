package lvm

import (
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestWork_growPool(t *testing.T) {
	const giga = 1 << 30
	sized := &decide.ThinPoolSpec{Name: "p", SizeBytes: 10 * giga}
	shared := &decide.ThinPoolSpec{Name: "p", Percent: 90}
	group := func(free int64, pools ...decide.ThinPool) []decide.Group {
		return []decide.Group{{Name: "g", SizeBytes: 100 * giga, FreeBytes: free, Pools: pools}}
	}
	nearly := decide.ThinPool{Name: "p", SizeBytes: 10 * giga, DataPermyriad: 8000}
	devices := []decide.Device{{Path: "/dev/disk/by-id/a", Digest: "d"}}
	for name, tt := range map[string]struct {
		pool   *decide.ThinPoolSpec
		groups []decide.Group
		choice disk.Choice
		want   []string
	}{
		"none wanted":                       {nil, group(100 * giga), disk.Choice{}, nil},
		"none there":                        {sized, group(100 * giga), disk.Choice{}, []string{v1alpha1.ActionEnsureThinPool}},
		"no group yet, no disk":             {sized, nil, disk.Choice{}, nil},
		"with the group":                    {sized, nil, disk.Choice{Take: devices}, []string{v1alpha1.ActionEnsureVolumeGroup, v1alpha1.ActionEnsureThinPool}},
		"large enough":                      {sized, group(giga, decide.ThinPool{Name: "p", SizeBytes: 10 * giga}), disk.Choice{}, nil},
		"to grow":                           {sized, group(0, decide.ThinPool{Name: "p", SizeBytes: 9 * giga}), disk.Choice{}, []string{v1alpha1.ActionEnsureThinPool}},
		"share, group was extended":         {shared, group(40*giga, decide.ThinPool{Name: "p", SizeBytes: 50 * giga}), disk.Choice{}, []string{v1alpha1.ActionEnsureThinPool}},
		"share, nothing free":               {shared, group(giga, decide.ThinPool{Name: "p", SizeBytes: 50 * giga}), disk.Choice{}, nil},
		"share, all but metadata":           {shared, group(9*giga, decide.ThinPool{Name: "p", SizeBytes: 89 * giga}), disk.Choice{}, nil},
		"nearly full, with room":            {sized, group(50*giga, nearly), disk.Choice{}, []string{v1alpha1.ActionEnsureThinPool}},
		"nearly full of metadata":           {sized, group(50*giga, decide.ThinPool{Name: "p", SizeBytes: 10 * giga, MetadataPermyriad: 8000}), disk.Choice{}, []string{v1alpha1.ActionEnsureThinPool}},
		"not quite":                         {sized, group(50*giga, decide.ThinPool{Name: "p", SizeBytes: 10 * giga, DataPermyriad: 7999}), disk.Choice{}, nil},
		"nobody knows":                      {sized, group(50*giga, decide.ThinPool{Name: "p", SizeBytes: 10 * giga, UsageUnknown: true}), disk.Choice{}, nil},
		"nearly full, room for a repair":    {sized, group(2*giga, nearly), disk.Choice{}, nil},
		"nearly full, a share of the group": {&decide.ThinPoolSpec{Name: "p", Percent: 10}, group(50*giga, nearly), disk.Choice{}, nil},
		"before and after a wipe": {shared, group(100 * giga), disk.Choice{Wipe: devices}, []string{
			v1alpha1.ActionEnsureThinPool, v1alpha1.ActionWipeDevice, v1alpha1.ActionEnsureVolumeGroup, v1alpha1.ActionEnsureThinPool,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := work{node: "n1", owner: "u", name: "g", groups: tt.groups, choice: tt.choice, pool: tt.pool}
			var got []string
			digests := map[string]bool{}
			for _, s := range w.grow() {
				got = append(got, s.Does)
				if s.ThinPool != nil {
					digests[s.Digest()] = true
					if s.ThinPool.Group != "g" || s.ThinPool.Owner != "u" || s.Reason == "" {
						t.Errorf("step %+v", s)
					}
				}
			}
			if len(got) != len(tt.want) || len(digests) > 1 {
				t.Fatalf("steps %v, want %v; %d digests of one pool", got, tt.want, len(digests))
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Errorf("steps %v, want %v", got, tt.want)
				}
			}
		})
	}
}

// TestWork_extension: a pool grows by a fifth, and what a repair needs stays free.
func TestWork_extension(t *testing.T) {
	const giga = 1 << 30
	for free, want := range map[int64]int64{50 * giga: 2 * giga, 3 * giga: giga, 2*giga + 1<<20: 0, 0: 0} {
		pool := decide.ThinPool{Name: "p", SizeBytes: 10 * giga, DataPermyriad: 9900}
		w := work{
			node: "n1", owner: "u", name: "g", pool: &decide.ThinPoolSpec{Name: "p", SizeBytes: 10 * giga},
			groups: []decide.Group{{Name: "g", SizeBytes: 100 * giga, FreeBytes: free, Pools: []decide.ThinPool{pool}}},
		}
		if got := w.extension(pool); got != want {
			t.Errorf("%d bytes free: grows by %d, not %d", free, got, want)
		}
	}
}
