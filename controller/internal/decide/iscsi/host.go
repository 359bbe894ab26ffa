package iscsi

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
	"quarry.storage/quarry/pkg/sharedlun"
)

// host is all that the decision about one node is made on.
type host struct {
	Host
	view *View
	m    backend.Member
}

func (v *View) host(m backend.Member) host { return host{v.seen.Hosts[m.Node], v, m} }

// Decide returns what is to be done on a node.
func (v *View) Decide(m backend.Member) backend.Host {
	h := v.host(m)
	out := backend.Host{
		Serves: h.serves(), Watched: h.Up(), Volumes: len(v.heldBy(m.Node)), Devices: h.devices(), Zeroing: v.zeroing(m.Node),
	}
	// What a node has is told by the group, also of a node that is silent. The group has its size, and no node has a part of it.
	out.Reports = v.group() != nil
	leaves := m.Flags.ShouldDestroy() && (!v.deleting() || v.groupless())
	switch refused := v.refusal(); {
	case !refused.IsZero() && !leaves:
		out.Finding = refused
	case !h.Up() && h.Failed == "":
		// The engine has words for an agent that is away.
	case !h.Up():
		out.Finding = bad(v1alpha1.ReasonStepFailed, h.Failed)
	case leaves:
		h.leave(&out)
	case m.Invalid == nil:
		h.join(&out)
	}
	out.Steps = append(h.strays(), out.Steps...)
	switch {
	case backend.Free(h.view.seen.Iscsi.Spec.Approval, out.Steps):
		out.Wake = soon
	case h.Failures > 0:
		out.Wake = NextLook(h.Failures)
	}
	return out
}

// serves reports whether the group is on record for the node: it joined, and may be given volumes.
func (h host) serves() bool {
	r := h.m.Record()
	return r != nil && r.UUID != ""
}

// devices shows the LUN. A node that tells nothing keeps what its status has.
func (h host) devices() []v1alpha1.MemberDevice {
	if !h.Up() {
		if h.m.Object == nil {
			return nil
		}
		return h.m.Object.Status.Devices
	}
	rec := h.view.rec.Lun
	l, f := h.view.lunOn(h.m.Node)
	switch {
	case f.IsZero():
		return []v1alpha1.MemberDevice{{
			Path: l.WWID, Identity: l.Serial, Size: *resource.NewQuantity(l.SizeBytes, resource.BinarySI), State: v1alpha1.DevicePresent,
		}}
	case rec != nil && h.m.Object != nil && h.m.Object.Spec.Lun != nil:
		return []v1alpha1.MemberDevice{{
			Path: rec.WWID, Identity: rec.Serial, Size: *resource.NewQuantity(rec.SizeBytes, resource.BinarySI), State: v1alpha1.DeviceMissing,
		}}
	}
	return nil
}

// join brings a node to where it can be given volumes, one thing after the other.
func (h host) join(out *backend.Host) {
	for _, f := range []backend.Finding{h.initiator(), h.sameName(), h.secret()} {
		if out.Finding = f; !f.IsZero() {
			return
		}
	}
	if login, ok := h.login(); ok {
		out.Steps = append(out.Steps, login)
	}
	if !h.LoggedIn() {
		return
	}
	l, f := h.view.lunOn(h.m.Node)
	if f.IsZero() {
		f = h.view.differ()
	}
	if out.Finding = f; !f.IsZero() {
		return
	}
	out.Steps = append(out.Steps, h.recordMachine(h.reservation())...)
	steps, f := h.keys(l)
	out.Steps = append(out.Steps, steps...)
	if out.Finding = f; !f.IsZero() || len(steps) > 0 && !h.writes() {
		return
	}
	if h.serves() {
		out.Finding = h.pathsMissing(out.Steps)
	}
	if g := h.view.group(); g != nil {
		out.Record = &v1alpha1.MemberGroup{UUID: g.UUID, Name: g.Name}
		h.attach(out, h.mapVolumes(g))
	}
	if !h.serves() && out.Record == nil {
		out.Finding = backend.Finding{Kind: backend.Busy, Reason: v1alpha1.ReasonPending, Message: "may write to the LUN, and waits for the volume group"}
	}
}

// attach adds the step that maps volumes. A member that serves stays ready: while a volume is attached it is on the LUN before its device is on the node, and the look at
// the node may be older.
func (h host) attach(out *backend.Host, maps []backend.Step) {
	switch cut := h.cut(); {
	case !h.serves() || !out.Finding.IsZero():
	case len(cut) > 0:
		out.Finding = backend.Finding{Message: fmt.Sprintf("The member serves volumes. The devices of %s return errors since another LUN was in the place of the recorded one, or the node was fenced, "+
			"and are open: end the pods that use them.", backend.Shorten(cut, maxNamed))}
	case len(maps) > 0:
		out.Finding = backend.Finding{Message: "The member serves volumes, and gets the devices of some that it has."}
	}
	out.Steps = append(out.Steps, maps...)
}

// cut names the volumes whose devices on the node return errors, and are in use.
func (h host) cut() (out []string) {
	for _, v := range h.view.volumes() {
		open := func(m sharedlun.Mapping) bool {
			return m.VolumeUUID == v.UUID && m.Part == sharedlun.PartShown && m.Cut && m.InUse
		}
		if slices.ContainsFunc(h.Mappings, open) {
			out = append(out, v.Name)
		}
	}
	if g := h.view.group(); g != nil {
		for _, m := range h.Mappings {
			has := func(v sharedlun.Volume) bool { return v.UUID == m.VolumeUUID }
			if m.Part == sharedlun.PartShown && m.Cut && m.InUse && !slices.ContainsFunc(g.Volumes, has) {
				out = append(out, "the removed volume "+m.VolumeUUID)
			}
		}
	}
	return out
}

// initiator says why the node cannot use iSCSI.
func (h host) initiator() backend.Finding {
	switch p := h.Initiator.Problem; {
	case p != nil:
		return bad(p.Reason, p.Message)
	case (h.view.seen.Iscsi.Spec.Multipath || len(h.view.target.Portals) > 1) && !h.Initiator.Multipath:
		return bad(sharedlun.ReasonMultipathMissing, "spec.multipath is set, and multipathd does not run on this node: install multipath-tools, and start it")
	}
	return backend.Finding{}
}

// sameName refuses a node whose initiator has the name of another one, or another name than on record: the target takes two of one name for one, and to
// fence one of them is void.
func (h host) sameName() backend.Finding {
	name := h.Initiator.Name
	if name == "" {
		return backend.Finding{}
	}
	if r := h.reservation(); r != nil && r.Initiator != "" && !strings.EqualFold(r.Initiator, name) {
		return bad(v1alpha1.ReasonInitiatorRenamed, fmt.Sprintf(
			"its initiator is called %s now, and was called %s when it joined: give it that name back, or take the node off spec.initiators and add it again", name, r.Initiator))
	}
	var others []string
	for _, node := range h.view.names() {
		if node != h.m.Node && strings.EqualFold(h.view.initiatorOf(node), name) {
			others = append(others, node)
		}
	}
	if len(others) == 0 {
		return backend.Finding{}
	}
	return bad(v1alpha1.ReasonInitiatorNameTaken, fmt.Sprintf(
		"its initiator has the name %s, as that of node %s has: give each node a name of its own in /etc/iscsi/initiatorname.iscsi",
		name, backend.Shorten(others, maxNamed)))
}

// initiatorOf returns the name of a node's initiator: the recorded one, or else the one that its agent tells.
func (v *View) initiatorOf(node string) string {
	if m := v.members[node]; m != nil && m.Spec.Reservation != nil && m.Spec.Reservation.Initiator != "" {
		return m.Spec.Reservation.Initiator
	}
	return v.seen.Hosts[node].Initiator.Name
}

// secret says why there are no credentials. A node that is logged in goes on.
func (h host) secret() backend.Finding {
	if p := h.view.seen.Chap.Problem; p != "" && !h.LoggedIn() {
		return bad(v1alpha1.ReasonChapSecretInvalid, p)
	}
	return backend.Finding{}
}

// mapVolumes returns the step that makes the devices of the volumes that the node has, as after a boot. A volume of which nothing may be seen is
// mapped by whoever zeroes it.
func (h host) mapVolumes(g *sharedlun.Group) []backend.Step {
	if !h.Mapped || h.m.Flags.ShouldDestroy() {
		return nil
	}
	if !h.view.believed(h.m.Node) {
		// An earlier machine of the name may have them mapped, and write.
		return nil
	}
	s := h.step(v1alpha1.ActionMapVolumes, "The volumes are this node's, and it has no devices of them.")
	s.Sequence, s.Again = g.Sequence, true
	for _, v := range g.Volumes {
		if v.HeldBy == h.m.Node && !v.Leaving && v.ReadyBytes > 0 && !h.shows(v.UUID) {
			s.Volumes = append(s.Volumes, v)
		}
	}
	if len(s.Volumes) == 0 {
		return nil
	}
	return []backend.Step{s}
}

// leave takes a node off the LUN that holds no volume: first its key, then its sessions.
func (h host) leave(out *backend.Host) {
	if h.view.rival != "" && !h.mine() {
		// Whatever is there is the other Iscsi's.
		return
	}
	if h.m.State != nodestate.Abandoned || len(h.m.Volumes) > 0 || len(h.Mappings) > 0 {
		return
	}
	r := h.reservation()
	keyed := h.keyed(r)
	if keyed && h.alone() {
		out.Steps, out.Finding = h.readmit()
		return
	}
	if out.Finding = h.stays(r != nil, keyed); out.Finding.IsZero() {
		out.Steps = h.farewell(r != nil, keyed)
	}
}

// keyed reports whether the LUN may have a key of the node that has to be taken off before it leaves.
func (h host) keyed(r *v1alpha1.MemberReservation) bool {
	// A key of a fenced node may be on the LUN again: it is taken off before its record goes, since nobody would know whose it is.
	keyed := r != nil && !r.Unfenced && (!r.Fenced || h.view.hasKeyOf(r))
	if h.view.givenUp() {
		// Whatever became of the LUN: a key that can be taken off is, so that others can use it. A node that was booted logs in for that while another one is there.
		keyed = keyed && h.view.registered(h.m.Object) && (h.LoggedIn() || h.view.sweeper() != "")
	}
	return keyed
}

// farewell returns the steps that take the node off. recorded is true when it has a key on record, keyed when the LUN may have it.
func (h host) farewell(recorded, keyed bool) (out []backend.Step) {
	if keyed && !h.LoggedIn() {
		s := h.step(v1alpha1.ActionLogin, "The node has a key on the LUN, which is taken off through a session.")
		s.Target, s.Chap = h.view.target, h.view.seen.Chap.Version
		out = append(out, s)
	}
	if recorded {
		s := h.step(v1alpha1.ActionUnregisterKey, "The node uses the LUN no more.")
		s.Key, s.RecordOnly, s.Last, s.BootID = h.reservation().Key, !keyed, h.view.deleting(), h.BootID
		if keyed {
			s.Runs = h.view.sweeperBeside(h.m.Node)
		}
		out = append(out, s)
	}
	if h.LoggedIn() || keyed || h.Seen.Recorded && h.usedByUs() {
		// A logout that was cut off leaves records without a session.
		s := h.step(v1alpha1.ActionLogout, "The node uses the LUN no more.")
		s.Target = h.view.target
		out = append(out, s)
	}
	return out
}
