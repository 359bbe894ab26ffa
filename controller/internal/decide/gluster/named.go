package gluster

import (
	"fmt"
	"slices"
)

// Named is a volume that a PersistentVolume of a driver of the pool names.
type Named struct {
	// PersistentVolume names Volume, its handle.
	PersistentVolume, Volume string
	// Block: the driver makes files in volumes, and its handles are no volumes of glusterd2.
	Block bool
	// Ending: the PersistentVolume was deleted, and no claim has it. It is there for as long as somebody's finalizer is on it.
	Ending bool
}

// Unlisted is the first volume that a PersistentVolume names and the pool does not list, and whether there is one. A store of the pool that was put back to an
// earlier state has servers and lacks volumes: what any node holds is not known then. A driver that keeps its volumes in files needs any volume at all.
func (p Pool) Unlisted() (Named, Answer) {
	if p.Named == nil || p.Volumes == nil {
		return Named{}, Unknown
	}
	for _, n := range *p.Named {
		if n.Block && len(*p.Volumes) > 0 {
			continue
		}
		if n.Block || !slices.ContainsFunc(*p.Volumes, func(v Volume) bool { return v.Name == n.Volume }) {
			return n, Yes
		}
	}
	return Named{}, No
}

// Missing says what it means that the pool does not list the volume, and what to do.
func (n Named) Missing() string {
	if n.Block {
		return fmt.Sprintf("PersistentVolume %s names the block volume %s, and the pool lists no volume that could hold it, so nobody knows what the nodes hold. "+
			"Restore the store of the pool. If the block volume is gone for ever, delete the PersistentVolume.", n.PersistentVolume, n.Volume)
	}
	return fmt.Sprintf("PersistentVolume %s names the volume %s, which the pool does not list, so nobody knows what the nodes hold. "+
		"Restore the store of the pool. If the volume is gone for ever, delete the PersistentVolume.", n.PersistentVolume, n.Volume)
}

// Doubt says why what the pool lists is not all that it has; empty when it is. Without its volumes there is nothing to compare.
func (p Pool) Doubt() string {
	if p.Named == nil {
		return "Nobody could list the PersistentVolumes that name volumes of the pool."
	}
	if n, unlisted := p.Unlisted(); unlisted == Yes {
		return n.Missing()
	}
	return ""
}
