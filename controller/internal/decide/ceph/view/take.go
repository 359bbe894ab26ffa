package view

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/osdrecord"
	"quarry.storage/quarry/controller/internal/decide/ceph/preflight"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
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
	if held := v.held(); !held.IsZero() {
		h.Finding = held
		return nil
	}
	// What Ceph has on the disks of a host without a record nobody knows before Ceph says it.
	if noted.Formed(v.seen.Cluster) && len(r.OSDs) == 0 && !v.mapped() {
		h.Finding = backend.Finding{Kind: backend.Busy, Reason: v1alpha1.ReasonPreparing, Message: "its disks are left alone until Ceph says which OSDs it has"}
		return nil
	}
	if e := v.existing(); e.Proof != "" || e.Doubt != "" && !e.Wipes {
		h.Finding = backend.Finding{Kind: backend.Busy, Reason: v1alpha1.ReasonPreparing, Message: "its disks are left alone. " + v.unmade()}
		return nil
	}
	joined := r.HasJoined() || v.forgotten(m.Node) > 0
	choice := disk.Select(disk.Input{
		Host: m.Node, Claim: claimOf(v.seen.Cluster, m.Node, joined), Node: v.unrecorded(m.Node, node, r), Now: v.seen.Now, Rivals: v.rivals(m.Node),
		Retired: v.retired(m), Recorded: v.seen.World.Records, Unread: v.seen.World.Unread, Elsewhere: v.elsewhere(m.Node),
	})
	h.Unread = choice.Unread
	choice.Wipe = slices.DeleteFunc(choice.Wipe, v.mayBeOurs(m.Node))
	// What can be no OSD is not wiped either, and needs no memory.
	wiped, small := v.fitting(m.Node, choice.Wipe)
	taken, not := v.fitting(m.Node, choice.Take)
	small, taken = append(not, small...), inPlace(r, slices.Concat(taken, wiped))
	taken, small = atMost(r, taken, small)
	wiped = slices.DeleteFunc(wiped, func(d decide.Device) bool {
		return !slices.ContainsFunc(taken, func(x decide.Device) bool { return x.KernelName == d.KernelName })
	})
	// Before the host can run the daemons nothing is wiped, and nothing is put on record.
	if len(taken) > 0 {
		if no := v.unable(m.Node, map[string]int{cephname.DaemonOSD: len(taken)}); !no.IsZero() {
			h.Finding, h.Wake = backend.Finding{Kind: backend.Bad, Reason: no.Reason, Message: no.Message}, choice.Wake
			return nil
		}
	}
	step := Step{Cluster: v.seen.Cluster.Name, UID: string(v.seen.Cluster.UID), FSID: v.seen.Cluster.FSID(), On: m.Node, Member: m.Object.Name}
	for _, d := range wiped {
		s := step
		s.Does, s.Devices, s.Why = v1alpha1.ActionWipeDevice, []decide.Device{d}, "The spec consents to it: "+disk.Why(d)
		h.Steps = append(h.Steps, s)
	}
	if len(taken) > 0 {
		h.Steps = append(h.Steps, v.taking(step, taken))
	}
	v.tellUntaken(node, r, choice, small, h)
	h.Wake = choice.Wake
	for _, d := range choice.Passed {
		passed = append(passed, d.String())
	}
	return passed
}

// tellUntaken says which disks are not taken that the spec names, and why a host without an OSD has none.
func (v *View) tellUntaken(node decide.Node, r v1alpha1.MemberCeph, choice disk.Choice, small []string, h *backend.Host) {
	var problems []string
	choice.Problems = slices.DeleteFunc(choice.Problems, func(p disk.Refused) bool { return osdrecord.HasTaken(node, r, p.Path) })
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
}

// taking is the step that puts disks on record.
func (v *View) taking(s Step, devices []decide.Device) Step {
	s.Does, s.Devices, s.Encrypted, s.Why = v1alpha1.ActionTakeDisks, devices, v.wantsEncrypted(), "The disks become OSDs."
	if s.Encrypted {
		s.Why = "The disks become OSDs, and are encrypted."
	}
	return s
}

// fitting returns those of some disks that can become OSDs, and says of the others why they cannot.
func (v *View) fitting(host string, all []decide.Device) (fit []decide.Device, not []string) {
	for _, d := range all {
		if no := v.unfit(host, d); no != "" {
			not = append(not, no)
		} else {
			fit = append(fit, d)
		}
	}
	return fit, not
}

// unfit says why a disk cannot become an OSD; empty if it can.
func (v *View) unfit(host string, d decide.Device) string {
	switch {
	case d.SizeBytes < leastBytes:
		return fmt.Sprintf("%s has %s, and an OSD needs 1 GiB", d.Path, decide.Bytes(d.SizeBytes))
	case v.wantsEncrypted() && d.SizeBytes%osd.SealedSector != 0:
		return fmt.Sprintf("%s has %d bytes, and an encrypted OSD needs whole sectors of %d", d.Path, d.SizeBytes, osd.SealedSector)
	}
	return v.recordedAt(host, d)
}

// inPlace are the disks that a host may take in place of OSDs that a person gave up: as many as these are. A host without such an OSD takes all of them. What the spec chooses anyway is
// taken in the next pass, when one is on record.
func inPlace(r v1alpha1.MemberCeph, taken []decide.Device) []decide.Device {
	if r.HasJoined() || len(r.OSDs) == 0 {
		return taken
	}
	return taken[:min(len(taken), len(r.OSDs))]
}

// atMost cuts what is taken to what the record has room for, and says what is not.
func atMost(r v1alpha1.MemberCeph, taken []decide.Device, not []string) ([]decide.Device, []string) {
	if room := max(0, v1alpha1.MaxMemberOSDs-len(r.OSDs)); len(taken) > room {
		return taken[:room], append(not, fmt.Sprintf("%d more disks are chosen, and a host has %d OSDs at most", len(taken)-room, v1alpha1.MaxMemberOSDs))
	}
	return taken, not
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
			return m.Spec.Of.UID == c.UID && string(m.Spec.Node) == host && record(m).HasJoined()
		})
		out = append(out, claimOf(c, host, joined))
	}
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

// unable says why a host cannot run more daemons, so many of each kind. The memory that counts is that of all daemons which run there then, and of one of each kind of which
// the Cluster has too few: it may come there.
func (v *View) unable(node string, more map[string]int) preflight.Refusal {
	own, pods, others := v.seen.Machines[node], v.pods(), map[string]preflight.Machine{}
	for name, m := range v.seen.Machines {
		if h := v.member(name); h != nil && h.DeletionTimestamp.IsZero() {
			others[name] = m
		}
	}
	if no := cmp.Or(preflight.Platform(own, pods.Image), preflight.Clocks(node, others, preflight.Allowed(v.wantedOptions()))); !no.IsZero() {
		return no
	}
	// One that is given up counts as long as its pod is there: Kubernetes keeps the memory for it.
	stay := slices.DeleteFunc(slices.Clone(record(v.member(node)).OSDs), func(o v1alpha1.MemberOSD) bool { return o.Replaced && v.deployedOSD(o.UUID) == ceph.No })
	needs := []preflight.Need{{Name: "OSD", Count: len(stay) + v.forgotten(node) + more[cephname.DaemonOSD], Bytes: pods.Memory(cephname.DaemonOSD)}}
	for _, k := range []struct{ kind, name string }{{cephname.DaemonMonitor, "monitor"}, {cephname.DaemonManager, "manager"}, {cephname.DaemonMetadata, "metadata server"}} {
		n := preflight.Need{Name: k.name, Bytes: pods.Memory(k.kind)}
		if more[k.kind] > 0 || v.has(node, k.kind) || v.short(k.kind) {
			n.Count = 1
		}
		needs = append(needs, n)
	}
	return preflight.Memory(own, needs)
}

// has reports whether a daemon of a kind is on a host, or was begun there.
func (v *View) has(node, kind string) bool {
	if kind == cephname.DaemonMonitor && record(v.member(node)).Monitor != nil {
		return true
	}
	return v.seen.Workloads != nil && slices.ContainsFunc(v.of(kind), func(w Workload) bool { return w.Node == node })
}

// short reports whether the Cluster has fewer daemons of a kind than it wants and has hosts for.
func (v *View) short(kind string) bool {
	if is, known := v.lacks[kind]; known {
		return is
	}
	is := v.countShort(kind)
	v.lacks[kind] = is
	return is
}

func (v *View) countShort(kind string) bool {
	have, stay := 0, 0
	hosts := v.hosts()
	for _, h := range hosts {
		if !h.Leaving {
			stay++
			if v.has(h.Name, kind) && !v.displacedFrom(h, kind) {
				have++
			}
		}
	}
	want := map[string]int{cephname.DaemonMonitor: v.wantedMonitors(hosts).Target(), cephname.DaemonManager: managers, cephname.DaemonMetadata: v.servers()}[kind]
	return have < min(want, stay)
}

// able are the hosts as they are for daemons of a kind that are to be made: one that cannot run another daemon is not able. Where one is on record it is left as it is.
func (v *View) able(hosts []ceph.Host, kind string) []ceph.Host {
	out := slices.Clone(hosts)
	if !v.short(kind) {
		return out
	}
	for i, h := range out {
		if h.Serving && !h.Leaving && !v.has(h.Name, kind) && !v.unable(h.Name, map[string]int{kind: 1}).IsZero() {
			out[i].Unable = true
		}
	}
	return out
}

// tellUnable says which hosts get no daemon that the Cluster lacks, and which pods do not start.
func (v *View) tellUnable(p *plan, hosts []ceph.Host) {
	kinds := slices.DeleteFunc([]string{cephname.DaemonMonitor, cephname.DaemonManager, cephname.DaemonMetadata}, func(kind string) bool { return !v.short(kind) })
	for _, h := range hosts {
		if h.Leaving {
			continue
		}
		if h.Serving && slices.ContainsFunc(kinds, func(kind string) bool { return !v.has(h.Name, kind) }) {
			if no := v.unable(h.Name, nil); !no.IsZero() {
				p.wait("Host %s %s.", h.Name, no.Message)
			}
		}
		for _, text := range v.seen.Workloads.Stuck[h.Name] {
			p.wait("On host %s %s", h.Name, text)
		}
	}
}
