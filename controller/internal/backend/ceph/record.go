package ceph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/osdrecord"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// passing is an error that the next look takes in.
func passing(format string, args ...any) error {
	return &backend.StepError{Reason: v1alpha1.ReasonStepFailed, Passing: true, Err: fmt.Errorf(format, args...)}
}

// cluster reads the Cluster of a step from the API server itself.
func (b *Backend) cluster(ctx context.Context, s view.Step) (*v1alpha1.Cluster, error) {
	c := &v1alpha1.Cluster{}
	if err := b.Live.Get(ctx, types.NamespacedName{Name: s.Cluster}, c); err != nil {
		return nil, fmt.Errorf("get cluster %s: %w", s.Cluster, err)
	}
	if string(c.UID) != s.UID {
		return nil, passing("cluster %s was replaced", s.Cluster)
	}
	return c, nil
}

// note writes the record of the Cluster itself, unless somebody else changes it at the same time.
func (b *Backend) note(ctx context.Context, s view.Step, annotation, value string) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	_, err = kube.Patch(ctx, b.Client, c, func(c *v1alpha1.Cluster) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[annotation] = value
	})
	return err
}

// member changes what is on record of a Member. change returns an error if the record is not what the step was decided on.
func (b *Backend) member(ctx context.Context, s view.Step, change func(*v1alpha1.MemberCeph) error) error {
	m := &v1alpha1.Member{}
	if err := b.Live.Get(ctx, types.NamespacedName{Name: s.Member}, m); err != nil {
		return fmt.Errorf("get member %s: %w", s.Member, err)
	}
	if string(m.Spec.Of.UID) != s.UID || s.MemberUID != "" && m.UID != s.MemberUID {
		return passing("member %s was replaced", s.Member)
	}
	want := &v1alpha1.MemberCeph{}
	if m.Spec.Ceph != nil {
		want = m.Spec.Ceph.DeepCopy()
	}
	if err := change(want); err != nil {
		return err
	}
	_, err := kube.Patch(ctx, b.Client, m, func(m *v1alpha1.Member) { m.Spec.Ceph = want })
	return err
}

// osd changes the record of one OSD.
func (b *Backend) osd(ctx context.Context, s view.Step, change func(*v1alpha1.MemberOSD)) error {
	return b.osdIf(ctx, s, func(o *v1alpha1.MemberOSD) error { change(o); return nil })
}

// osdIf changes the record of one OSD, unless change returns an error.
func (b *Backend) osdIf(ctx context.Context, s view.Step, change func(*v1alpha1.MemberOSD) error) error {
	return b.member(ctx, s, func(r *v1alpha1.MemberCeph) error {
		i := slices.IndexFunc(r.OSDs, func(o v1alpha1.MemberOSD) bool { return o.UUID == s.Ceph.UUID })
		if i < 0 {
			return passing("OSD %s is not on record any more", s.Ceph.UUID)
		}
		return change(&r.OSDs[i])
	})
}

// prepare makes the keys once, puts on record that they are, and writes the configuration file.
func (b *Backend) prepare(ctx context.Context, s view.Step) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	if !noted.Is(c, v1alpha1.AnnotationCephKeys) {
		if err := b.keys(ctx, c, s); err != nil {
			return err
		}
	}
	return b.writeConfig(ctx, c, entries(map[string]string{cephname.KeyConfig: s.Text}))
}

// keys makes the Secret with the keys of the Ceph cluster. One that is there is kept: a process that was cut off may have made it.
func (b *Backend) keys(ctx context.Context, c *v1alpha1.Cluster, s view.Step) error {
	have := &corev1.Secret{}
	there, err := b.get(ctx, cephname.Keys(c.Name), have)
	if err != nil {
		return err
	}
	if c.FSID() != s.FSID {
		return passing("Cluster %s is to take up another Ceph cluster by now", c.Name)
	}
	if there && have.Labels[cephname.LabelFSID] != s.FSID {
		return fmt.Errorf("the Secret %s in namespace %s is of another Ceph cluster; nothing of it is used", have.Name, cephname.Namespace)
	}
	if !there && c.TakesUp() {
		return passing("the Secret %s in namespace %s with the keys of the Ceph cluster is gone", cephname.Keys(c.Name), cephname.Namespace)
	}
	if !there {
		monitor, err := cephpod.Key(b.Random, b.Now())
		if err != nil {
			return err
		}
		admin, err := cephpod.Key(b.Random, b.Now())
		if err != nil {
			return err
		}
		monitors, administrator := cephpod.Keyrings(monitor, admin)
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: cephname.Keys(c.Name), Namespace: cephname.Namespace, Labels: cephpod.Of(c).Labels(cephname.ObjectKeys, "")},
			Data:       map[string][]byte{cephname.KeyMonitor: []byte(monitors), cephname.KeyAdmin: []byte(administrator)},
		}
		if err := b.Client.Create(ctx, secret); err != nil {
			return fmt.Errorf("create secret %s: %w", secret.Name, err)
		}
	}
	if c.TakesUp() {
		if err := b.note(ctx, s, v1alpha1.AnnotationCephTakenUp, s.UID+"/"+s.FSID); err != nil {
			return err
		}
	}
	return b.note(ctx, s, v1alpha1.AnnotationCephKeys, s.UID)
}

// adoptMonitor puts a monitor of the map on record, and tells all where it is. It is deployed as any other on record.
func (b *Backend) adoptMonitor(ctx context.Context, s view.Step) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	members, err := kube.MembersOf(ctx, b.Live, c.UID)
	if err != nil {
		return err
	}
	s.Daemon.ID = s.Ceph.Name
	if others, _ := monitorsOf(members, s); slices.Contains(others, s.Ceph.Name) {
		return passing("another member has monitor %s", s.Ceph.Name)
	}
	if number := cephname.Number(s.Ceph.Name); number >= noted.MonitorsMade(c, members) {
		// No other monitor gets its name, even if it is removed some day.
		if err := b.note(ctx, s, v1alpha1.AnnotationCephMonitors, fmt.Sprintf("%s/%d", c.UID, number+1)); err != nil {
			return err
		}
	}
	defer b.memory.changed(c.UID)
	err = b.member(ctx, s, func(r *v1alpha1.MemberCeph) error {
		switch {
		case slices.Contains(r.Swept, s.Ceph.Name):
			return passing("the data of monitor %s are being removed", s.Ceph.Name)
		case r.Monitor != nil && r.Monitor.Name != s.Ceph.Name:
			return passing("member %s has monitor %s", s.Member, r.Monitor.Name)
		}
		r.Monitor = &v1alpha1.MemberMonitor{Name: s.Ceph.Name, Address: s.Ceph.Address}
		return nil
	})
	if err != nil {
		return err
	}
	return b.configMap(ctx, c)
}

// adoptOSD puts an OSD on record that a disk carries. It is started as any other on record.
func (b *Backend) adoptOSD(ctx context.Context, s view.Step) error {
	if len(s.Devices) != 1 {
		return fmt.Errorf("%s names %d devices", s.Ceph, len(s.Devices))
	}
	members, err := kube.MembersOf(ctx, b.Live, types.UID(s.UID))
	if err != nil {
		return err
	}
	if at := recordedBy(members, s.Member, s.Ceph.UUID); at != "" {
		return passing("member %s has OSD %s on record", at, s.Ceph.UUID)
	}
	o := osdrecord.Adopted(s.Devices[0], s.Ceph.UUID, s.Encrypted)
	if o.Encrypted {
		all, err := b.diskSecrets(ctx, s)
		if err != nil {
			return err
		}
		if o.Secret, err = secretOf(all, s.FSID, s.Ceph.UUID); err != nil {
			return err
		}
	}
	return b.member(ctx, s, func(r *v1alpha1.MemberCeph) error {
		if !osdrecord.Has(r, o.UUID) {
			r.OSDs = append(r.OSDs, o)
		}
		return nil
	})
}

// recordedBy names a Member beside the given one that has an OSD on record; empty if there is none.
func recordedBy(members []v1alpha1.Member, but, uuid string) string {
	i := slices.IndexFunc(members, func(m v1alpha1.Member) bool { return m.Name != but && osdrecord.Has(m.Spec.Ceph, uuid) })
	if i < 0 {
		return ""
	}
	return members[i].Name
}

// secretOf finds the Secret with the key of an encrypted OSD that is on no record, among those with the labels of its Ceph cluster.
func secretOf(all []corev1.Secret, fsid, uuid string) (string, error) {
	var names []string
	for i := range all {
		if all[i].Annotations[cephname.AnnotationOSD] == uuid {
			names = append(names, all[i].Name)
		}
	}
	if len(names) != 1 {
		return "", fmt.Errorf("its disk is encrypted, and %d Secrets in namespace %s have the labels %s=%s and %s=%s and the annotation %s=%s (%s): restore the one with its key, and keep no other. If the key is lost for ever, so is what is on the disk",
			len(names), cephname.Namespace, cephname.LabelFSID, fsid, cephname.LabelDaemon, cephname.ObjectDiskKey, cephname.AnnotationOSD, uuid, strings.Join(names, ", "))
	}
	return names[0], nil
}

// kept returns an error if the API server dropped a field of a record that was just written: its definition of Members is that of an earlier version.
func kept(is bool, field string) error {
	if is {
		return nil
	}
	return fmt.Errorf("the API server does not keep the field %s of the record: its definition of Members is of an earlier version. Run: kubectl apply --server-side -k deploy/crd", field)
}

// failed says why a step failed, with all that is known of it. Whoever finds that another one was faster looks again.
func failed(err error) error {
	var e *backend.StepError
	if errors.As(err, &e) {
		return &backend.StepError{Reason: e.Reason, Passing: e.Passing, Err: err}
	}
	busy := apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
	return &backend.StepError{Reason: v1alpha1.ReasonStepFailed, Passing: busy || isPassing(err), Err: err}
}
