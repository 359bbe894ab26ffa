package health

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const mib = 1 << 20

// Capacity returns the space of every host and the sum over those that report. A host that does not report keeps what it
// reported last, and does not count.
func (c Cluster) Capacity() v1alpha1.Capacity {
	var out v1alpha1.Capacity
	var size, free int64
	for _, h := range c.Hosts {
		if h.Removed {
			continue
		}
		i, s, f := h.instance()
		size, free = size+s, free+f
		out.Instances = append(out.Instances, i)
	}
	out.Total = space(size, free)
	return out
}

func (h Host) instance() (i v1alpha1.Instance, size, free int64) {
	i = v1alpha1.Instance{Host: h.Name, Dev: strings.Join(h.Devices(), ",")}
	if !h.Node.Up() {
		if h.Last != nil {
			i.Info, i.ThinPool = h.Last.Info, h.Last.ThinPool
		}
		return i, 0, 0
	}
	for _, g := range h.Groups {
		size, free = size+g.SizeBytes, free+g.FreeBytes
		for _, p := range g.Pools {
			// What is not taken in a pool is free for volumes too. LVM tells it in hundredths of a percent; a whole number of MiB is as
			// exact, can be read, and does not change with every write.
			free += (p.SizeBytes - p.SizeBytes/10000*int64(p.DataPermyriad)) / mib * mib
			if i.ThinPool == nil {
				i.ThinPool = new(p.Usage())
			}
		}
	}
	i.Stat = len(h.Groups) > 0
	if i.Stat {
		i.Info = space(size, free)
	}
	return i, size, free
}

// Devices returns what is recorded of the host: what its group holds while its agent reports, and what was recorded before
// where it does not, where a disk is missing, or where the host is being torn down.
func (h Host) Devices() []string {
	var paths []string
	keep := !h.Node.Up() || h.Member.Flags.ShouldDestroy
	for _, g := range h.Groups {
		keep = keep || g.Partial
		for _, p := range g.PVs {
			if p.Path != "" {
				paths = append(paths, p.Path)
			}
		}
	}
	if keep {
		paths = append(paths, h.Recorded...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Config returns the devices of every host that has some.
func (c Cluster) Config() []v1alpha1.HostDevices {
	var out []v1alpha1.HostDevices
	for _, h := range c.Hosts {
		if d := h.Devices(); len(d) > 0 && !h.Removed {
			out = append(out, v1alpha1.HostDevices{NodeName: h.Name, BlockDevices: d})
		}
	}
	return out
}

// Members returns the members with their messages.
func (c Cluster) Members() []v1alpha1.ClusterMember {
	var out []v1alpha1.ClusterMember
	for _, h := range c.Hosts {
		if h.Removed {
			continue
		}
		m := h.Member
		m.Message = text([]string{h.Finding().Message})
		out = append(out, m)
	}
	return out
}

func space(size, free int64) v1alpha1.Space {
	return v1alpha1.Space{Total: quantity(size), Used: quantity(size - free), Free: quantity(free)}
}

func quantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
