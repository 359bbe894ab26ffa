package ceph

import "slices"

// Modes of Ceph's autoscaler, by pool.
const (
	// ScaleOn: Ceph chooses how many placement groups a pool has. ScaleWarn: it only says what it would choose. ScaleOff: somebody else chooses.
	ScaleOn   = "on"
	ScaleWarn = "warn"
	ScaleOff  = "off"
)

// PoolGroups is how many placement groups a pool has, or is on its way to have, and who chooses that.
type PoolGroups struct {
	Count int
	Scale string
}

// Grouping is what is wanted of the numbers of placement groups.
type Grouping struct {
	// Pools that it is about; the others are left alone.
	Pools []string
	// Bulk are those of them that hold most of the data: they alone have the flag. The autoscaler multiplies the share of a pool with it by the bias of the pool, which for metadata is 4.
	Bulk []string
	// Scale is the mode of the autoscaler.
	Scale string
	// Disks is how many OSDs the table counts, if it chooses the numbers.
	Disks int
}

// LegacyGroups is the table by which earlier systems of this kind choose how many placement groups each of the two pools of a filesystem has: half of 100 for each OSD, shared out
// among the copies. Without an OSD there are none.
func LegacyGroups(disks, copies int) int {
	if disks < 1 || copies < 1 {
		return 0
	}
	return 100 * disks / 2 / copies
}

// plan has a pool get its placement groups. They change only while all of them are clean: each change moves data. The flag goes first, whoever chooses: it moves nothing itself, and Ceph takes its time with
// what follows from it.
func (g Grouping) plan(p *Plan, pool string, copies int, f Facts) {
	if !slices.Contains(g.Pools, pool) {
		return
	}
	have, known := f.Map.Groups[pool]
	want := LegacyGroups(g.Disks, copies)
	switch {
	case slices.Contains(f.Map.Bulk, pool) && !slices.Contains(g.Bulk, pool):
		p.step(Step{Do: UnsetBulk, Name: pool, ID: -1, Why: "The pool holds little, and Ceph gives it as many placement groups as one that holds most of the data."})
	case !known || have.Count < 1 || have.Scale == "":
		p.wait("How many placement groups pool %s has cannot be read.", pool)
	case have.Scale != g.Scale:
		p.step(Step{Do: SetScale, Name: pool, Mode: g.Scale, ID: -1, Why: "The spec says who chooses how many placement groups there are."})
	case g.Scale != ScaleOff || g.Disks == 0 || want < 1 || have.Count == want:
	case !f.Groups.clean():
		p.wait("Pool %s has %d placement groups, and gets %d once all of them are clean.", pool, have.Count, want)
	default:
		p.step(Step{Do: SetGroups, Name: pool, Value: want, ID: -1, Why: "The table wants another number of placement groups."})
	}
}
