package ceph

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// MaxReplicas is how many copies of everything a pool may have. The API has the same limit.
const MaxReplicas = 5

// Pools is what is wanted of the pools.
type Pools struct {
	// Names of the pools in the order in which they are made.
	Names []string
	// Replicas is how many copies there are of everything.
	Replicas int
	// Served: the filesystem over the pools has been there, by the Cluster's record.
	Served bool
	// ShareHost: copies of one object may be on one host.
	ShareHost bool
	// Grouping is who chooses how many placement groups the pools have.
	Grouping Grouping
}

// Replicas returns how many copies are kept: as many as the spec says, or three where there are as many places (hosts, or disks where copies may share a host). It returns an error for a number that
// no pool can have.
func Replicas(spec, places int) (int, error) {
	switch {
	case spec == 0:
		return max(1, min(3, places)), nil
	case spec < 0 || spec > MaxReplicas:
		return 0, fmt.Errorf("%d replicas: there can be 1 to %d", spec, MaxReplicas)
	}
	return spec, nil
}

// MinSize is how many copies there have to be for a placement group to serve. Ceph has the same default.
func MinSize(replicas int) int { return replicas - replicas/2 }

// Risk says what a number of copies cannot survive; empty for those that survive one loss while another host is away.
func Risk(replicas int) string {
	switch replicas {
	case 1:
		return "There is one copy of everything: what is on a disk that fails is lost."
	case 2:
		return "There are two copies of everything. While one is away, what is written is on one disk only."
	}
	return ""
}

// PlanPools returns at most one step. A change that makes data less safe names that in Loses, and one that would have placement groups serve nothing is
// not taken.
func PlanPools(w Pools, f Facts) Plan {
	var p Plan
	if f.Quorum == nil || f.Map == nil {
		p.wait("The monitors do not answer, so nothing is done to pools.")
		return p
	}
	if w.Replicas < 1 || w.Replicas > MaxReplicas {
		p.wait("%d replicas are not possible.", w.Replicas)
		return p
	}
	for _, name := range w.Names {
		i := slices.IndexFunc(f.Map.Pools, func(have Pool) bool { return have.Name == name })
		if i < 0 {
			w.create(&p, name, *f.Map)
		} else {
			w.change(&p, f.Map.Pools[i], f)
		}
		if i >= 0 && len(p.Steps)+len(p.Waits) == 0 {
			w.Grouping.plan(&p, name, w.Replicas, f)
		}
		if len(p.Steps)+len(p.Waits) > 0 {
			return p
		}
	}
	return p
}

func (w Pools) places(m Map) int { return m.places(w.ShareHost, func(OSD) bool { return false }) }

// create makes a pool once there is a place for each copy. A pool that is gone took data with it: nobody makes an empty one in its place.
func (w Pools) create(p *Plan, name string, m Map) {
	switch places := w.places(m); {
	case w.Served:
		p.wait("Pool %s is gone, and the Cluster did not remove it.", name)
	case places < w.Replicas:
		p.wait("Pool %s waits for %d places for its copies; there are %d.", name, w.Replicas, places)
	default:
		p.step(Step{Do: CreatePool, Name: name, Value: w.Replicas, Bulk: slices.Contains(w.Grouping.Bulk, name), ID: -1, Why: "The Cluster has no such pool yet."})
	}
}

// change leads size and min_size to what is wanted. While the size grows min_size stays, until the copies are there; while it shrinks min_size goes
// first, so that it never is above the size.
func (w Pools) change(p *Plan, have Pool, f Facts) {
	want := MinSize(w.Replicas)
	s := Step{Name: have.Name, ID: -1}
	switch {
	case have.Size < w.Replicas:
		if places := w.places(*f.Map); places < w.Replicas {
			p.wait("Pool %s keeps %d copies: for %d there are %d places.", have.Name, have.Size, w.Replicas, places)
			return
		}
		// How much there is to copy is seen only while all copies are there. One size after the other.
		if !f.Groups.clean() {
			p.wait("Pool %s keeps %d copies, and gets no more before it is known that every placement group is clean.", have.Name, have.Size)
			return
		}
		if why := w.full(have, *f.Map); why != "" {
			p.wait("Pool %s keeps %d copies: %s", have.Name, have.Size, why)
			return
		}
		s.Do, s.Value, s.Why = SetSize, w.Replicas, "The Cluster wants more copies."
	case have.MinSize < want:
		if !f.Groups.clean() {
			p.wait("Pool %s has min_size %d until every copy is there.", have.Name, have.MinSize)
			return
		}
		s.Do, s.Value, s.Why = SetMinSize, want, "All copies are there."
	case have.MinSize > want:
		s.Do, s.Value, s.Why = SetMinSize, want, "By the rule of the Cluster fewer copies are enough to serve."
		s.Loses = fmt.Sprintf("Placement groups of pool %s serve with %d copies, not %d.", have.Name, want, have.MinSize)
	case have.Size > w.Replicas:
		// A placement group that lacks copies for want of a place gives none up.
		if !f.Groups.Still() {
			p.wait("Pool %s keeps %d copies until every one of them is where it belongs, or has no place.", have.Name, have.Size)
			return
		}
		s.Do, s.Value, s.Why = SetSize, w.Replicas, "The Cluster wants fewer copies."
		s.Loses = fmt.Sprintf("%d of %d copies of everything in pool %s.", have.Size-w.Replicas, have.Size, have.Name)
	default:
		return
	}
	p.step(s)
}

// full says why there is no room for as many copies as are wanted; empty if there is. A place that is too small for its copy fills up, and a full OSD has Ceph take no writes at all. All pools grow together, so that the bytes of all count.
func (w Pools) full(have Pool, m Map) string {
	var used int64
	places := map[string]int64{}
	for _, o := range m.OSDs {
		switch {
		case o.New || !o.In:
		case o.TotalBytes <= 0:
			return fmt.Sprintf("how full osd.%d is cannot be read.", o.ID)
		default:
			used += o.UsedBytes
			if o.Up {
				places[o.place(w.ShareHost)] += o.TotalBytes
			}
		}
	}
	want := used / int64(max(1, have.Size)) * int64(w.Replicas)
	fits := hold(places, want, w.Replicas)
	switch {
	case fits >= want:
		return ""
	case len(places) == 0:
		return "no OSD that runs can hold any."
	}
	least := slices.MinFunc(slices.Sorted(maps.Keys(places)), func(a, b string) int { return cmp.Compare(places[a], places[b]) })
	name := "host " + least
	if w.ShareHost {
		name = "osd." + least
	}
	return fmt.Sprintf("%d would need %d bytes, and %d of them have room below 85 percent with no two copies in one place. The smallest, %s, has %d bytes. Add disks there, or set spec.ceph.replicas to %d.",
		w.Replicas, want, fits, name, places[least], have.Size)
}
