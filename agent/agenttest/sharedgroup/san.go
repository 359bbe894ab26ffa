// Package sharedgroup is a model of a SAN for tests: LUNs, what LVM and the target keep of them, and the nodes that see them. Over it runs the real
// service of the agent, one on each node. Contract holds the model and a real node to the same. The model is strict: a call that no real tool would take fails.
package sharedgroup

import (
	"fmt"
	"slices"
	"sync"

	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/pvuuid"
	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	extent = 4 << 20
	// first is where the first extent begins: behind the metadata.
	first = 9 << 20
)

// SAN is a target with LUNs. All methods of it, of its LUNs and of its nodes are safe for concurrent use.
type SAN struct {
	mu    sync.Mutex
	luns  map[string]*LUN // by WWID
	uuids int
	nodes int
}

// NewSAN makes a target without LUNs.
func NewSAN() *SAN { return &SAN{luns: map[string]*LUN{}} }

// LUN is one LUN, with what is on it.
type LUN struct {
	san      *SAN
	identity sharedlun.Identity
	group    *sharedlun.Group
	pv       string // UUID of the physical volume
	foreign  string // content of others, as a sentence
	// keys are the registrations of the target. They count only if reserved is true.
	keys     []uint64
	reserved bool
	// written are the extents, by their first byte on the LUN, that somebody wrote something into that is not zero, and what: no write is like another one.
	written map[int64]int
	writes  int
	// files are the filesystems on volumes, by the extent in which they begin.
	files map[int64]decide.VolumeContent
	// lost says which filesystem was written over.
	lost string
	// commands of LVM that read or changed it.
	commands int
}

// AddLUN makes an empty LUN.
func (s *SAN) AddLUN(name string, bytes int64) *LUN {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &LUN{san: s, identity: sharedlun.Identity{WWID: "naa.6001405" + name, Serial: name, SizeBytes: bytes}, written: map[int64]int{}, files: map[int64]decide.VolumeContent{}}
	s.luns[l.identity.WWID] = l
	return l
}

// uuid makes a UUID as LVM does, another one each time.
func (s *SAN) uuid() string {
	s.uuids++
	return pvuuid.Complete(pvuuid.Stem(fmt.Sprint(s.uuids), pvuuid.Disk{Serial: "uuid"}, ""))
}

// Identity of the LUN.
func (l *LUN) Identity() sharedlun.Identity {
	l.san.mu.Lock()
	defer l.san.mu.Unlock()
	return l.identity
}

// Soil puts something of others on the LUN, in place of all that was there.
func (l *LUN) Soil(says string) {
	l.san.mu.Lock()
	defer l.san.mu.Unlock()
	l.group, l.pv, l.foreign = nil, "", says
}

// Swap puts another LUN behind the same number: one with another serial number.
func (l *LUN) Swap(serial string) {
	l.san.mu.Lock()
	defer l.san.mu.Unlock()
	l.identity.Serial = serial
}

// Restore puts a group back that was on the LUN earlier, as a target does that answers from a backup. Its identity and its keys stay as they are.
func (l *LUN) Restore(earlier *sharedlun.Group) {
	l.san.mu.Lock()
	defer l.san.mu.Unlock()
	l.group = clone(earlier)
}

// Reserve reserves the LUN for those who have a key registered.
func (l *LUN) Reserve(keys ...uint64) {
	l.san.mu.Lock()
	defer l.san.mu.Unlock()
	l.reserved, l.keys = true, slices.Sorted(slices.Values(keys))
}

// Preempt removes a registration. What its node writes from now on fails.
func (l *LUN) Preempt(key uint64) {
	l.san.mu.Lock()
	defer l.san.mu.Unlock()
	l.keys = slices.DeleteFunc(l.keys, func(k uint64) bool { return k == key })
}

// Commands returns how many commands of LVM read or changed the LUN.
func (l *LUN) Commands() int {
	l.san.mu.Lock()
	defer l.san.mu.Unlock()
	return l.commands
}

// Group is the group as it is on the LUN; nil when there is none.
func (l *LUN) Group() *sharedlun.Group {
	l.san.mu.Lock()
	defer l.san.mu.Unlock()
	return clone(l.group)
}

func clone(g *sharedlun.Group) *sharedlun.Group {
	if g == nil {
		return nil
	}
	out := *g
	out.Volumes = slices.Clone(g.Volumes)
	for i := range out.Volumes {
		v := &out.Volumes[i]
		v.Ranges, v.Tags = slices.Clone(v.Ranges), slices.Clone(v.Tags)
	}
	return &out
}

// Damage reports what lies at one place for two volumes, which a lost update leaves, and a filesystem that was written over. It is empty for a group that is
// sound.
func (l *LUN) Damage() string {
	l.san.mu.Lock()
	defer l.san.mu.Unlock()
	if l.group == nil || l.lost != "" {
		return l.lost
	}
	owner := map[int64]string{}
	for _, v := range l.group.Volumes {
		for _, at := range extents(v.Ranges) {
			if owner[at] != "" {
				return fmt.Sprintf("%s and %s both lie at byte %d", owner[at], v.Name, at)
			}
			owner[at] = v.Name
		}
	}
	return ""
}

// extents are the first bytes of the extents of ranges, in their order.
func extents(ranges []sharedlun.Range) []int64 {
	var out []int64
	for _, r := range ranges {
		for at := r.Start; at < r.Start+r.Size; at += extent {
			out = append(out, at)
		}
	}
	return out
}

// free are the extents that no volume of a group has.
func (l *LUN) free(g *sharedlun.Group) []int64 {
	taken := map[int64]bool{}
	for _, v := range g.Volumes {
		for _, at := range extents(v.Ranges) {
			taken[at] = true
		}
	}
	var out []int64
	for at := int64(first); at+extent <= first+g.SizeBytes; at += extent {
		if !taken[at] {
			out = append(out, at)
		}
	}
	return out
}

// mayWrite reports whether the target takes a write with a key.
func (l *LUN) mayWrite(key uint64) bool { return !l.reserved || slices.Contains(l.keys, key) }
