package lvm

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/lvm"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// adoption is how messages call what fails here.
const adoption = v1alpha1.ActionAdoptVolumeGroup

// Recorder changes the records on Members at the API server.
type Recorder struct {
	Client client.Client
	// Live reads what the API server itself says.
	Live client.Reader
}

var _ Records = Recorder{}

// Adopt records a group in place of others. One that was cut off is repeated: what is recorded already stays as it is.
func (r Recorder) Adopt(ctx context.Context, a lvm.Adoption, group, uuid string) error {
	m, err := r.member(ctx, a, uuid)
	if err != nil {
		return err
	}
	var have v1alpha1.MemberGroup
	if m.Spec.Group != nil {
		have = *m.Spec.Group
	}
	_, err = kube.Patch(ctx, r.Client, m, func(m *v1alpha1.Member) { m.Spec.Group = adopted(have, a.Replaces, group, uuid) })
	if apierrors.IsConflict(err) {
		return &decide.Fault{Kind: decide.FaultBusy, Node: a.Node, Call: adoption, Message: err.Error()}
	}
	return err
}

// Adoptable returns a decide.Fault when a group cannot be recorded for a member, or another member of any storage has it on record. It changes nothing.
func (r Recorder) Adoptable(ctx context.Context, a lvm.Adoption, uuid string) error {
	m, err := r.member(ctx, a, uuid)
	if err != nil {
		return err
	}
	var all v1alpha1.MemberList
	if err := r.Live.List(ctx, &all); err != nil {
		return fmt.Errorf("list members: %w", err)
	}
	for _, o := range all.Items {
		if g := o.Spec.Group; o.UID != m.UID && g != nil && g.UUID == uuid {
			return moved(a.Node, "member %s of %s %s records group %s", o.Name, o.Spec.Of.Kind, o.Spec.Of.Name, uuid)
		}
	}
	return nil
}

// member returns the Member as the API server has it, if its record may name a group in place of others.
func (r Recorder) member(ctx context.Context, a lvm.Adoption, uuid string) (*v1alpha1.Member, error) {
	m := &v1alpha1.Member{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: a.Member}, m); apierrors.IsNotFound(err) {
		return nil, moved(a.Node, "member %s does not exist any more", a.Member)
	} else if err != nil {
		return nil, fmt.Errorf("get member %s: %w", a.Member, err)
	}
	if string(m.UID) != a.UID || !m.DeletionTimestamp.IsZero() {
		return nil, moved(a.Node, "member %s was deleted or replaced meanwhile", a.Member)
	}
	if g := m.Spec.Group; g != nil && g.UUID != "" && g.UUID != uuid && !slices.Contains(a.Replaces, g.UUID) {
		return nil, moved(a.Node, "member %s records group %s by now", a.Member, g.UUID)
	}
	return m, nil
}

// adopted is the record that names a group in place of others, and keeps which those were.
func adopted(have v1alpha1.MemberGroup, replaces []string, group, uuid string) *v1alpha1.MemberGroup {
	earlier := slices.Concat(have.Earlier, replaces)
	slices.Sort(earlier)
	earlier = slices.DeleteFunc(slices.Compact(earlier), func(u string) bool { return u == uuid })
	if len(earlier) == 0 {
		earlier = nil
	}
	return &v1alpha1.MemberGroup{UUID: uuid, Name: group, Earlier: earlier}
}

// adopt looks once more at what the agent reports: the only group of the owner has to be the one that was approved, and whole, and those that it replaces must not be there.
func (p performer) adopt(ctx context.Context, s lvm.Step) error {
	if s.Adoption == nil || s.UUID == "" {
		return fmt.Errorf("step %s of host %s names no record", s.Does, p.host)
	}
	n := p.agents.Node(p.host)
	own := n.GroupsOf(s.Owner)
	if !n.Up() || n.LVMError != "" || len(own) != 1 || own[0].UUID != s.UUID || own[0].Partial || own[0].Unknown {
		return moved(p.host, "volume group %s (UUID %s) is not the only one of its Cluster on %s any more, or it lacks a disk", s.Group, s.UUID, p.host)
	}
	for _, uuid := range s.Adoption.Replaces {
		if !lvm.Gone(n, &v1alpha1.MemberGroup{UUID: uuid}) {
			return moved(p.host, "volume group with UUID %s is or may be on %s after all", uuid, p.host)
		}
	}
	return p.records.Adopt(ctx, *s.Adoption, own[0].Name, s.UUID)
}

// Ownerless asks the API server itself: a cache may not know of a storage yet.
func (r Recorder) Ownerless(ctx context.Context, node, uid string) error {
	for _, list := range v1alpha1.StorageLists() {
		if err := r.Live.List(ctx, list); err != nil {
			return fmt.Errorf("list storages: %w", err)
		}
		for _, o := range list.Storages() {
			if string(o.GetUID()) == uid {
				return &decide.Fault{Kind: decide.FaultPrecondition, Node: node, Call: v1alpha1.ActionImportVolumeGroup, Message: fmt.Sprintf(
					"the owner of the group, %s %s, exists", o.StorageKind(), o.GetName())}
			}
		}
	}
	return nil
}

// takeOver makes a group of an owner that is gone that of the Cluster, and records it. That the owner is gone, and that the record can be written, is asked
// once more. The agent goes first: it changes the tag in one write, for one of several who may want the group, and one that cannot do so refuses. A record
// could not be taken back then. What is cut off in between is the group of the Cluster by its tag, and is recorded as such.
func (p performer) takeOver(ctx context.Context, s lvm.Step) error {
	if s.Adoption == nil || s.UUID == "" {
		return fmt.Errorf("step %s of host %s names no record", s.Does, p.host)
	}
	if err := p.records.Ownerless(ctx, p.host, s.FromOwner); err != nil {
		return err
	}
	if err := p.records.Adoptable(ctx, *s.Adoption, s.UUID); err != nil {
		return err
	}
	if err := p.TakeOverVolumeGroup(ctx, p.host, s.Ref(), s.From, s.FromOwner); err != nil {
		return err
	}
	return p.records.Adopt(ctx, *s.Adoption, s.Group, s.UUID)
}

// moved says that the world moved under the decision.
func moved(node, format string, args ...any) error {
	return &decide.Fault{Kind: decide.FaultPrecondition, Node: node, Call: adoption, Message: fmt.Sprintf(format, args...)}
}
