// Package fleet tells package san of the members of a shared LUN: from the Members as the API server itself has them, and from the connections to the
// agents. Controller and CSI controller use it side by side. It decides nothing.
package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Agents knows how the connections to the nodes are.
type Agents interface {
	// Node returns what is known about a node: of it the state of its agent, and its boot.
	Node(name string) decide.Node
}

// Fleet is the members of all shared LUNs.
type Fleet struct {
	// Live reads from the API server itself: that a node was fenced, and that it has another key, must not be known late.
	Live client.Reader
	// Reader reads from the cache: who is under maintenance. That may be known late.
	Reader client.Reader
	Agents Agents
}

var _ san.Fleet = Fleet{}

// Members returns the members of the group's owner, one for each node. A member without a key may still be the one that a change was sent to.
func (f Fleet) Members(ctx context.Context, ref sharedlun.Ref) ([]san.Member, error) {
	all, err := kube.MembersOf(ctx, f.Live, types.UID(ref.OwnerUID))
	if err != nil {
		return nil, err
	}
	var mine []*v1alpha1.Member
	stay := false
	counts := map[v1alpha1.HostName]*v1alpha1.Member{}
	for i := range all {
		m := &all[i]
		mine = append(mine, m)
		stay = stay || m.DeletionTimestamp.IsZero()
		counts[m.Spec.Node] = backend.Owner{Kind: m.Spec.Of.Kind, Name: m.Spec.Of.Name}.Prefer(counts[m.Spec.Node], m)
	}
	resting, err := f.maintenance(ctx, ref.OwnerUID)
	if err != nil {
		return nil, err
	}
	// Of many nodes that were booted at once each has to be compared with all: these are read once, and only if one has to be.
	everyone := sync.OnceValues(func() (decide.Everyone, error) { return Machines(ctx, f.Live) })
	out := make([]san.Member, 0, len(counts))
	for _, m := range mine {
		if m != counts[m.Spec.Node] {
			continue
		}
		// When all of them are being removed, the storage is: its group is removed through one of them.
		one, err := f.member(ctx, m, stay && !m.DeletionTimestamp.IsZero(), everyone)
		if err != nil {
			return nil, err
		}
		// What is being removed is removed under maintenance, too.
		one.Maintenance = stay && (m.Spec.Maintenance || resting[one.Node])
		if err := others(&one, m, mine); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// others takes in what the other Members of a member's node say.
func others(one *san.Member, m *v1alpha1.Member, mine []*v1alpha1.Member) error {
	for _, other := range mine {
		if other == m || other.Spec.Node != m.Spec.Node {
			continue
		}
		if err := also(one, other); err != nil {
			return err
		}
	}
	return nil
}

// also takes in what another Member of the node says, which a person made by hand, or a backup tool: its keys may be on the LUN as well, as those of earlier boots, and a
// request to register one of them may be under way. Whether the node is fenced it does not say.
func also(one *san.Member, other *v1alpha1.Member) error {
	r := other.Spec.Reservation
	if r == nil || r.Unfenced {
		return nil
	}
	keys, err := sharedlun.ParseKeys(append(slices.Clone(r.Previous), r.Key)...)
	if err != nil {
		return fmt.Errorf("member %s: %w", other.Name, err)
	}
	for _, key := range keys {
		if key != one.Key && !slices.Contains(one.Previous, key) {
			one.Previous = append(one.Previous, key)
		}
	}
	one.Registering = one.Registering || r.Registering != ""
	return nil
}

// maintenance returns the nodes for which it was asked for elsewhere than in their Members: in the Iscsi, or in the StorageNode.
func (f Fleet) maintenance(ctx context.Context, ownerUID string) (map[string]bool, error) {
	out := map[string]bool{}
	var owners v1alpha1.IscsiList
	if err := f.Reader.List(ctx, &owners); err != nil {
		return nil, fmt.Errorf("list iscsis: %w", err)
	}
	for i := range owners.Items {
		if string(owners.Items[i].UID) != ownerUID {
			continue
		}
		for _, n := range owners.Items[i].Spec.Maintenance {
			out[string(n)] = true
		}
	}
	var nodes v1alpha1.StorageNodeList
	if err := f.Reader.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list storagenodes: %w", err)
	}
	for i := range nodes.Items {
		if nodes.Items[i].Spec.Maintenance {
			out[nodes.Items[i].Name] = true
		}
	}
	return out, nil
}

func (f Fleet) member(ctx context.Context, m *v1alpha1.Member, removed bool, everyone func() (decide.Everyone, error)) (san.Member, error) {
	out := san.Member{Node: string(m.Spec.Node)}
	n := f.Agents.Node(out.Node)
	if n.Up() {
		out.ReportedBootID = n.BootID
	}
	out.TooEarly = n.Agent == decide.AgentConnecting || n.Up() && n.BootID == ""
	r := m.Spec.Reservation
	if r == nil {
		return out, nil
	}
	key, err := sharedlun.ParseKey(r.Key)
	if err != nil {
		return out, fmt.Errorf("member %s: %w", m.Name, err)
	}
	if out.Previous, err = sharedlun.ParseKeys(r.Previous...); err != nil {
		return out, fmt.Errorf("member %s: %w", m.Name, err)
	}
	if out.Stranger, err = f.stranger(ctx, r, out.Node, n, everyone); err != nil {
		return out, fmt.Errorf("member %s: %w", m.Name, err)
	}
	if out.Stranger != "" {
		out.ReportedBootID = ""
	}
	out.BootID, out.Fenced, out.Unfenced, out.Registering = r.BootID, r.Fenced, r.Unfenced, r.Registering != ""
	out.Up = n.Up() && n.BootID == r.BootID && r.BootID != "" && !removed
	if !r.Unfenced {
		out.Key = key
	}
	return out, nil
}

// stranger says why the node that answers may be another machine than the one that the key on record was granted to. In the boot of the record it is the same one, and nobody is asked.
func (f Fleet) stranger(ctx context.Context, r *v1alpha1.MemberReservation, node string, n decide.Node, everyone func() (decide.Everyone, error)) (string, error) {
	if !n.Up() || n.BootID == r.BootID && r.BootID != "" {
		return "", nil
	}
	machine, _, err := kube.Machine(ctx, f.Live, node, n.BootID)
	if err != nil {
		return "", err
	}
	return writer.Stranger(writer.GrantedTo(r), node, n.BootID, machine, everyone)
}

// Machines returns what all records and all Nodes tell of machines. There may be thousands of both.
func Machines(ctx context.Context, live client.Reader) (out decide.Everyone, err error) {
	var members v1alpha1.MemberList
	if err := live.List(ctx, &members); err != nil {
		return out, fmt.Errorf("list members: %w", err)
	}
	for i := range members.Items {
		out.Members = append(out.Members, &members.Items[i])
	}
	out.Nodes, err = kube.Machines(ctx, live)
	return out, err
}
