package san

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// LeasePrefix is how the Leases of shared groups are called; the UID of the Iscsi follows.
const LeasePrefix = "iscsi-"

// Annotations of a Lease, beside its holder, which is the process that has the turn.
const (
	annotationEpoch    = v1alpha1.Group + "/epoch"
	annotationWriter   = v1alpha1.Group + "/writer"
	annotationPending  = v1alpha1.Group + "/pending"
	annotationSequence = v1alpha1.Group + "/sequence"
	annotationGroup    = v1alpha1.Group + "/volume-group"
)

// KubernetesLeases keeps the records in Leases. Client asks the API server itself: a record out of a cache is worth nothing.
type KubernetesLeases struct {
	Client    client.Client
	Namespace string
	// Now returns the time, for whoever looks at a Lease, and so that each write makes another version, whatever the record says. Nothing is decided by it.
	Now func() time.Time
}

// Load reads a record. One that cannot be understood is an error, and no record.
func (k KubernetesLeases) Load(ctx context.Context, ownerUID string) (writer.Record, string, error) {
	var l coordinationv1.Lease
	err := k.Client.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: LeasePrefix + ownerUID}, &l)
	if apierrors.IsNotFound(err) {
		return writer.Record{}, "", nil
	}
	if err != nil {
		return writer.Record{}, "", fmt.Errorf("read lease %s%s: %w", LeasePrefix, ownerUID, err)
	}
	epoch, err := strconv.ParseUint(l.Annotations[annotationEpoch], 10, 64)
	if err != nil {
		return writer.Record{}, "", fmt.Errorf(
			"lease %s/%s has no epoch that can be read (%w): delete it, and a new one is made once every initiator answers", k.Namespace, l.Name, err)
	}
	r := writer.Record{Epoch: epoch, Writer: l.Annotations[annotationWriter]}
	r.Noted.Group = l.Annotations[annotationGroup]
	// One that an earlier version wrote has none.
	if text := l.Annotations[annotationSequence]; text != "" {
		if r.Noted.Sequence, err = strconv.ParseUint(text, 10, 64); err != nil {
			return writer.Record{}, "", fmt.Errorf(
				"lease %s/%s has no sequence number that can be read (%w): delete it, and a new one is made once every initiator answers", k.Namespace, l.Name, err)
		}
	}
	if l.Spec.HolderIdentity != nil {
		r.Taken = *l.Spec.HolderIdentity
	}
	if p := l.Annotations[annotationPending]; p != "" {
		r.Pending = strings.Split(p, ",")
	}
	return r, versionOf(&l), nil
}

// versionOf tells one state of one Lease from all others. The API server makes a Lease that is updated and does not exist, unless the update
// names a UID.
func versionOf(l *coordinationv1.Lease) string { return string(l.UID) + "/" + l.ResourceVersion }

// Store writes a record over the version that was read; without a version it makes the Lease.
func (k KubernetesLeases) Store(ctx context.Context, ownerUID string, r writer.Record, version string) (string, error) {
	now := metav1.NewMicroTime(k.Now())
	uid, resourceVersion, _ := strings.Cut(version, "/")
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: k.Namespace, Name: LeasePrefix + ownerUID, UID: types.UID(uid), ResourceVersion: resourceVersion,
			Annotations: map[string]string{
				annotationEpoch: strconv.FormatUint(r.Epoch, 10), annotationWriter: r.Writer, annotationPending: strings.Join(r.Pending, ","),
				annotationSequence: strconv.FormatUint(r.Noted.Sequence, 10), annotationGroup: r.Noted.Group,
			},
		},
		Spec: coordinationv1.LeaseSpec{RenewTime: &now},
	}
	if r.Taken != "" {
		l.Spec.HolderIdentity = &r.Taken
	}
	var err error
	if version == "" {
		err = k.Client.Create(ctx, l)
	} else {
		err = k.Client.Update(ctx, l)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || version != "" && apierrors.IsNotFound(err) {
		return "", ErrConflict
	}
	if err != nil {
		return "", fmt.Errorf("write lease %s/%s: %w", k.Namespace, l.Name, err)
	}
	if now := versionOf(l); now != version {
		return now, nil
	}
	// The API server takes a write for none that changes nothing. A late write over that version could still arrive, and the caller counts on the opposite.
	return "", fmt.Errorf("write lease %s/%s: it is what it was before: does the clock of this machine stand still?", k.Namespace, l.Name)
}
