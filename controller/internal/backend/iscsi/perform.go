package iscsi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Perform performs the steps of one host in order and stops at the first that fails, or that may not be taken any more. It returns how many were
// performed.
func (b *Backend) Perform(ctx context.Context, host string, steps backend.Steps) (done int, err error) {
	for s, err := range steps {
		if err != nil {
			return done, err
		}
		if err := b.perform(ctx, host, s); err != nil {
			return done, failed(err)
		}
		done++
	}
	return done, nil
}

func (b *Backend) perform(ctx context.Context, host string, step backend.Step) error {
	s, ok := step.(iscsi.Step)
	if !ok || s.Host() != host && s.Via() != host {
		return fmt.Errorf("step %T %s of host %q via %q was given to host %s", step, step.Action(), step.Host(), step.Via(), host)
	}
	do := map[string]func(context.Context, iscsi.Step) error{
		v1alpha1.ActionLogin: b.login, v1alpha1.ActionLogout: b.logout, v1alpha1.ActionGrantKey: b.grantKey, v1alpha1.ActionRegisterKey: b.registerKey,
		v1alpha1.ActionUnregisterKey: b.unregisterKey, v1alpha1.ActionMapVolumes: b.mapVolumes, v1alpha1.ActionUnmapVolumes: b.unmapVolumes, v1alpha1.ActionFenceNode: b.fenceNode,
		v1alpha1.ActionPreemptKeys: b.preemptKeys, v1alpha1.ActionRecordMachine: b.recordMachine, v1alpha1.ActionForgetReaders: b.forgetReaders,
		v1alpha1.ActionReleaseVolumes: b.releaseVolumes, v1alpha1.ActionCreateSharedGroup: b.createGroup, v1alpha1.ActionRemoveSharedGroup: b.removeGroup,
	}[s.Does]
	if do == nil {
		return fmt.Errorf("unknown action %q", s.Does)
	}
	// Whatever came of it has to be looked at.
	defer b.memory.changed(types.UID(s.Ref.OwnerUID), host)
	return do(ctx, s)
}

// login makes sessions, with the credentials as they are now, and records which they are.
func (b *Backend) login(ctx context.Context, s iscsi.Step) error {
	i, err := b.iscsi(ctx, s)
	if err != nil {
		return err
	}
	secret, chap, err := b.credentials(ctx, i)
	if err != nil {
		return err
	}
	if chap.Problem != "" {
		return &backend.StepError{Reason: v1alpha1.ReasonChapSecretInvalid, Err: errors.New(chap.Problem)}
	}
	renew, unlock, err := b.renewal(ctx, s)
	if err != nil {
		return err
	}
	defer unlock()
	b.memory.note(i.UID, s.Node, func(h *host) { h.loginAt, h.paths = b.Now(), both(h.paths, s.Paths) })
	// A path of a new session may have the name of an earlier one, and not its key.
	err = b.member(ctx, s.Member, s, func(m *v1alpha1.Member) {
		if r := m.Spec.Reservation; r != nil {
			r.Paths = both(r.Paths, s.Paths)
		}
	})
	if err != nil {
		return err
	}
	_, err = b.Agents.Login(ctx, s.Node, s.Target, secret, renew)
	if err != nil && !b.kept(ctx, s, err) {
		return b.correctable(err, i)
	}
	err = b.member(ctx, s.Member, s, func(m *v1alpha1.Member) {
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[v1alpha1.AnnotationChap] = chap.Version
	})
	if err == nil {
		b.memory.note(i.UID, s.Node, func(h *host) { h.loginChap = chap.Version })
	}
	return err
}

// correctable adds to an error about credentials where they are.
func (b *Backend) correctable(err error, i *v1alpha1.Iscsi) error {
	f := faultOf(err)
	if f.Reason != sharedlun.ReasonWrongChap {
		return err
	}
	out, do := *f, "set spec.chap, and make"
	if i.Spec.Chap {
		do = "correct"
	}
	out.Message = fmt.Sprintf("%s To log in, %s the Secret %s in namespace %s.", f.Message, do, i.Name+v1alpha1.ChapSecretSuffix, b.Namespace)
	return &out
}

// both returns the paths that are in both lists.
func both(a, b string) string {
	have := strings.Split(b, ",")
	return strings.Join(slices.DeleteFunc(strings.Split(a, ","), func(p string) bool { return !slices.Contains(have, p) }), ",")
}

func (b *Backend) logout(ctx context.Context, s iscsi.Step) error {
	b.memory.note(types.UID(s.Ref.OwnerUID), s.Node, func(h *host) { h.loginChap = "" })
	return b.Agents.Logout(ctx, s.Node, s.Target)
}

func (b *Backend) releaseVolumes(ctx context.Context, s iscsi.Step) error {
	for _, v := range s.Volumes {
		if err := b.Groups.Release(ctx, s.Ref, v); err != nil {
			return err
		}
	}
	return nil
}

// iscsi reads the Iscsi of a step from the API server itself.
func (b *Backend) iscsi(ctx context.Context, s iscsi.Step) (*v1alpha1.Iscsi, error) {
	i := &v1alpha1.Iscsi{}
	if err := b.Live.Get(ctx, types.NamespacedName{Name: s.Owner}, i); err != nil {
		return nil, fmt.Errorf("get iscsi %s: %w", s.Owner, err)
	}
	if s.Ref.OwnerUID != "" && string(i.UID) != s.Ref.OwnerUID {
		return nil, passing("iscsi %s was replaced", s.Owner)
	}
	return i, nil
}

// readMember reads a Member of a step from the API server itself.
func (b *Backend) readMember(ctx context.Context, name string, s iscsi.Step) (*v1alpha1.Member, error) {
	m := &v1alpha1.Member{}
	if err := b.Live.Get(ctx, types.NamespacedName{Name: name}, m); err != nil {
		return nil, fmt.Errorf("get member %s: %w", name, err)
	}
	if s.Ref.OwnerUID != "" && string(m.Spec.Of.UID) != s.Ref.OwnerUID {
		return nil, passing("member %s was replaced", name)
	}
	return m, nil
}

// members reads the Members of the Iscsi of a step from the API server itself.
func (b *Backend) members(ctx context.Context, s iscsi.Step) ([]v1alpha1.Member, error) {
	return kube.MembersOf(ctx, b.Live, types.UID(s.Ref.OwnerUID))
}

// member changes a Member, unless somebody else does at the same time.
func (b *Backend) member(ctx context.Context, name string, s iscsi.Step, change func(*v1alpha1.Member)) error {
	m, err := b.readMember(ctx, name, s)
	if err != nil {
		return err
	}
	_, err = kube.Patch(ctx, b.Client, m, change)
	return err
}

// memberAs changes a Member whose reservation is still the one that the change was decided on. Calls to agents lie in between, and a process that was the leader
// before may go on for a moment: its older decision must not overwrite the record of a fence.
func (b *Backend) memberAs(ctx context.Context, s iscsi.Step, was *v1alpha1.MemberReservation, change func(*v1alpha1.Member)) error {
	m, err := b.readMember(ctx, s.Member, s)
	if err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(m.Spec.Reservation, was) {
		return passing("the key of node %s on record was changed meanwhile", s.Node)
	}
	_, err = kube.Patch(ctx, b.Client, m, change)
	return err
}

// faultOf returns the fault in an error; an empty one when it has none.
func faultOf(err error) *decide.Fault {
	f := &decide.Fault{}
	errors.As(err, &f)
	return f
}

// passing is an error that the next look takes in.
func passing(format string, args ...any) error {
	return &backend.StepError{Reason: v1alpha1.ReasonStepFailed, Passing: true, Err: fmt.Errorf(format, args...)}
}

// refused is an error that a person has to know.
func refused(reason, format string, args ...any) error {
	return &backend.StepError{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// failed says why a step failed.
func failed(err error) error {
	if e := (*backend.StepError)(nil); errors.As(err, &e) {
		return err
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// Somebody wrote at the same time, or the object went.
		return &backend.StepError{Reason: v1alpha1.ReasonStepFailed, Passing: true, Err: err}
	}
	f := faultOf(err)
	away := f.Reason == "" && (f.Kind == decide.FaultBusy || f.Kind == decide.FaultUnavailable)
	return &backend.StepError{Reason: cmp.Or(f.Reason, v1alpha1.ReasonStepFailed), Passing: away && f.Call != "", Err: err}
}
