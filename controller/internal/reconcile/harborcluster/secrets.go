package harborcluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// check finds what is wrong with the spec: by itself, and with what it names.
func (r *Reconciler) check(ctx context.Context, s *scope) error {
	s.faults = harbor.Check(s.cluster)
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
