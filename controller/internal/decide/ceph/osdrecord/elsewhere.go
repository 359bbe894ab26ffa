package osdrecord

import (
	"cmp"
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Stray is a disk with an OSD on record that is in another host than its record says.
type Stray struct {
	// OSD is on record at Host. The disk is in host At, by the name Path.
	OSD            v1alpha1.MemberOSD
	Host, At, Path string
}

// Strays returns these disks but those whose OSDs are given up, ordered by host and path. WWN and serial number together tell them from all others, and the agent of the host on record does not tell of them now.
func Strays(nodes map[string]decide.Node, members []*v1alpha1.Member) (out []Stray) {
	for _, m := range members {
		if m.Spec.Ceph == nil {
			continue
		}
		host := string(m.Spec.Node)
		for _, o := range m.Spec.Ceph.OSDs {
			if !has(nodes[host], o) && !o.Replaced && o.WWN != "" && o.Serial != "" {
				out = append(out, strayed(nodes, host, o)...)
			}
		}
	}
	slices.SortFunc(out, func(a, b Stray) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.OSD.Path, b.OSD.Path), cmp.Compare(a.At, b.At))
	})
	return out
}

// At returns the host that has a disk which another one has on record; empty if none of the strays is that.
func At(strays []Stray, host, uuid string) string {
	i := slices.IndexFunc(strays, func(s Stray) bool { return s.Host == host && s.OSD.UUID == uuid })
	if i < 0 {
		return ""
	}
	return strays[i].At
}

// strayed is where a disk is that its host does not have.
func strayed(nodes map[string]decide.Node, host string, o v1alpha1.MemberOSD) (out []Stray) {
	for at, n := range nodes {
		// What an agent told before it was silent may still be so.
		if d, there := Device(n, o); there && at != host {
			out = append(out, Stray{OSD: o, Host: host, At: at, Path: d.Path})
		}
	}
	return out
}

// has reports whether a node has the disk of an OSD now. What an agent told before it was silent is old.
func has(n decide.Node, o v1alpha1.MemberOSD) bool {
	_, there := Device(n, o)
	return there && n.Up()
}

// RecordedAt returns the host beside the given one that has a disk on record; empty if none has. Disks of several hosts may repeat a WWN or a serial number alone: one that is clean is another disk then, and so is one while
// the other host has its own. Only what is on the disk is protected beyond that.
func RecordedAt(host string, d decide.Device, nodes map[string]decide.Node, members []*v1alpha1.Member) string {
	_, certain := d.Identity()
	for _, m := range members {
		at := string(m.Spec.Node)
		if at == host || m.Spec.Ceph == nil {
			continue
		}
		for _, o := range m.Spec.Ceph.OSDs {
			// A path says nothing on another host.
			if Is(d, o) && !Nameless(o) && (certain || !d.Takeable() && !has(nodes[at], o)) {
				return at
			}
		}
	}
	return ""
}
