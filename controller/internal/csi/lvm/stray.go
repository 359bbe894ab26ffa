package lvm

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/lvm/place"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

// A stray is a volume that nobody was told of: the answer of the call that made it was lost, and its claim was served elsewhere since. It
// carries no data. Nothing is taken for a stray that somebody may have used, or that a PersistentVolume names.

// ofClaim reports whether a name was made from the UID of a claim: no other claim ever has a volume of that name.
func ofClaim(name string) bool { return strings.HasPrefix(name, "pvc-") }

// overlook marks the hosts on which the volume that is wanted is a stray: the claim may not be served there any more.
func (b *Backend) overlook(ctx context.Context, w wish, class place.Class, hosts []place.Host) error {
	for i, h := range hosts {
		if !h.Has(w.Name) || !ofClaim(w.Name) || !h.Node.Up() || w.Topology.Allows(h.Node.Name) {
			continue
		}
		id, err := volumeid.New(h.Node.Name, class.Group, w.Name)
		if err != nil {
			return err
		}
		named, err := b.recordedAs(ctx, w.Name)
		if err != nil {
			return err
		}
		if slices.Contains(named, id) {
			continue
		}
		if hosts[i].Stray, err = b.unused(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// Sweep removes the strays whose claims have a volume elsewhere, and returns their handles. It returns what it removed with an error, too.
func (b *Backend) Sweep(ctx context.Context) (removed []string, err error) {
	all, err := b.persistent().All(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := b.nodes(ctx)
	if err != nil {
		return nil, err
	}
	named := byVolume(all)
	var errs []error
	for _, name := range nodes {
		n := b.Agents.Node(name)
		if !n.Up() {
			continue
		}
		for _, g := range n.Groups {
			for _, id := range suspects(name, g, named) {
				gone, err := b.sweep(ctx, id, g.OwnerUID)
				if gone {
					removed = append(removed, id.String())
				}
				errs = append(errs, err)
			}
		}
	}
	return removed, errors.Join(errs...)
}

// byVolume returns what PersistentVolumes stand for, by the name of the volume.
func byVolume(all []*corev1.PersistentVolume) map[string][]volumeid.ID {
	out := map[string][]volumeid.ID{}
	for _, v := range all {
		if id, err := volumeid.Parse(v.Spec.CSI.VolumeHandle); err == nil {
			out[id.Name] = append(out[id.Name], id)
		}
	}
	return out
}

// suspects returns the volumes of a group whose name PersistentVolumes have for other volumes only.
func suspects(node string, g decide.Group, named map[string][]volumeid.ID) []volumeid.ID {
	var out []volumeid.ID
	for _, name := range g.Volumes {
		id, err := volumeid.New(node, g.Name, name)
		if err == nil && ofClaim(name) && !g.Unknown && len(named[name]) > 0 && !slices.Contains(named[name], id) {
			out = append(out, id)
		}
	}
	return out
}

// sweep removes one volume if it is a stray. The cache may be behind, so the API server itself is asked which PersistentVolumes there are.
func (b *Backend) sweep(ctx context.Context, id volumeid.ID, owner string) (bool, error) {
	named, err := b.recordedAs(ctx, id.Name)
	if err != nil || len(named) == 0 || slices.Contains(named, id) {
		return false, err
	}
	unused, err := b.unused(ctx, id)
	if err != nil || !unused {
		return false, err
	}
	err = b.Agents.DeleteVolume(ctx, id.Node, decide.VolumeSpec{Group: id.Group, Owner: owner, Name: id.Name, ID: id.String(), OnlyUnused: true})
	return err == nil, err
}

// recordedAs returns what the PersistentVolumes of a volume's name stand for, as the API server has them at this moment.
func (b *Backend) recordedAs(ctx context.Context, name string) ([]volumeid.ID, error) {
	all, err := frame.PersistentVolumes{Reader: b.Live, Driver: v1alpha1.DriverLVM}.All(ctx)
	return byVolume(all)[name], err
}

// unused reports whether the agent says that nobody used a volume yet, nor does now. Agents of before they said it say that of none.
func (b *Backend) unused(ctx context.Context, id volumeid.ID) (bool, error) {
	all, _, err := b.Agents.ListVolumes(ctx, id.Node, id.Group)
	if err != nil {
		return false, err
	}
	for _, v := range all {
		if v.Name == id.Name && v.ID == id.String() {
			return v.Unused && !v.Open, nil
		}
	}
	return false, volume.Refuse(volume.Unavailable, "volume %s was reported a moment ago, and is not listed", id)
}
