package harborcluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/decide/harbor/issuer"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// applier looks after one part and tells how it is.
type applier func(context.Context, *scope) (harbor.State, error)

// childKind is the kind of the child that runs a part.
var childKind = map[harbor.Part]schema.GroupVersionKind{
	harbor.Storage: harbor.TenantKind, harbor.Database: harbor.PostgresqlKind, harbor.Cache: harbor.RedisFailoverKind, harbor.Service: harbor.HarborKind,
}

// services looks after storage, database and cache at the same time. All are worked on to the end, whatever happens to the others.
func (r *Reconciler) services(ctx context.Context, s *scope) error {
	appliers := map[harbor.Part]applier{harbor.Storage: r.storage, harbor.Database: r.database, harbor.Cache: r.cache}
	var failures [harbor.Count]error
	var all sync.WaitGroup
	for p, apply := range appliers {
		all.Go(func() { failures[p] = r.part(ctx, s, p, apply) })
	}
	all.Wait()
	return errors.Join(failures[:]...)
}

// part looks after one part. A fault of its spec and an error become its state.
func (r *Reconciler) part(ctx context.Context, s *scope, p harbor.Part, apply applier) error {
	if f := s.fault(p); f != nil {
		s.states[p] = harbor.Failed(f.Reason, f.Message)
		return nil
	}
	state, err := apply(ctx, s)
	if err == nil {
		// What was read of the definition a moment ago is enough for a remark.
		if ignored := harbor.Ignored(s.cluster, p, r.definitions.schema(childKind[p])); ignored != "" {
			state.Message += " " + ignored
		}
		s.states[p] = state
		return nil
	}
	s.states[p] = failure(err)
	if apierrors.IsForbidden(err) {
		// Waiting for rights is no error to shout about; they are looked for again.
		s.again[p] = true
		return nil
	}
	return fmt.Errorf("%s: %w", p, err)
}

// configuration looks at the settings that Harbor's operator applies to a Harbor that runs. They are no part: nothing waits for them.
func (r *Reconciler) configuration(ctx context.Context, s *scope) error {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(harbor.ConfigurationKind)
	_, missing, err := r.installed(ctx, harbor.ConfigurationKind)
	if err == nil && missing.Status == "" {
		err = r.Live.List(ctx, l, client.InNamespace(s.cluster.Namespace))
	}
	if err != nil {
		s.configuration = harbor.Pending(v1alpha1.ReasonHarborNotSeen, "The HarborConfigurations could not be read: "+err.Error())
		s.within(retry)
		if apierrors.IsForbidden(err) {
			return nil
		}
		return fmt.Errorf("look at harborconfigurations: %w", err)
	}
	s.configuration = harbor.ConfigurationState(s.cluster, l.Items)
	return nil
}

// certificates looks at what signs Harbor's certificates. It is no part: a Harbor that has its certificates runs on without.
func (r *Reconciler) certificates(ctx context.Context, s *scope) error {
	var err error
	s.certificates, err = r.issuer(ctx, s)
	if err != nil {
		s.certificates = harbor.Pending(v1alpha1.ReasonHarborNotSeen, "What signs Harbor's certificates could not be looked at: "+err.Error())
	}
	if !s.certificates.Ready() {
		// Issuers are not watched: the right to read one is all that is needed.
		s.within(retry)
	}
	if apierrors.IsForbidden(err) {
		s.certificates.Reason = v1alpha1.ReasonAccessDenied
		return nil
	}
	return err
}

// issuer returns the state of the issuer that the spec names.
func (r *Reconciler) issuer(ctx context.Context, s *scope) (harbor.State, error) {
	ref, fault := issuer.Of(s.cluster)
	if fault.Status != "" {
		return fault, nil
	}
	var missing []string
	for _, name := range ref.Definitions() {
		err := r.Client.Get(ctx, types.NamespacedName{Name: name}, kube.Definition())
		if client.IgnoreNotFound(err) != nil {
			return harbor.State{}, fmt.Errorf("get customresourcedefinition %s: %w", name, err)
		}
		if err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return issuer.NotInstalled(missing), nil
	}
	o := ref.Object(s.cluster.Namespace)
	if ref.Foreign() {
		return ref.State(o), nil
	}
	switch err := r.Live.Get(ctx, client.ObjectKeyFromObject(o), o); {
	case meta.IsNoMatchError(err):
		return issuer.NotInstalled(ref.Definitions()[1:]), nil
	case apierrors.IsNotFound(err):
		return ref.Absent(), nil
	case err != nil:
		return harbor.State{}, fmt.Errorf("get %s: %w", ref, err)
	}
	return ref.State(o), nil
}

// failure is the state of a part that could not be looked after.
func failure(err error) harbor.State {
	switch {
	case kube.Denied(err):
		return harbor.Failed(v1alpha1.ReasonAccessDenied,
			"The API server forbids it. The controller needs the ClusterRole quarry-harbor in this namespace, see docs/harborcluster.md: "+err.Error())
	case meta.IsNoMatchError(err):
		return harbor.Failed(v1alpha1.ReasonHarborOperatorMissing, "The kind is not served: "+err.Error())
	}
	return harbor.Failed(v1alpha1.ReasonHarborApplyFailed, err.Error())
}

// service looks after Harbor itself. It is written only while all of its services are ready, and looked at always.
func (r *Reconciler) service(ctx context.Context, s *scope) (harbor.State, error) {
	want, err := harbor.Harbor(s.cluster, s.to)
	if err != nil {
		return harbor.State{}, err
	}
	got, err := r.ensure(ctx, s, want, s.serve)
	switch {
	case err != nil:
		return harbor.State{}, err
	case got.object != nil:
		state := harbor.ServiceState(got.object, s.cluster.Spec.StrictReadiness)
		if !state.Ready() && s.certificates.Status == metav1.ConditionFalse {
			state.Message += " " + s.certificates.Message
		}
		return state, nil
	case got.obstacle.Reason == v1alpha1.ReasonHarborWaiting:
		return harbor.Pending(v1alpha1.ReasonHarborWaiting, "Harbor is made once storage, database and cache are ready."), nil
	}
	return got.obstacle, nil
}
