package ceph

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/subvolume"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	decideceph "quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/san/fleet"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// lasting is how long an address stays on the blocklist if nobody takes it off: Ceph wants a time. An address that is let in too early is blocked again.
const lasting = 5 * 365 * 24 * time.Hour

// clients returns all nodes. They come from the cache: each step looks again.
func (b *Backend) clients(ctx context.Context, c *v1alpha1.Cluster, w backend.World) ([]decideceph.Client, error) {
	var nodes corev1.NodeList
	if err := b.Client.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	all := decide.Everyone{Members: slices.Concat(w.Members, w.OtherMembers), Nodes: map[string]string{}}
	for i := range nodes.Items {
		all.Nodes[nodes.Items[i].Name] = nodes.Items[i].Status.NodeInfo.SystemUUID
	}
	// A record that cannot be read is told by the view, and no machine is known then.
	records, _ := noted.Blocked(c)
	out := make([]decideceph.Client, 0, len(nodes.Items))
	for i := range nodes.Items {
		n, of := &nodes.Items[i], decide.Everyone{}
		// There may be thousands of nodes, and each is compared with all: which machine it is matters of those that are blocked, or are to be.
		if kube.OutOfService(n) || slices.ContainsFunc(records, func(r decideceph.Blocked) bool { return r.Node == n.Name }) {
			of = all
		}
		out = append(out, clientOf(n, of))
	}
	return out, nil
}

// clientOf says what a node is as a client. A machine that another node is or was as well, by its UUID, is not named: what it tells may be of that other one.
func clientOf(n *corev1.Node, all decide.Everyone) decideceph.Client {
	out := decideceph.Client{Node: n.Name, Boot: n.Status.NodeInfo.BootID, Tainted: kube.OutOfService(n), Off: kube.IsOff(n)}
	if machine := n.Status.NodeInfo.SystemUUID; all.Others(n.Name, machine) == "" {
		out.Machine = decide.Spelled(machine)
	}
	for _, a := range n.Status.Addresses {
		// As Ceph lists them.
		if ip, err := netip.ParseAddr(a.Address); a.Type == corev1.NodeInternalIP && err == nil {
			out.Addresses = append(out.Addresses, ip.Unmap().String())
		}
	}
	return out
}

// blocked asks which addresses are blocked; nil when nobody can tell.
func (b *Backend) blocked(ctx context.Context, c *ceph.Client) (*[]string, error) {
	volumes, err := subvolume.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	nodes, err := volumes.Blocked(ctx)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, n := range nodes {
		out = append(out, n.String())
	}
	return &out, nil
}

// clientNow reads what a node is right now. One that is gone is nothing at all.
func (b *Backend) clientNow(ctx context.Context, name string) (decideceph.Client, error) {
	n := &corev1.Node{}
	if err := b.Live.Get(ctx, types.NamespacedName{Name: name}, n); client.IgnoreNotFound(err) != nil {
		return decideceph.Client{}, fmt.Errorf("get node %s: %w", name, err)
	}
	all, err := fleet.Machines(ctx, b.Live)
	if err != nil {
		return decideceph.Client{}, err
	}
	return clientOf(n, all), nil
}

// blockClient puts on record that the clients at an address are blocked, and then has them blocked.
func (b *Backend) blockClient(ctx context.Context, s view.Step) error {
	now, err := b.clientNow(ctx, s.Ceph.Host)
	if err != nil {
		return err
	}
	err = b.noteBlocked(ctx, s, func(records []decideceph.Blocked) ([]decideceph.Blocked, error) {
		if why := decideceph.MayBlock(s.Ceph, now, records); why != "" {
			return nil, passing("%s", why)
		}
		return append(slices.DeleteFunc(records, s.Ceph.Blocked().Replaces), s.Ceph.Blocked()), nil
	})
	if err != nil {
		return err
	}
	return b.onBlocklist(ctx, s, func(c *subvolume.Client, node netip.Addr) error { return c.Block(ctx, node, lasting) })
}

// unblockClient puts on record that the clients at an address are let in, has Ceph let them in, and then takes the record off. As long as another record is about the address it stays blocked.
func (b *Backend) unblockClient(ctx context.Context, s view.Step) error {
	now, err := b.clientNow(ctx, s.Ceph.Host)
	if err != nil {
		return err
	}
	if why := decideceph.MayUnblock(s.Ceph, now); why != "" {
		return passing("%s", why)
	}
	was, let, others := s.Ceph.Blocked(), s.Ceph.Blocked(), false
	let.Let = true
	err = b.noteBlocked(ctx, s, func(records []decideceph.Blocked) ([]decideceph.Blocked, error) {
		i := slices.IndexFunc(records, func(r decideceph.Blocked) bool { return r == was || r == let })
		if i < 0 {
			return nil, passing("the record of node %s at %s is another one by now", s.Ceph.Host, s.Ceph.Name)
		}
		records[i] = let
		others = slices.ContainsFunc(records, func(r decideceph.Blocked) bool { return r.Address == s.Ceph.Name && !r.Let })
		return records, nil
	})
	if err != nil {
		return err
	}
	if !others {
		if err := b.onBlocklist(ctx, s, func(c *subvolume.Client, node netip.Addr) error { return c.Unblock(ctx, node) }); err != nil {
			return err
		}
	}
	return b.noteBlocked(ctx, s, func(records []decideceph.Blocked) ([]decideceph.Blocked, error) {
		return slices.DeleteFunc(records, func(r decideceph.Blocked) bool { return r == let }), nil
	})
}

// onBlocklist has the monitors change their list.
func (b *Backend) onBlocklist(ctx context.Context, s view.Step, change func(*subvolume.Client, netip.Addr) error) error {
	node, err := netip.ParseAddr(s.Ceph.Name)
	if err != nil {
		return fmt.Errorf("address of node %s: %w", s.Ceph.Host, err)
	}
	c, err := b.client(s.FSID)
	if err != nil {
		return err
	}
	defer b.memory.changed(types.UID(s.UID))
	volumes, err := subvolume.Open(ctx, c)
	if err != nil {
		return err
	}
	return change(volumes, node)
}

// noteBlocked changes the record of the clients that are blocked. Several addresses can be worked on at the same time.
func (b *Backend) noteBlocked(ctx context.Context, s view.Step, change func([]decideceph.Blocked) ([]decideceph.Blocked, error)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error { return b.tryBlocked(ctx, s, change) })
}

func (b *Backend) tryBlocked(ctx context.Context, s view.Step, change func([]decideceph.Blocked) ([]decideceph.Blocked, error)) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	records, err := noted.Blocked(c)
	if err != nil {
		return err
	}
	if records, err = change(records); err != nil {
		return err
	}
	text, err := noted.BlockedText(c, records)
	if err != nil {
		return err
	}
	_, err = kube.Patch(ctx, b.Client, c, func(c *v1alpha1.Cluster) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		if c.Annotations[v1alpha1.AnnotationCephBlocked] = text; text == "" {
			delete(c.Annotations, v1alpha1.AnnotationCephBlocked)
		}
	})
	return err
}
