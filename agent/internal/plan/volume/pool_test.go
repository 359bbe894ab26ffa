package volume

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/plan"
)

func TestEnsurePool(t *testing.T) {
	pool := func(name string, mib int64, percent int32) PoolSpec {
		return PoolSpec{Group: "vg", OwnerUID: me, Name: name, SizeBytes: mib * mb, Percent: percent}
	}
	create := func(size int64) []plan.Step {
		return []plan.Step{CreatePool{
			Group: stocked().Ref(), Name: "new", Tags: []string{plan.TagPool}, SizeBytes: size, MetadataBytes: 4 * mb, ChunkBytes: 64 << 10,
			Reason: "thin pool new does not exist in group vg",
		}}
	}
	tests := map[string]struct {
		group   func(*plan.Group)
		want    PoolSpec
		steps   []plan.Step
		err     error
		because string
	}{
		"of a size":                     {want: pool("new", 99, 0), steps: create(100 * mb)},
		"of all the room but metadata":  {want: pool("new", 296, 0), steps: create(296 * mb)},
		"of more than that":             {want: pool("new", 300, 0), err: plan.ErrNoRoom, because: "has 314572800 of 1048576000 bytes free"},
		"of a share":                    {want: pool("new", 0, 20), steps: create(200 * mb)},
		"of a share as far as it goes":  {want: pool("new", 0, 100), steps: create(296 * mb)},
		"of a share without room":       {group: func(g *plan.Group) { g.FreeBytes = 4 * mb }, want: pool("new", 0, 50), err: plan.ErrNoRoom},
		"that exists":                   {want: pool("pool", 400, 0)},
		"that exists, of a smaller one": {want: pool("pool", 4, 0)},
		"that exists, of a share":       {want: pool("pool", 0, 40)},
		"that has to grow": {want: pool("pool", 500, 0), steps: []plan.Step{ExtendLV{
			Group: stocked().Ref(), Name: "pool", SizeBytes: 500 * mb, MetadataBytes: 8 * mb, Reason: "thin pool has 419430400 bytes and 524288000 are wanted",
		}}},
		"that has to grow too far": {want: pool("pool", 800, 0), err: plan.ErrNoRoom},
		"that grows to a share as far as it goes": {want: pool("pool", 0, 100), steps: []plan.Step{ExtendLV{
			Group: stocked().Ref(), Name: "pool", SizeBytes: 684 * mb, MetadataBytes: 12 * mb, Reason: "thin pool has 419430400 bytes and 717225984 are wanted",
		}}},
		"that cannot grow to a share any more": {group: func(g *plan.Group) { g.FreeBytes = 0 }, want: pool("pool", 0, 100)},
		"that is not ours":                     {want: pool("alien", 4, 0), err: plan.ErrAlreadyExists},
		"with the name of a volume":            {want: pool("lin", 4, 0), err: plan.ErrAlreadyExists},
		"in a group that is not complete":      {group: func(g *plan.Group) { g.Partial = true }, want: pool("new", 4, 0), err: plan.ErrPartial},
		"that has to grow and is not active":   {group: inactive, want: pool("pool", 500, 0), err: plan.ErrUsageUnknown, because: "it is not active"},
		"that has to grow and is damaged": {
			group: func(g *plan.Group) { g.Pools[1].Damage = "broken" }, want: pool("pool", 500, 0), err: plan.ErrDamaged, because: "broken",
		},
		"in a group of somebody else": {
			want: PoolSpec{Group: "vg", OwnerUID: somebody, Name: "new", SizeBytes: mb}, err: plan.ErrNotOurs,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := stocked()
			if tt.group != nil {
				tt.group(&g)
			}
			p, err := EnsurePool(plan.Snapshot{Groups: []plan.Group{g}}, tt.want)
			if !errors.Is(err, tt.err) || err != nil && !strings.Contains(err.Error(), tt.because) {
				t.Fatalf("got %v, want %v because %q", err, tt.err, tt.because)
			}
			if diff := cmp.Diff(tt.steps, p.Steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

// inactive makes the pool of a group inactive: LVM would activate it, and the kernel begin metadata anew that begins with zeroes.
func inactive(g *plan.Group) { g.Pools[1].Active, g.Pools[1].UsageUnknown = false, true }

func TestChunkAndMetadata(t *testing.T) {
	g := group{plan.Group{ExtentBytes: 4 * mb}}
	for size, want := range map[int64][2]int64{
		1 << 30:   {64 << 10, 4 * mb},
		100 << 30: {64 << 10, 200 * mb},
		1 << 40:   {512 << 10, 256 * mb},
		1 << 50:   {512 << 20, 256 * mb},
	} {
		chunk := chunkFor(size)
		if meta := g.metadataFor(size, chunk); chunk != want[0] || meta != want[1] {
			t.Errorf("%d: chunk %d, metadata %d", size, chunk, meta)
		}
	}
	if meta := g.metadataFor(1<<44, 64<<10); meta != 15*giga {
		t.Errorf("the metadata of many small chunks is %d", meta)
	}
}
