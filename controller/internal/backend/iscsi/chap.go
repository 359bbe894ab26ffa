package iscsi

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// +kubebuilder:rbac:groups="",namespace=quarry-system,resources=secrets,verbs=get
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=quarry-system,resources=leases,verbs=get;update;delete

// Keys of the Secret with the credentials of an Iscsi.
const (
	keyUsername       = "username"
	keyPassword       = "password"
	keyMutualUsername = "mutualUsername"
	keyMutualPassword = "mutualPassword"
)

// chapOf tells of the credentials, which are read again every now and then.
func (b *Backend) chapOf(ctx context.Context, i *v1alpha1.Iscsi) (iscsi.Chap, error) {
	if !i.Spec.Chap {
		return iscsi.Chap{Version: iscsi.NoChap}, nil
	}
	now := b.Now()
	b.memory.mu.Lock()
	l := b.memory.lun(i.UID)
	last, at, of := l.chap, l.chapAt, l.chapOf
	b.memory.mu.Unlock()
	if of == i.Generation && last.Problem == "" && now.Sub(at) < iscsi.Every && !now.Before(at) {
		return last, nil
	}
	_, chap, err := b.credentials(ctx, i)
	if err != nil {
		return chap, err
	}
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	l.chap, l.chapAt, l.chapOf = chap, now, i.Generation
	return chap, nil
}

// credentials reads the Secret of an Iscsi. No error and no problem has anything of what is in it.
func (b *Backend) credentials(ctx context.Context, i *v1alpha1.Iscsi) (*sharedlun.Chap, iscsi.Chap, error) {
	if !i.Spec.Chap {
		return nil, iscsi.Chap{Version: iscsi.NoChap}, nil
	}
	name := i.Name + v1alpha1.ChapSecretSuffix
	var s corev1.Secret
	err := b.Live.Get(ctx, types.NamespacedName{Namespace: b.Namespace, Name: name}, &s)
	if apierrors.IsNotFound(err) {
		return nil, iscsi.Chap{Problem: fmt.Sprintf(
			"spec.chap is set, and there is no Secret %s in namespace %s: make it, with the keys %s and %s.", name, b.Namespace, keyUsername, keyPassword)}, nil
	}
	if err != nil {
		return nil, iscsi.Chap{}, fmt.Errorf("get secret %s/%s: %w", b.Namespace, name, err)
	}
	value := func(key string) string { return strings.TrimRight(string(s.Data[key]), "\r\n") }
	c := &sharedlun.Chap{
		Username: value(keyUsername), Password: value(keyPassword), MutualUsername: value(keyMutualUsername), MutualPassword: value(keyMutualPassword),
	}
	if err := c.Check(); err != nil {
		return nil, iscsi.Chap{Problem: fmt.Sprintf("The Secret %s in namespace %s cannot be used: %v.", name, b.Namespace, err)}, nil
	}
	return c, iscsi.Chap{Version: string(s.UID) + "/" + s.ResourceVersion}, nil
}
