package storage

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/notice"
	"quarry.storage/quarry/controller/internal/reconcile/storage/work"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// scope holds the facts of one reconcile. Every fact is written in one place, and the statuses are computed from all at its end.
type scope struct {
	// before is the storage as it was read, storage the one that is changed.
	before, storage v1alpha1.Storage
	owner           backend.Owner
	common          v1alpha1.StorageCommon
	backend         Backend
	profile         backend.Profile
	now, started    time.Time
	world           backend.World
	// self and claimants are what matters of this and of the other storages when hosts are shared out.
	self      backend.Claimant
	claimants []backend.Claimant
	view      backend.View
	// members by node.
	members map[string]*v1alpha1.Member
	// used is true while a volume of the class exists, or is attached; attached names volumes that are.
	used     bool
	attached []string
	// hosts, ordered by name.
	hosts []backend.HostHealth
	whole backend.Whole
	// verdict on the steps of the whole; wholeFailure is why the last of them failed.
	verdict      backend.Verdict
	wholeFailure work.Failure
	plan         *v1alpha1.Plan
	// offer is that of the plans that this pass shows and the one before did not.
	offer string
	// haveClass is our StorageClass as it was read; nil when there is none.
	haveClass *storagev1.StorageClass
	class     backend.Class
	driver    backend.DriverState
	// approvals that the Members carried at the beginning of this pass, by node, and those given in it.
	approvals map[string]string
	// failures of the last attempts, by where they were made; troubles are writes to the API server that failed for a host in this pass.
	failures map[work.Place]work.Failure
	troubles map[string]error
	// refused is what else the API server refused in this pass.
	refused []string
	// carried are the digests of the approved plans that were begun in this pass, by host.
	carried map[string]string
	// unstamped is true when an approval could not be passed on to all Members: no step runs in this pass.
	unstamped bool
	// running are the hosts that are being worked on: what they hold may change at any moment.
	running map[string]bool
	// blocked says what else holds the deletion.
	blocked string
	// notes are events that no status shows.
	notes []notice.Note
	// soonest is when something must be tried again; zero when nothing must.
	soonest time.Duration
	// unsupported says why there is no backend; empty when there is one.
	unsupported string
	// blind is true when the world could not be observed: the statuses say nothing new then.
	blind, gone bool
	// unseen is for how long each look failed; 0 if the look before did not.
	unseen time.Duration
}

func (r *Reconciler) newScope(o v1alpha1.Storage, b Backend) *scope {
	s := &scope{
		before: o, storage: copyOf(o), owner: backend.OwnerOf(o), common: o.Common(), backend: b, now: r.Now(), started: r.started,
		failures: map[work.Place]work.Failure{}, troubles: map[string]error{}, carried: map[string]string{},
		members: map[string]*v1alpha1.Member{}, approvals: map[string]string{}, offer: r.offer(),
	}
	s.storage.StorageStatus().LostGroups = backend.LostGroups(o)
	if b != nil {
		s.profile = b.Profile()
		s.running = r.Work.Running(s.owner)
	}
	return s
}

func (s *scope) deleting() bool { return !s.storage.GetDeletionTimestamp().IsZero() }

// next returns when the storage is looked at again even if nothing happens.
func (s *scope) next() time.Duration {
	if s.soonest > 0 && s.soonest < refresh {
		return s.soonest
	}
	return refresh
}

// within notes that something must be tried again after a while.
func (s *scope) within(d time.Duration) {
	if d > 0 && (s.soonest == 0 || d < s.soonest) {
		s.soonest = d
	}
}

// wanted reports whether the spec wants a host and the storage stays.
func (s *scope) wanted(node string) bool {
	return !s.deleting() && backend.Wants(s.common, s.world.Nodes[node])
}

// holds reports whether the backend sees a part of the storage on a host.
func (s *scope) holds(node string) bool { return slices.Contains(s.view.Hosts(), node) }

// ownsVolume reports whether a volume is of the storage: by its class, or by what the driver recorded when it was made. A volume may have
// been made through another class, or restored without one.
func (s *scope) ownsVolume(v *corev1.PersistentVolume) bool {
	if v.Spec.CSI == nil || v.Spec.CSI.Driver != s.profile.Driver.Name {
		return false
	}
	prefix := string(s.owner.UID) + "/"
	if of := s.profile.Driver.PrefixOf; of != nil {
		prefix = of(s.storage)
	}
	if v.Spec.StorageClassName == s.owner.Name || strings.HasPrefix(v.Spec.CSI.VolumeHandle, prefix) {
		return true
	}
	return slices.Contains(slices.Collect(maps.Values(v.Spec.CSI.VolumeAttributes)), string(s.owner.UID)) || s.records(v)
}

// records reports whether a volume that says of no storage that it is its own is in the group that a Member has on record: a person made its
// PersistentVolume.
func (s *scope) records(v *corev1.PersistentVolume) bool {
	d, csi := s.profile.Driver, v.Spec.CSI
	if d.NodeOf == nil || d.InGroup == nil {
		return false
	}
	m := s.members[d.NodeOf(csi.VolumeHandle)]
	return m != nil && m.Spec.Group != nil && m.Spec.Group.Name != "" && d.InGroup(csi.VolumeHandle, csi.VolumeAttributes, m.Spec.Group.Name)
}

// names returns every host that the storage uses, used or may have used: from the spec, its Members, its volumes and the backend.
func (s *scope) names() []string {
	var names []string
	for n, node := range s.world.Nodes {
		if backend.Wants(s.common, node) {
			names = append(names, n)
		}
	}
	for n := range s.members {
		names = append(names, n)
	}
	names = append(names, s.world.Held()...)
	if s.view != nil {
		names = append(names, s.view.Hosts()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// live returns a scope that says what the API server itself says of the storage and of one Member and its node.
func (s *scope) live(owner v1alpha1.Storage, m *v1alpha1.Member, node backend.Node) *scope {
	out := *s
	out.storage, out.common = owner, owner.Common()
	out.members = map[string]*v1alpha1.Member{node.Name: m}
	out.world.Nodes = map[string]backend.Node{node.Name: node}
	return &out
}

// judgement returns what was known about a host, with what the scope says of its Member and of maintenance.
func (s *scope) judgement(h *backend.HostHealth) backend.HostHealth {
	out := *h
	out.Object, out.Sources = s.members[h.Node], s.sources(h.Node)
	return out
}

// host returns what is known about a host; nil when it is none of this storage.
func (s *scope) host(node string) *backend.HostHealth {
	i := slices.IndexFunc(s.hosts, func(h backend.HostHealth) bool { return h.Node == node })
	if i < 0 {
		return nil
	}
	return &s.hosts[i]
}

// summary is what conditions, phase and message are computed from.
func (s *scope) summary() backend.Summary {
	noHost := ""
	if !s.deleting() {
		noHost = backend.NoHost(s.common, s.world.Nodes)
	}
	return backend.Summary{
		Profile: s.profile, Owner: s.owner, Deleting: s.deleting(), Hosts: s.hosts, Whole: s.whole, Class: s.class, Driver: s.driver,
		Plan: s.plan, Blocked: s.blocked, Unknown: s.unknown(), NoHost: noHost,
		Failure: s.wholeFailure.Message, FailureReason: s.wholeFailure.Reason, Trouble: backend.Text(s.refused),
	}
}

// unknown names the hosts under maintenance that the storage has nothing to do with.
func (s *scope) unknown() []string {
	var names []string
	for _, n := range s.common.Maintenance {
		if s.host(string(n)) == nil {
			names = append(names, string(n))
		}
	}
	slices.Sort(names)
	return names
}

// complain takes the error of a phase into the message of the storage, unless a host, the StorageClass or what holds the deletion up shows
// it already. A conflict passes by itself.
func (s *scope) complain(err error) {
	var joined interface{ Unwrap() []error }
	switch {
	case err == nil:
		return
	case errors.As(err, &joined):
		for _, e := range joined.Unwrap() {
			s.complain(e)
		}
		return
	case apierrors.IsConflict(err), errors.Is(err, context.Canceled):
		return
	}
	text := err.Error()
	for _, trouble := range s.troubles {
		if errors.Is(trouble, err) || strings.Contains(trouble.Error(), text) {
			return
		}
	}
	if !strings.Contains(s.class.Failed, text) && !strings.Contains(s.blocked, text) && !slices.Contains(s.refused, text) {
		s.refused = append(s.refused, text)
	}
}

// fail notes that a write to the API server failed for a host. Somebody who wrote at the same time is no trouble: the next pass takes
// that in.
func (s *scope) fail(h *backend.HostHealth, err error) error {
	if err != nil && !apierrors.IsConflict(err) {
		s.troubles[h.Node] = err
		h.Failure, h.FailureReason = err.Error(), v1alpha1.ReasonStepFailed
	}
	return err
}

// writeBlind tells why the world could not be observed, and leaves all that is known about the storage as it is. A single look that fails is
// not told: the next one follows in milliseconds. Nobody may take a storage for ready for long that nobody can look at.
func (r *Reconciler) writeBlind(ctx context.Context, s *scope, why error) error {
	if s.complain(why); len(s.refused) == 0 || s.unseen == 0 {
		return nil
	}
	after := copyOf(s.storage)
	status := after.StorageStatus()
	status.Message = backend.Text(append([]string{"What is known is old, since the storage could not be looked at:"}, s.refused...))
	switch status.Phase {
	case v1alpha1.PhaseFailed, v1alpha1.PhaseDeleting:
	default:
		status.Phase = v1alpha1.PhaseWarning
	}
	if c := backend.Unseen(meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady), s.unseen, status.Message); c != nil {
		setConditions(&status.Conditions, after.GetGeneration(), []metav1.Condition{*c})
	}
	return r.writeStorage(ctx, s, after)
}

// fails remembers since when each look at a storage failed, and returns for how long they do; 0 for the first one.
func (r *Reconciler) fails(s *scope) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, again := r.blind[s.owner.Name]
	if !again {
		if r.blind == nil {
			r.blind = map[string]time.Time{}
		}
		r.blind[s.owner.Name] = s.now
		return 0
	}
	// Also one that follows at once, or after a clock that was set back, is not the first one.
	return max(s.now.Sub(since), 1)
}

// succeeds notes that a look at a storage did not fail.
func (r *Reconciler) succeeds(s *scope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.blind, s.owner.Name)
}
