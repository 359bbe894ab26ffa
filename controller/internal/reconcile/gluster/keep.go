package gluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/controller/internal/kube"
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
		if why := hindrance(err); kube.Denied(err) {
			s.etcd = lacking(c, err)
		} else if why != "" {
			s.etcd.Status, s.etcd.Reason, s.etcd.Message = metav1.ConditionFalse, v1alpha1.ReasonStepFailed, why
		}
		return err
	}
	if s.etcd.Status == metav1.ConditionTrue && c.Annotations[annotationEtcd] == "" {
		_, err := kube.Patch(ctx, r.Client, c, func(c *v1alpha1.GlusterCluster) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, annotationEtcd, "begun") })
		return err
	}
	return nil
}

// obstacle keeps something from being made until a person does what it says.
type obstacle string

func (o obstacle) Error() string { return string(o) }

func obstructed(format string, args ...any) error { return obstacle(fmt.Sprintf(format, args...)) }

// hindrance says why something cannot be made, if that does not pass by itself: an obstacle, or a verdict of the API server, as about a quota. It is empty otherwise.
func hindrance(err error) string {
	var own obstacle
	if all, is := err.(interface{ Unwrap() []error }); is {
		var told []string
		for _, one := range all.Unwrap() {
			if why := hindrance(one); why != "" {
				told = append(told, why)
			}
		}
		return strings.Join(told, " ")
	}
	switch {
	case errors.As(err, &own):
		return string(own)
	case err != nil && (apierrors.IsForbidden(err) || kube.Refused(err)):
		return "The API server refuses: " + err.Error() + "."
	}
	return ""
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

// etcdReady reports whether the members of etcd that run are a majority.
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
	unmade := r.secrets(ctx, s)
	errs := []error{unmade}
	for _, o := range workload.Shared(c) {
		errs = append(errs, r.apply(ctx, o))
	}
	if unmade != nil {
		// Nothing is started without what is in the Secrets.
		return errors.Join(errs...)
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
		return obstructed("The %s %s is somebody else's. It has to go, or what it is in the way of needs another name.", want.GetKind(), o.GetName())
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
