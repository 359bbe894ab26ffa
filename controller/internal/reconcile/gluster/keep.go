package gluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/pki"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// keep sees to what all nodes of a cluster have in common: Secrets, Services, and etcd. The condition of etcd is made here.
func (r *Reconciler) keep(ctx context.Context, s *scope) error {
	c := s.cluster
	if c == nil {
		return nil
	}
	s.etcd = s.etcdReady()
	if s.spec.Status != metav1.ConditionTrue || !c.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := r.makeCommon(ctx, s); err != nil {
		if kube.Denied(err) {
			s.etcd = lacking(c, err)
		}
		return err
	}
	if s.etcd.Status == metav1.ConditionTrue && c.Annotations[annotationEtcd] == "" {
		_, err := kube.Patch(ctx, r.Client, c, func(c *v1alpha1.GlusterCluster) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, annotationEtcd, "begun") })
		return err
	}
	return nil
}

// lacking is the condition of etcd while a right is missing.
func lacking(c *v1alpha1.GlusterCluster, err error) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionEtcdReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAccessDenied, ObservedGeneration: c.Generation,
		Message: fmt.Sprintf("Quarry lacks a right in namespace %s: bind the ClusterRole quarry-gluster there, as docs/gluster.md says. %v", c.Namespace, err),
	}
}

// annotationEtcd is on a GlusterCluster once its etcd had a quorum: from then on it may hold what glusterd2 knows of the pool, and no claim of it is made again.
const annotationEtcd = v1alpha1.Group + "/gluster-etcd"

// begun reports whether etcd may hold what glusterd2 knows of the pool.
func (s *scope) begun() bool {
	if s.cluster == nil || s.cluster.Annotations[annotationEtcd] != "" {
		return true
	}
	for _, m := range s.members {
		if m.ours() && (m.node.Status.Joined || s.workloads[m.node.Name] != nil || s.claims[workload.StateClaim(m.node.Name)] != nil) {
			return true
		}
	}
	return false
}

// etcdReady tells whether the members of etcd that run are a majority.
func (s *scope) etcdReady() metav1.Condition {
	ready, missing := 0, ""
	for i := range workload.Members {
		name := workload.Member(s.cluster.Name, i)
		if podReady(s.pods[workload.Pod(name)]) {
			ready++
		}
		if s.claims[name] == nil {
			missing = name
		}
	}
	c := metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: fmt.Sprintf("%d of %d members of etcd are ready.", ready, workload.Members)}
	switch {
	case missing != "" && s.begun() && ready <= workload.Members/2:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonStepFailed
		c.Message += fmt.Sprintf(" The claim %s is gone. It is not made again: a member that comes back empty has forgotten what it agreed to. Restore the claim.", missing)
	case missing != "" && s.begun():
		c.Message += fmt.Sprintf(" The claim %s is gone, and is not made again. Replace the member by hand before another one is lost.", missing)
	case ready <= workload.Members/2:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonPending
	}
	return c
}

func podReady(p *corev1.Pod) bool {
	if p == nil || !p.DeletionTimestamp.IsZero() {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// makeCommon makes what all have in common.
func (r *Reconciler) makeCommon(ctx context.Context, s *scope) error {
	c := s.cluster
	if err := r.secrets(ctx, s); err != nil {
		return err
	}
	var errs []error
	for _, o := range workload.Shared(c) {
		errs = append(errs, r.apply(ctx, o))
	}
	begun := s.begun()
	for i := range workload.Members {
		if s.claims[workload.Member(c.Name, i)] == nil && !begun {
			errs = append(errs, r.make(ctx, workload.MemberClaim(c, i)))
		}
		errs = append(errs, r.apply(ctx, workload.EtcdMember(c, i)))
	}
	return errors.Join(errs...)
}

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
				return fmt.Errorf("the Secret %s is gone, and the servers have the secret that was in it: make it again with the content of the file auth in the state of a server", workload.Auth(c.Name))
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

// ownAuthority makes the authority of etcd, and the certificate that its members and the servers have.
func (r *Reconciler) ownAuthority(ctx context.Context, s *scope) error {
	c := s.cluster
	have, err := r.secret(ctx, s, workload.EtcdTLS(c.Name))
	if err != nil {
		return err
	}
	if have != nil {
		if ca, err := pki.GivenCA(have.Data[workload.KeyCA], have.Data[workload.KeyCAKey]); err == nil && pairOf(have).Serves(ca, workload.EtcdNames(c), s.now) {
			return nil
		}
	}
	authority, err := pki.NewAuthority(s.now)
	if err != nil {
		return err
	}
	own, key, err := authority.Current.Encode()
	if err != nil {
		return err
	}
	p, err := authority.Current.SignPair(workload.EtcdNames(c), s.now)
	if err != nil {
		return err
	}
	return r.put(ctx, c, have, workload.EtcdTLS(c.Name), map[string][]byte{
		workload.KeyCA: own, workload.KeyCAKey: key, workload.KeyCertificate: p.Certificate, workload.KeyPrivate: p.Key,
	})
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
		return nil, fmt.Errorf("secret %s is not of GlusterCluster %s: it has to go, or the GlusterCluster needs another name", name, s.key.Name)
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

// make makes an object that is never changed. One that is there already stays.
func (r *Reconciler) make(ctx context.Context, o client.Object) error {
	if err := r.Client.Create(ctx, o, kube.FieldOwner); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s %s: %w", o.GetObjectKind().GroupVersionKind().Kind, o.GetName(), err)
	}
	return nil
}

// apply brings an object to what is wanted. One of that name that is somebody else's is left alone.
func (r *Reconciler) apply(ctx context.Context, o client.Object) error {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Errorf("convert %T %s: %w", o, o.GetName(), err)
	}
	want := &unstructured.Unstructured{Object: raw}
	unstructured.RemoveNestedField(want.Object, "status")
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(want.GroupVersionKind())
	switch err := r.Live.Get(ctx, client.ObjectKeyFromObject(o), have); {
	case apierrors.IsNotFound(err):
		have = nil
	case err != nil:
		return fmt.Errorf("get %s %s: %w", want.GetKind(), o.GetName(), err)
	case !workload.Ours(have, want):
		return fmt.Errorf("%s %s is somebody else's: it has to go, or what it is in the way of needs another name", want.GetKind(), o.GetName())
	}
	text, err := json.Marshal(want.Object)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", want.GetKind(), o.GetName(), err)
	}
	key := want.GetKind() + " " + want.GetNamespace() + "/" + want.GetName()
	mark := func(o *unstructured.Unstructured) string {
		return fmt.Sprintf("%s %s %x", o.GetUID(), o.GetResourceVersion(), sha256.Sum256(text))
	}
	if last, ok := r.applied.Load(key); ok && have != nil && last == mark(have) {
		// It is as it was left, and the same is wanted as then.
		return nil
	}
	if err := kube.ApplyChild(ctx, r.Client, want, have); err != nil {
		return err
	}
	r.applied.Store(key, mark(want))
	return nil
}
