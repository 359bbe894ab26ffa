package view

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// leastBytes is the smallest disk that Ceph makes an OSD of and that has room for data beside its own.
const leastBytes = 1 << 30

func size(bytes int64) resource.Quantity { return *resource.NewQuantity(bytes, resource.BinarySI) }

// take chooses the disks of a host that become OSDs. They are put on record, each with the UUID of its OSD, before Ceph knows of them. It returns the clean disks
// that are not taken.
func (v *View) take(m backend.Member, r v1alpha1.MemberCeph, h *backend.Host) (passed []string) {
	node := v.seen.Nodes[m.Node]
	if !node.Up() {
		return nil
	}
	choice := disk.Select(disk.Input{
		Host: m.Node, Claim: claimOf(v.seen.Cluster, m.Node, len(r.OSDs) > 0), Node: v.unrecorded(m.Node, node, r), Now: v.seen.Now, Rivals: v.rivals(m.Node),
		Retired: v.retired(m), Elsewhere: v.elsewhere(m.Node),
	})
	step := Step{Cluster: v.seen.Cluster.Name, UID: string(v.seen.Cluster.UID), On: m.Node, Member: m.Object.Name}
	for _, d := range choice.Wipe {
		s := step
		s.Does, s.Devices, s.Why = v1alpha1.ActionWipeDevice, []decide.Device{d}, "The spec consents to it: "+disk.Why(d)
		h.Steps = append(h.Steps, s)
	}
	var small []string
	taken := slices.DeleteFunc(slices.Concat(choice.Take, choice.Wipe), func(d decide.Device) bool {
		if d.SizeBytes < leastBytes {
			small = append(small, fmt.Sprintf("%s has %s, and an OSD needs 1 GiB", d.Path, decide.Bytes(d.SizeBytes)))
		}
		return d.SizeBytes < leastBytes
	})
	if len(taken) > 0 {
		step.Does, step.Devices, step.Why = v1alpha1.ActionTakeDisks, taken, "The disks become OSDs."
		h.Steps = append(h.Steps, step)
	}
	var problems []string
	for _, p := range choice.Problems {
		problems = append(problems, p.String())
	}
	if problems = append(problems, small...); len(problems) > 0 {
		reason := v1alpha1.ReasonDeviceRefused
		if len(choice.Problems) > 0 {
			reason = choice.Problems[0].Reason
		}
		h.Finding = backend.Finding{Kind: backend.Bad, Reason: reason, Message: backend.Shorten(problems, 5)}
	} else if len(r.OSDs) == 0 && len(h.Steps) == 0 {
		var why []string
		for _, p := range append(choice.Passed, choice.Refused...) {
			why = append(why, p.String())
		}
		kind := backend.Bad
		if choice.Wake > 0 {
			kind = backend.Busy
		}
		h.Finding = backend.Finding{Kind: kind, Reason: v1alpha1.ReasonNoCleanDevice, Message: "has no disk that can become an OSD" + because(why)}
	}
	h.Wake = choice.Wake
	for _, d := range choice.Passed {
		passed = append(passed, d.String())
	}
	return passed
}

func because(why []string) string {
	if len(why) == 0 {
		return ""
	}
	return ": " + backend.Shorten(why, 5)
}

// claimOf is what a Cluster wants of the disks of a host.
func claimOf(c *v1alpha1.Cluster, host string, joined bool) disk.Claim {
	return disk.Claim{Name: c.Name, UID: string(c.UID), Created: c.CreationTimestamp.Time, Selector: c.Spec.Devices, Host: host, Joined: joined, Idle: !c.DeletionTimestamp.IsZero()}
}

// rivals are the claims of other Clusters that want the host.
func (v *View) rivals(host string) []disk.Claim {
	var out []disk.Claim
	for _, o := range v.seen.World.Others {
		c, ok := o.(*v1alpha1.Cluster)
		if !ok || !backend.Wants(c.Common(), v.seen.World.Nodes[host]) {
			continue
		}
		joined := slices.ContainsFunc(v.seen.World.OtherMembers, func(m *v1alpha1.Member) bool {
			return m.Spec.Of.UID == c.UID && string(m.Spec.Node) == host && len(record(m).OSDs) > 0
		})
		out = append(out, claimOf(c, host, joined))
	}
	return out
}

// unrecorded is a node without the devices that are on record already, of this or of another Cluster.
func (v *View) unrecorded(host string, n decide.Node, r v1alpha1.MemberCeph) decide.Node {
	taken := slices.Clone(r.OSDs)
	for _, m := range v.seen.World.OtherMembers {
		if string(m.Spec.Node) == host {
			taken = append(taken, record(m).OSDs...)
		}
	}
	out := n
	out.Devices = slices.DeleteFunc(slices.Clone(n.Devices), func(d decide.Device) bool {
		return slices.ContainsFunc(taken, func(o v1alpha1.MemberOSD) bool {
			had, there := Device(n, o)
			return there && had.KernelName == d.KernelName
		})
	})
	return out
}

// retired are the devices of the host that no storage takes.
func (v *View) retired(m backend.Member) []disk.Retired {
	var out []disk.Retired
	for _, o := range append(slices.Clone(v.seen.World.OtherMembers), m.Object) {
		if o.Spec.Node != m.Object.Spec.Node {
			continue
		}
		for _, d := range o.Spec.Retire {
			out = append(out, disk.Retired{Member: o.Name, Device: d})
		}
	}
	return out
}

// elsewhere reports whether a path exists, or may exist, on another host.
func (v *View) elsewhere(host string) func(string) bool {
	return func(path string) bool {
		for _, n := range v.nodes() {
			if n == host {
				continue
			}
			node := v.seen.Nodes[n]
			if _, there := node.Device(path); there || !node.Up() {
				return true
			}
		}
		return false
	}
}
