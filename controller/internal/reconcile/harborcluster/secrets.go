package harborcluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/harborcluster/witness"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// check finds what is wrong with the spec: by itself, and with what it names.
func (r *Reconciler) check(ctx context.Context, s *scope) error {
	s.faults = append(s.faults, harbor.Check(s.cluster)...)
	secrets, err := harbor.Secrets(s.cluster)
	if err != nil {
		return err
	}
	for _, ref := range secrets {
		data, err := r.secret(ctx, s, ref.Name)
		if apierrors.IsForbidden(err) {
			state := failure(err)
			s.faults = append(s.faults, harbor.Fault{Part: ref.Part, Reason: state.Reason, Message: ref.Field + ": " + state.Message})
			s.again[ref.Part] = true
			continue
		}
		if err != nil {
			return err
		}
		if f := lacks(ref, data); f != nil {
			s.faults = append(s.faults, *f)
			s.again[ref.Part] = true
		}
	}
	for _, ref := range harbor.Classes(s.cluster) {
		err := r.Client.Get(ctx, types.NamespacedName{Name: ref.Name}, &storagev1.StorageClass{})
		if apierrors.IsNotFound(err) {
			s.faults = append(s.faults, ref.MissingClass())
		} else if err != nil {
			return fmt.Errorf("get storageclass %s: %w", ref.Name, err)
		}
	}
	return nil
}

// lacks returns the fault of a Secret that does not have what it should.
func lacks(ref harbor.Reference, data map[string]string) *harbor.Fault {
	if data == nil {
		f := ref.Missing("")
		return &f
	}
	for _, key := range ref.Keys {
		if data[key] == "" {
			f := ref.Missing(key)
			return &f
		}
	}
	return nil
}

// secret returns the content of a Secret; nil when it does not exist.
func (r *Reconciler) secret(ctx context.Context, s *scope, name string) (map[string]string, error) {
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: s.cluster.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get secret %s: %w", name, err)
	}
	data := map[string]string{}
	for k, v := range secret.Data {
		data[k] = string(v)
	}
	return data, nil
}

// generated returns the content of a Secret that is made once, with the given content, and kept from then on. One that somebody else made
// under its name is used as it is.
func (r *Reconciler) generated(ctx context.Context, s *scope, name string, fresh map[string]string) (map[string]string, harbor.State, error) {
	have, err := r.look(ctx, s, harbor.Secret(s.cluster, name, nil))
	if err != nil {
		return nil, harbor.State{}, err
	}
	data, err := r.secret(ctx, s, name)
	if err != nil {
		return nil, harbor.State{}, err
	}
	keep := map[string]string{}
	for key, value := range fresh {
		keep[key] = value
		if data != nil {
			keep[key] = data[key]
		}
		if keep[key] == "" {
			return nil, harbor.Failed(v1alpha1.ReasonHarborSecretMissing, fmt.Sprintf("The Secret %s has no key %q.", name, key)), nil
		}
	}
	if data != nil && have.obstacle.Status != "" {
		return keep, harbor.State{}, nil
	}
	got, err := r.ensure(ctx, s, harbor.Secret(s.cluster, name, keep), s.act())
	return keep, got.obstacle, err
}

// settle sees to it that the deletion policy decides about the data, and Kubernetes does not: data that has the HarborCluster as its owner, as earlier
// versions make it, is let go, a witness tells how the HarborCluster is deleted, and then the finalizer keeps it until the policy is carried out.
// Every pass looks anew, because an earlier version may have run in between.
func (r *Reconciler) settle(ctx context.Context, s *scope) error {
	err := r.disown(ctx, s)
	if err == nil {
		r.released.Store(s.cluster.UID, true)
		err = r.vouch(ctx, s)
	}
	if apierrors.IsForbidden(err) {
		// Without rights nothing is made either, and the parts tell of it.
		s.within(retry)
		return nil
	}
	if err != nil {
		return err
	}
	_, err = kube.AddFinalizer(ctx, r.Client, s.cluster, v1alpha1.FinalizerHarbor)
	return err
}

// vouch sees to it that there is a witness of how the HarborCluster is deleted, and that its UID is on record. The record is written only while the
// HarborCluster is as it was read, which was not being deleted: if the recorded witness has no owner later, Kubernetes took it off.
func (r *Reconciler) vouch(ctx context.Context, s *scope) error {
	uid, err := r.witnesses().Vouch(ctx, s.cluster)
	before := s.cluster.Status.Witness
	if err != nil || before == uid {
		return err
	}
	s.cluster.Status.Witness = uid
	_, err = kube.WriteStatus(ctx, r.Client, s.before, s.cluster)
	s.before = s.cluster.DeepCopy()
	if err != nil || before == "" {
		return err
	}
	return r.witnesses().Succeed(ctx, s.cluster, before)
}

func (r *Reconciler) witnesses() witness.Keeper {
	return witness.Keeper{Client: r.Client, Live: r.Live, Settled: r.Settled}
}
