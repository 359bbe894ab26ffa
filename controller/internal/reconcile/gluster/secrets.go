package gluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/pki"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// secrets makes the Secrets of the servers and of etcd. The one that the servers share is made once: a second one would lock us out of servers that have the first.
func (r *Reconciler) secrets(ctx context.Context, s *scope) error {
	c := s.cluster
	auth, err := r.secret(ctx, s, workload.Auth(c.Name))
	if err != nil {
		return err
	}
	if auth == nil {
		for _, m := range s.members {
			if m.node.Status.Joined || s.workloads[m.node.Name] != nil {
				return obstructed("The Secret %s is gone, and the servers have the secret that was in it. Make it again with the content of the file auth in the state of a server.", workload.Auth(c.Name))
			}
		}
		if err := r.make(ctx, workload.Secret(c, workload.Auth(c.Name), map[string][]byte{workload.KeyAuth: []byte(r.Secret())})); err != nil {
			return err
		}
	}
	if err := r.certificates(ctx, s); err != nil {
		return err
	}
	return r.ownAuthority(ctx, s)
}

// ownAuthority makes the authority of etcd, and the certificate that its members and the servers have. Another authority is made only while no member runs: members
// of two do not talk to each other, and each reads it when it starts.
func (r *Reconciler) ownAuthority(ctx context.Context, s *scope) error {
	c := s.cluster
	have, err := r.secret(ctx, s, workload.EtcdTLS(c.Name))
	if err != nil {
		return err
	}
	ca, usable := authorityIn(have, s.now)
	switch {
	case usable && pairOf(have).Serves(ca, workload.EtcdNames(c), s.now):
		return nil
	case !usable && s.etcdRuns() && s.begun():
		return obstructed("The Secret %s is gone or has no authority that can be used, and the members of etcd run with the one that was in it. Restore the Secret. "+
			"If nobody has it any more, delete the StatefulSets %s together: their claims stay, and Quarry makes another authority and starts them. Then delete the pods of the servers, one at a time.",
			workload.EtcdTLS(c.Name), strings.Join(s.etcdMembers(), ", "))
	case !usable:
		authority, err := pki.NewAuthority(s.now)
		if err != nil {
			return err
		}
		ca = authority.Current
	}
	own, key, err := ca.Encode()
	if err != nil {
		return err
	}
	p, err := ca.SignPair(workload.EtcdNames(c), s.now)
	if err != nil {
		return err
	}
	return r.put(ctx, c, have, workload.EtcdTLS(c.Name), map[string][]byte{
		workload.KeyCA: own, workload.KeyCAKey: key, workload.KeyCertificate: p.Certificate, workload.KeyPrivate: p.Key,
	})
}

// authorityIn is the authority in a Secret, and whether it can be used.
func authorityIn(o *corev1.Secret, now time.Time) (pki.CA, bool) {
	if o == nil {
		return pki.CA{}, false
	}
	ca, err := pki.GivenCA(o.Data[workload.KeyCA], o.Data[workload.KeyCAKey])
	return ca, err == nil && now.Before(ca.Certificate.NotAfter)
}

// certificates makes the certificate of the servers from the authority of the spec, if there is one.
func (r *Reconciler) certificates(ctx context.Context, s *scope) error {
	c := s.cluster
	if c.Spec.GlusterCA == nil {
		return nil
	}
	given := &corev1.Secret{}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: string(c.Spec.GlusterCA.SecretName)}, given); err != nil {
		return fmt.Errorf("get secret %s: %w", c.Spec.GlusterCA.SecretName, err)
	}
	ca, err := pki.GivenCA(given.Data[workload.KeyCertificate], given.Data[workload.KeyPrivate])
	if err != nil {
		s.spec.Status, s.spec.Reason, s.spec.Message = metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec, fmt.Sprintf("The Secret %s of glusterCA cannot be used: %v.", given.Name, err)
		return nil
	}
	have, err := r.secret(ctx, s, workload.TLS(c.Name))
	if err != nil {
		return err
	}
	if have != nil && pairOf(have).Serves(ca, workload.Names(c), s.now) {
		return nil
	}
	p, err := ca.SignPair(workload.Names(c), s.now)
	if err != nil {
		return err
	}
	return r.put(ctx, c, have, workload.TLS(c.Name), map[string][]byte{
		workload.KeyCA: p.CA, workload.KeyCertificate: p.Certificate, workload.KeyPrivate: p.Key,
	})
}

func pairOf(s *corev1.Secret) pki.Pair {
	return pki.Pair{Certificate: s.Data[workload.KeyCertificate], Key: s.Data[workload.KeyPrivate], CA: s.Data[workload.KeyCA]}
}

// secret reads a Secret of ours; nil if there is none. One that is somebody else's is an error.
func (r *Reconciler) secret(ctx context.Context, s *scope, name string) (*corev1.Secret, error) {
	o := &corev1.Secret{}
	switch err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.key.Namespace, Name: name}, o); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get secret %s: %w", name, err)
	case o.Labels[v1alpha1.LabelGlusterCluster] != s.key.Name:
		return nil, obstructed("The Secret %s is not of GlusterCluster %s. It has to go, or the GlusterCluster needs another name.", name, s.key.Name)
	}
	return o, nil
}

// put writes a Secret that may be there.
func (r *Reconciler) put(ctx context.Context, c *v1alpha1.GlusterCluster, have *corev1.Secret, name string, data map[string][]byte) error {
	if have == nil {
		return r.make(ctx, workload.Secret(c, name, data))
	}
	_, err := kube.Patch(ctx, r.Client, have, func(o *corev1.Secret) { o.Data = data })
	return err
}
