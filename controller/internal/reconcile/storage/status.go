package storage

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/notice"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/storage/metric"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	// maxHolding is the number of volumes that a member's status names, maxName the length of each of these names.
	maxHolding = 10
	maxName    = 400
	// maxMessage is the length of a message in a member's status.
	maxMessage = 2 << 10
)

// writeStatus computes the statuses of the Members and of the storage from the scope, and writes those that changed.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	if s.blind {
		return nil
	}
	var errs []error
	unrecorded := map[string]bool{}
	for i := range s.hosts {
		h := &s.hosts[i]
		if h.Object != nil && !h.Removed {
			err := r.tellMember(ctx, s, h)
			unrecorded[h.Node] = err != nil && h.Verdict.Plan != nil && h.Verdict.Plan.Offer == s.offer
			errs = append(errs, err)
		}
	}
	if slices.Contains(slices.Collect(maps.Values(unrecorded)), true) {
		// The next pass offers these plans anew, with other digests: nobody must approve the ones of now.
		s.plan = s.combined(unrecorded)
	}
	after := copyOf(s.storage)
	s.fill(after)
	if s.backend != nil {
		metric.Members(s.owner, after.StorageStatus().MemberStates)
		metric.Pools(s.owner, s.hosts)
		if f, ok := s.backend.(Filler); ok {
			f.Fill(after, s.view, s.world)
		}
	}
	errs = append(errs, r.writeStorage(ctx, s, after))
	return errors.Join(errs...)
}

// writeStorage writes the status of the storage. A change that is of capacity only waits for its time.
func (r *Reconciler) writeStorage(ctx context.Context, s *scope, after v1alpha1.Storage) error {
	probe := copyOf(after)
	probe.StorageStatus().Capacity = s.before.StorageStatus().Capacity
	if kube.SameStatus(s.before, probe) && !kube.SameStatus(s.before, after) && r.tooSoon(s, s.owner.UID) {
		r.tell(s)
		return nil
	}
	wrote, err := kube.WriteStatus(ctx, r.Client, s.before, after)
	if err != nil {
		return err
	}
	if wrote {
		r.wrote(s, s.owner.UID)
		s.notes = append(s.notes, notice.Storage(s.before.StorageStatus(), after.StorageStatus())...)
	}
	r.tell(s)
	return nil
}

// writeUnreadable tells that the spec cannot be read, and leaves all that is known about the storage as it is.
func (r *Reconciler) writeUnreadable(ctx context.Context, s *scope, why string) error {
	after := copyOf(s.storage)
	status := after.StorageStatus()
	status.ObservedGeneration, status.Message = after.GetGeneration(), why
	status.Phase = v1alpha1.PhaseFailed
	if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStorageClassReady) {
		// Volumes are served all the same.
		status.Phase = v1alpha1.PhaseWarning
	}
	setConditions(&status.Conditions, after.GetGeneration(), []metav1.Condition{
		backend.Condition(v1alpha1.ConditionHostsValid, metav1.ConditionFalse, v1alpha1.ReasonSelectorInvalid, why),
		backend.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSelectorInvalid, why),
	})
	return r.writeStorage(ctx, s, after)
}

func (s *scope) fill(o v1alpha1.Storage) {
	status := o.StorageStatus()
	status.ObservedGeneration = o.GetGeneration()
	if s.backend == nil {
		conditions := backend.Unsupported(s.unsupported)
		setConditions(&status.Conditions, o.GetGeneration(), conditions)
		status.Phase, status.Message = v1alpha1.PhaseFailed, conditions[0].Message
		return
	}
	sum := s.summary()
	setConditions(&status.Conditions, o.GetGeneration(), sum.Conditions())
	status.Phase, status.Message, status.Problems = sum.Phase(), sum.Message(), sum.Problems()
	status.Capacity.Total, status.MemberStates, status.Plan = sum.Capacity(), sum.States(), s.plan
	status.HostCount, status.DeviceCount = 0, 0
	for i := range s.hosts {
		h := &s.hosts[i]
		if h.Object == nil || h.Removed {
			continue
		}
		status.HostCount++
		status.DeviceCount += int32(len(devicesOf(h)))
	}
}

// tellMember writes the status of one Member, and remembers that it was written by what is known now, unless nobody can say yet. Whether the host itself said how its
// devices are is remembered apart: that of a silent host repeats what was seen before.
func (r *Reconciler) tellMember(ctx context.Context, s *scope, h *backend.HostHealth) error {
	if !h.Decided.Watched {
		// First: nobody may read what is written now and take it for seen.
		r.Watched.Forget(h.Object.UID)
	}
	if err := r.writeMember(ctx, s, h); err != nil || h.Facts.TooEarly {
		return err
	}
	r.Told.Tell(h.Object.UID, s.now)
	if h.Decided.Watched {
		r.Watched.Tell(h.Object.UID, s.now)
	}
	return nil
}

// writeMember writes the status of one Member. A change that is of capacity only waits for its time.
func (r *Reconciler) writeMember(ctx context.Context, s *scope, h *backend.HostHealth) error {
	after := h.Object.DeepCopy()
	fillMember(after, h, s.now)
	probe := after.DeepCopy()
	probe.Status.Capacity, probe.Status.Volumes = h.Object.Status.Capacity, h.Object.Status.Volumes
	probe.Status.ThinPool = thinPool(h.Object.Status.ThinPool, after.Status.ThinPool)
	if kube.SameStatus(h.Object, probe) && !kube.SameStatus(h.Object, after) && r.tooSoon(s, after.UID) {
		return nil
	}
	wrote, err := kube.WriteStatus(ctx, r.Client, h.Object, after)
	if err != nil || !wrote {
		return err
	}
	r.wrote(s, after.UID)
	s.notes = append(s.notes, notice.Member(h.Node, h.Object.Status, after.Status, s.approvals[h.Node], s.profile.Wipes)...)
	return nil
}

// thinPool returns the old usage in place of the new one, unless a warning begins or ends with it, or it becomes known or unknown: a person
// waits for that.
func thinPool(was, is *v1alpha1.ThinPoolUsage) *v1alpha1.ThinPoolUsage {
	if was == nil || is == nil || was.NearlyFull != is.NearlyFull || was.Known() != is.Known() {
		return is
	}
	return was
}

func fillMember(m *v1alpha1.Member, h *backend.HostHealth, now time.Time) {
	st := &m.Status
	st.ObservedGeneration = m.Generation
	st.State, st.Flags = v1alpha1.MemberState(h.State), backend.APIFlags(h.Flags)
	st.Maintenance, st.Plan = h.Sources, h.Verdict.Plan
	st.Devices = devicesOf(h)
	st.DeviceCount = int32(len(st.Devices))
	if h.Decided.Reports {
		st.Capacity = v1alpha1.Space{}
		if h.Decided.Size > 0 {
			st.Capacity = backend.SpaceOf(h.Decided.Size, h.Decided.Free)
		}
		st.ThinPool, st.Volumes = h.Decided.ThinPool, int32(h.Decided.Volumes)
	}
	st.Zeroing = h.Decided.Zeroing[:min(len(h.Decided.Zeroing), maxHolding)]
	st.Holding = nil
	if h.Leaving.Active || h.Flags.ShouldDestroy() {
		for _, name := range h.Holding[:min(len(h.Holding), maxHolding)] {
			st.Holding = append(st.Holding, backend.Cut(name, maxName))
		}
	}
	st.Message = backend.Cut(h.Finding().Message, maxMessage)
	// Both look at what the Member says before this.
	ready, sound := h.Ready(), h.Sound()
	ready.Message = backend.Cut(ready.Message, maxMessage)
	setConditions(&st.Conditions, m.Generation, []metav1.Condition{ready})
	// What was reported stays so until somebody can say: after a start that would be one write for every member.
	if !h.Facts.TooEarly || !meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionRecordReported) {
		setConditions(&st.Conditions, m.Generation, []metav1.Condition{h.Reported})
	}
	keep(st, m.Generation, v1alpha1.ConditionRetired, h.Decided.Retired)
	keep(st, m.Generation, v1alpha1.ConditionGivenUpAbsent, h.Decided.GivenUp)
	keep(st, m.Generation, v1alpha1.ConditionSound, sound)
	fillLeaving(m, h, now)
}

// fillLeaving says why a member leaves. What was said last stays while it is being deleted, unless a person's word counts since.
func fillLeaving(m *v1alpha1.Member, h *backend.HostHealth, now time.Time) {
	l, st := h.Leaving, &m.Status
	was := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionLeaving)
	switch {
	case h.Taken && (was == nil || was.Reason != v1alpha1.ReasonLost):
		l = backend.Leaving{Active: true, Reason: v1alpha1.ReasonLost, Message: backend.LostMessage}
	case !l.Active && !h.Flags.ShouldDestroy():
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionLeaving)
		return
	case !l.Active:
		return
	}
	since := l.Since
	if since.IsZero() {
		since = now
	}
	meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionLeaving)
	st.Conditions = append(st.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionLeaving, Status: metav1.ConditionTrue, Reason: l.Reason, Message: backend.Cut(l.Message, maxMessage),
		ObservedGeneration: m.Generation, LastTransitionTime: metav1.NewTime(since.Truncate(time.Second)),
	})
}

// keep sets a condition that only some members have, or removes it.
func keep(st *v1alpha1.MemberStatus, generation int64, kind string, c *metav1.Condition) {
	if c == nil {
		meta.RemoveStatusCondition(&st.Conditions, kind)
		return
	}
	told := *c
	told.Message = backend.Cut(told.Message, maxMessage)
	setConditions(&st.Conditions, generation, []metav1.Condition{told})
}

// devicesOf returns the devices of a member: what the backend sees, or what was recorded while it cannot see.
func devicesOf(h *backend.HostHealth) []v1alpha1.MemberDevice {
	if h.Decided.Devices == nil && h.Object != nil && !h.Facts.Up {
		return h.Object.Status.Devices
	}
	return h.Decided.Devices
}

func setConditions(have *[]metav1.Condition, generation int64, conditions []metav1.Condition) {
	for _, c := range conditions {
		c.ObservedGeneration = generation
		meta.SetStatusCondition(have, c)
	}
}

// tooSoon reports whether the capacity of an object was written a short while ago; it is written when its time has come.
func (r *Reconciler) tooSoon(s *scope, uid types.UID) bool {
	every := r.CapacityEvery
	if every == 0 {
		every = capacityEvery
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.written[uid].Add(every).Sub(s.now)
	s.within(left)
	return left > 0
}

func (r *Reconciler) wrote(s *scope, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.written == nil {
		r.written = map[types.UID]time.Time{}
	}
	r.written[uid] = s.now
}

// tell emits the events of this pass.
func (r *Reconciler) tell(s *scope) {
	kube.Emit(r.Events, s.storage, s.notes...)
	s.notes = nil
}
