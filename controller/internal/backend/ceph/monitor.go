package ceph

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decideceph "quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/preflight"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// startMonitor puts a monitor on record, tells all where it is, and deploys it. The name is taken before: a monitor that a lost record forgot keeps its own.
func (b *Backend) startMonitor(ctx context.Context, s view.Step) error {
	if s.Daemon.Address == "" {
		return passing("node %s has no address", s.Daemon.Node)
	}
	if err := b.mayStart(ctx, s); err != nil {
		return err
	}
	begun := false
	err := b.member(ctx, s, func(r *v1alpha1.MemberCeph) error {
		if r.Monitor != nil && r.Monitor.Name != s.Daemon.ID {
			return passing("member %s has monitor %s", s.Member, r.Monitor.Name)
		}
		if begun = r.Monitor == nil; begun {
			r.Monitor = &v1alpha1.MemberMonitor{Name: s.Daemon.ID, Address: s.Daemon.Address}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.stillFree(ctx, s, begun); err != nil {
		return err
	}
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	if err := b.configMap(ctx, c); err != nil {
		return err
	}
	// Somebody else may have got as far since the step was decided on.
	if s.Daemon.First && noted.Formed(c) {
		return passing("monitor %s is not the first one any more", s.Daemon.ID)
	}
	return b.deploy(ctx, s)
}

// mayStart looks once more whether the monitor may make the Ceph cluster: what the step was decided on may be older than the record. It counts the name as given.
func (b *Backend) mayStart(ctx context.Context, s view.Step) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	members, err := kube.MembersOf(ctx, b.Live, c.UID)
	if err != nil {
		return err
	}
	others, mine := monitorsOf(members, s)
	switch {
	case slices.Contains(others, s.Daemon.ID):
		return passing("another member has monitor %s", s.Daemon.ID)
	case s.Daemon.First && (len(others) > 0 || noted.Formed(c)):
		return passing("monitor %s is not the first one", s.Daemon.ID)
	case !s.Daemon.First && len(others) == 0 && !mine && !noted.Formed(c):
		return passing("monitor %s would wait for ever for others", s.Daemon.ID)
	}
	if mine {
		return nil
	}
	if err := b.portFree(ctx, s); err != nil {
		return err
	}
	// A workload or the quorum may know of more names than the records.
	number := cephname.Number(s.Daemon.ID)
	if number < noted.MonitorsMade(c, members) {
		return passing("the name %s was given before", s.Daemon.ID)
	}
	return b.note(ctx, s, v1alpha1.AnnotationCephMonitors, fmt.Sprintf("%s/%d", c.UID, number+1))
}

// portFree refuses a host that has a monitor of another Ceph cluster by the record of now: both would listen on one port.
func (b *Backend) portFree(ctx context.Context, s view.Step) error {
	var there v1alpha1.MemberList
	if err := b.Live.List(ctx, &there, client.MatchingFields{kube.MemberNode: s.Daemon.Node}); err != nil {
		return fmt.Errorf("list members on %s: %w", s.Daemon.Node, err)
	}
	var others []*v1alpha1.Member
	for i := range there.Items {
		if m := &there.Items[i]; string(m.Spec.Of.UID) != s.UID {
			others = append(others, m)
		}
	}
	if why := preflight.Port(s.Daemon.Node, others); why != "" {
		return passing("node %s %s", s.Daemon.Node, why)
	}
	return nil
}

// stillFree looks again once the monitor is on record, and before it is deployed: another Cluster may have put one on record for the host since. Of two that see each other neither stays. begun: this call made the
// record, which is taken back unless somebody else has deployed the monitor meanwhile.
func (b *Backend) stillFree(ctx context.Context, s view.Step, begun bool) error {
	deployed, err := b.get(ctx, cephname.Workload(s.Cluster, cephname.DaemonMonitor, s.Daemon.ID), &appsv1.Deployment{})
	if err != nil || deployed {
		return err
	}
	if err = b.portFree(ctx, s); err == nil || !begun {
		return err
	}
	return errors.Join(err, b.member(ctx, s, func(r *v1alpha1.MemberCeph) error {
		if r.Monitor != nil && r.Monitor.Name == s.Daemon.ID {
			r.Monitor = nil
		}
		return nil
	}))
}

// monitorsOf returns the names of the monitors on record beside the one of a step, and whether that one is on record as well.
func monitorsOf(members []v1alpha1.Member, s view.Step) (others []string, mine bool) {
	for _, m := range members {
		switch {
		case m.Spec.Ceph == nil || m.Spec.Ceph.Monitor == nil:
		case m.Name == s.Member && m.Spec.Ceph.Monitor.Name == s.Daemon.ID:
			mine = true
		default:
			others = append(others, m.Spec.Ceph.Monitor.Name)
		}
	}
	return others, mine
}

// form puts on record that monitors were seen as a quorum, and then deploys the first one as all others are: should its data be lost, it makes no other Ceph cluster.
func (b *Backend) form(ctx context.Context, s view.Step) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	if c.TakesUp() {
		// Its own Ceph cluster that it takes up may have served, and is on record as taken up from then on.
		if err := b.note(ctx, s, v1alpha1.AnnotationCephTakenUp, s.UID+"/"+s.FSID); err != nil {
			return err
		}
	}
	if err := b.note(ctx, s, v1alpha1.AnnotationCephFormed, s.UID); err != nil || s.Daemon.Address == "" {
		return err
	}
	defer b.memory.changed(types.UID(s.UID))
	return b.deploy(ctx, s)
}

// removeMonitor takes a monitor out of the map, then its workload, then its record. Its data are removed after that.
func (b *Backend) removeMonitor(ctx context.Context, s view.Step) error {
	s.Ceph = decideceph.Step{Do: decideceph.RemoveMonitor, Name: s.Ceph.Name, Host: s.Ceph.Host, ID: -1}
	if err := b.have(ctx, s); err != nil {
		return err
	}
	if err := b.remove(ctx, s, cephname.Workload(s.Cluster, cephname.DaemonMonitor, s.Ceph.Name), &appsv1.Deployment{}); err != nil {
		return err
	}
	defer b.memory.changed(types.UID(s.UID))
	err := b.member(ctx, s, func(r *v1alpha1.MemberCeph) error {
		if r.Monitor == nil || r.Monitor.Name != s.Ceph.Name {
			return nil
		}
		r.Monitor = nil
		if !slices.Contains(r.Swept, s.Ceph.Name) {
			r.Swept = append(r.Swept, s.Ceph.Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	return b.configMap(ctx, c)
}

// listening are the monitors on record, as the API server itself knows them.
func (b *Backend) listening(ctx context.Context, c *v1alpha1.Cluster) ([]cephpod.Monitor, error) {
	members, err := kube.MembersOf(ctx, b.Live, c.UID)
	if err != nil {
		return nil, err
	}
	var out []cephpod.Monitor
	for _, m := range members {
		if m.Spec.Ceph != nil && m.Spec.Ceph.Monitor != nil {
			out = append(out, cephpod.Monitor{Name: m.Spec.Ceph.Monitor.Name, Address: m.Spec.Ceph.Monitor.Address})
		}
	}
	return out, nil
}
