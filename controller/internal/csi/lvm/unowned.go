package lvm

import (
	"context"
	"fmt"
	"slices"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/lvm"
	"quarry.storage/quarry/controller/internal/decide/lvm/place"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func (b *Backend) contents() frame.SnapshotContents {
	return frame.SnapshotContents{Reader: b.Live, Driver: v1alpha1.DriverLVM}
}

// wayOut says how a person ends the wait for what never comes back, where no Member can be declared lost.
func (p spot) wayOut() string {
	if p.member {
		return ""
	}
	kind, field := "PersistentVolume", "persistentVolumeReclaimPolicy"
	if p.id.IsSnapshot() {
		kind, field = "VolumeSnapshotContent", "deletionPolicy"
	}
	return fmt.Sprintf("; if the node or its disks are gone for ever, set %s of the %s to Retain and delete that", field, kind)
}

// away says that the group of a volume or snapshot is not seen on a node that answers.
func (p spot) away() error {
	others := func(u decide.UnknownGroup) bool { return u.Name != "" && u.Name != p.id.Group }
	if why := decide.Unreported(slices.DeleteFunc(slices.Clone(p.node.Unknown), others)); why != "" {
		return volume.Refuse(volume.Unavailable, "volume group %s is not seen on node %s, and it is not known whether it is there: %s",
			p.id.Group, p.id.Node, why)
	}
	return volume.Refuse(volume.Unavailable, "volume group %s is not seen on node %s: its disks may be away, and %s with them%s",
		p.id.Group, p.id.Node, p.id.Name, p.wayOut())
}

// unowned says what is known of a volume or snapshot whose group is not seen, and which no Cluster has on the node. It is
// volume.ErrNotOurs only if nothing speaks for that group: a Cluster that was restored has another UID than its groups, and may not list
// the node. Unknown is never absent.
func (b *Backend) unowned(ctx context.Context, p spot) error {
	absent := fmt.Errorf("%w: no Cluster has volume group %s on node %s", volume.ErrNotOurs, p.id.Group, p.id.Node)
	named, groups, err := b.naming(ctx, p)
	if err != nil {
		return err
	}
	lost, err := b.declaredLost(ctx, p, groups)
	if err != nil {
		return err
	}
	var unsure string
	switch {
	case lost && len(groups) == len(named):
		if err := b.copied(ctx, p, named, groups); err != nil {
			return err
		}
		return absent
	case p.node.Agent == decide.AgentConnecting:
		// A moment later more is known.
		return volume.Refuse(volume.Unavailable, "%s", place.Away(p.node).Message)
	case !p.node.Up():
		unsure = place.Away(p.node).Message
	case p.node.LVMError != "":
		unsure = fmt.Sprintf("LVM cannot be run on node %s: %s", p.id.Node, p.node.LVMError)
	case len(p.node.Unknown) > 0:
		unsure = fmt.Sprintf("which volume groups node %s has is not known: %s", p.id.Node, decide.Unreported(p.node.Unknown))
	case !lvm.Gone(p.node, nil):
		unsure = fmt.Sprintf("which volume groups node %s has is not known: a disk cannot be read", p.id.Node)
	default:
		recorded, err := b.recording(ctx, p)
		if err != nil {
			return err
		}
		if named = append(named, recorded...); len(named) == 0 {
			return absent
		}
		unsure = fmt.Sprintf("volume group %s is not seen on node %s and its disks may be away, for it is named by %s",
			p.id.Group, p.id.Node, backend.Shorten(named, 10))
	}
	return volume.Refuse(volume.Unavailable, "%s%s", unsure, p.wayOut())
}

// naming returns the objects that stand for a volume or snapshot, and the UUIDs of its group that they have on record.
func (b *Backend) naming(ctx context.Context, p spot) (names, groups []string, err error) {
	if p.id.IsSnapshot() {
		contents, err := b.contents().With(ctx, p.id.String())
		for _, c := range contents {
			names = append(names, "VolumeSnapshotContent "+c)
		}
		return names, nil, err
	}
	volumes, err := b.persistent().With(ctx, p.id.String())
	for _, v := range volumes {
		names = append(names, "PersistentVolume "+v.Name)
		if uuid := v.Spec.CSI.VolumeAttributes[v1alpha1.AttributeGroupUUID]; uuid != "" {
			groups = append(groups, uuid)
		}
	}
	return names, groups, err
}

// elsewhere says why the group that is seen does not settle whether a volume exists; nil when it does. Its PersistentVolume has another group on record,
// whose disks are away, and the volume may be in that one. So nothing is removed from the group that is seen, and by missed a look, a list, a copy and a
// growth do not take for absent what that group lacks. A group that was imported on another node is not away, if inherited has looked into it. Nothing has
// on record which group a snapshot is in.
func (b *Backend) elsewhere(ctx context.Context, p spot) error {
	if p.id.IsSnapshot() {
		return nil
	}
	named, groups, err := b.naming(ctx, p)
	if err != nil {
		return err
	}
	g, seen := p.group()
	known, err := b.lookedInto(ctx, p)
	if err != nil {
		return err
	}
	groups = slices.DeleteFunc(groups, func(uuid string) bool { return uuid == g.UUID || slices.Contains(known, uuid) })
	if !seen || len(groups) == 0 {
		return nil
	}
	lost, err := b.declaredLost(ctx, p, groups)
	if err != nil {
		return err
	}
	if lost {
		return b.copied(ctx, p, named, groups)
	}
	return volume.Refuse(volume.Unavailable, "volume group %s on node %s is not the one that %s has on record: %s may be in that one%s",
		p.id.Group, p.id.Node, backend.Shorten(named, 10), p.id.Name, p.wayOut())
}

// absent says what the removal of a volume comes to whose group is not seen on a node that answers. It counts as deleted if a person gave up or declared lost
// each group that its PersistentVolumes have on record, whatever the name is of the group that the node has instead.
func (b *Backend) absent(ctx context.Context, p spot) error {
	named, groups, err := b.naming(ctx, p)
	if err != nil {
		return err
	}
	lost, err := b.declaredLost(ctx, p, groups)
	switch {
	case err != nil:
		return err
	case !lost || len(groups) != len(named):
		return p.away()
	}
	return b.copied(ctx, p, named, groups)
}

// copied refuses to take a volume for deleted that was in a group which a person gave up, while a group on its node has one of the name: the disks may have
// been copied, and this may be the only copy that is left.
func (b *Backend) copied(ctx context.Context, p spot, named, groups []string) error {
	given, err := b.givenUp(ctx, p)
	if err != nil || !slices.ContainsFunc(groups, func(uuid string) bool { return slices.Contains(given, uuid) }) {
		return err
	}
	i := slices.IndexFunc(p.node.Groups, func(g decide.Group) bool { return slices.Contains(g.Volumes, p.id.Name) })
	if i < 0 {
		return nil
	}
	return volume.Refuse(volume.Unavailable, "volume group %s on node %s has a volume of the name %s, and is not the group that %s has on record and a person "+
		"gave up. Nothing is deleted there: delete the PersistentVolume if the volume is to stay, or remove it by hand first", p.node.Groups[i].Name, p.id.Node,
		p.id.Name, backend.Shorten(named, 10))
}

// lostGroups returns the UUIDs of the groups of all Clusters that a person declared lost.
func (b *Backend) lostGroups(ctx context.Context) ([]string, error) {
	all, err := b.clusters(ctx)
	var lost []string
	for _, c := range all {
		lost = append(lost, backend.LostGroups(c)...)
	}
	return lost, err
}

// declaredLost reports whether a person declared all of some groups lost, and the node is silent or lacks them, or gave them up there, and the node answers
// and lacks them; false if there are none.
func (b *Backend) declaredLost(ctx context.Context, p spot, groups []string) (bool, error) {
	lost, err := b.lostGroups(ctx)
	if err != nil || len(groups) == 0 {
		return false, err
	}
	given, err := b.givenUp(ctx, p)
	if err != nil {
		return false, err
	}
	there := func(uuid string) bool {
		// What was given up may come back with its node, and serves then.
		of := func(g decide.Group) bool { return g.UUID == uuid }
		gave := slices.Contains(given, uuid) && p.node.Up() && !slices.ContainsFunc(p.node.OtherNodes, of)
		return !slices.Contains(lost, uuid) && !gave || !lvm.Gone(p.node, &v1alpha1.MemberGroup{UUID: uuid})
	}
	return !slices.ContainsFunc(groups, there), nil
}

// givenUp returns the UUIDs of the groups that a person gave up on the node, for whatever storage: that may be gone, or its spec may name its groups otherwise
// by now.
func (b *Backend) givenUp(ctx context.Context, p spot) ([]string, error) {
	members, err := b.members(ctx)
	var out []string
	for _, of := range members {
		if m := memberOn(of, p.id.Node); m != nil && m.Spec.Group != nil {
			out = append(out, m.Spec.Group.Earlier...)
		}
	}
	return out, err
}

// recording returns the Members of any Cluster, also of those that do not exist any more, that have the group of a spot on record.
func (b *Backend) recording(ctx context.Context, p spot) ([]string, error) {
	members, err := b.members(ctx)
	var names []string
	for _, of := range members {
		for _, m := range of {
			r := m.Spec.Group
			if string(m.Spec.Node) == p.id.Node && r != nil && (r.Name == p.id.Group || r.Name == "") && !p.gone(m) {
				names = append(names, "Member "+m.Name)
			}
		}
	}
	slices.Sort(names)
	return names, err
}
