package harborcluster

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/operatortest"
)

func issuerKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: kind}
}

// issuer makes an issuer of which cert-manager says this; nothing while that is empty.
func (s *suite) issuer(kind, name string, ready string) *unstructured.Unstructured {
	s.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"selfSigned": map[string]any{}}}}
	o.SetGroupVersionKind(issuerKind(kind))
	o.SetName(name)
	if kind == "Issuer" {
		o.SetNamespace(s.namespace)
	}
	must(s.t, s.client.Create(s.t.Context(), o))
	s.t.Cleanup(func() { _ = s.client.Delete(context.Background(), o) })
	s.judge(o, ready)
	return o
}

// judge lets cert-manager say whether an issuer is ready.
func (s *suite) judge(o *unstructured.Unstructured, ready string) {
	s.t.Helper()
	if ready == "" {
		return
	}
	must(s.t, unstructured.SetNestedSlice(o.Object, []any{map[string]any{
		"type": "Ready", "status": ready, "reason": "R", "message": "the words of cert-manager", "observedGeneration": o.GetGeneration(),
	}}, "status", "conditions"))
	must(s.t, s.client.Status().Update(s.t.Context(), o))
}

// certificates checks the condition.
func (s *suite) certificates(status metav1.ConditionStatus, reason, says string) {
	s.t.Helper()
	s.reconcile()
	s.expect(s.get().Status.Status, v1alpha1.ConditionCertificatesReady, status, reason, says)
}

func named(name, kind string) func(*v1alpha1.HarborCluster) {
	return func(c *v1alpha1.HarborCluster) {
		c.Spec.Core = *raw(`{"tokenIssuer":{"kind":"` + kind + `","name":"` + name + `"}}`)
	}
}

// TestReconcile_issuer: what has to be there before Harbor's operator can work is looked at, on the published definitions.
func TestReconcile_issuer(t *testing.T) {
	s := newSuite(t)
	s.add(named("later", "Issuer"))
	s.certificates(metav1.ConditionFalse, v1alpha1.ReasonHarborIssuerMissing, "There is no Issuer later in this namespace")
	if result, err := s.try(); err != nil || result.RequeueAfter > retry {
		t.Errorf("it is looked again after %s: %v", result.RequeueAfter, err)
	}
	o := s.issuer("Issuer", "later", "")
	s.certificates(metav1.ConditionUnknown, v1alpha1.ReasonHarborStarting, "cert-manager has not looked at the Issuer later yet")
	s.judge(o, "False")
	s.certificates(metav1.ConditionFalse, v1alpha1.ReasonHarborIssuerNotReady, "The Issuer later is not ready: the words of cert-manager.")
	s.judge(o, "True")
	s.certificates(metav1.ConditionTrue, v1alpha1.ReasonHarborRunning, "The Issuer later is ready.")
	must(t, unstructured.SetNestedField(o.Object, map[string]any{"secretName": "ca"}, "spec", "ca"))
	unstructured.RemoveNestedField(o.Object, "spec", "selfSigned")
	must(t, s.client.Update(t.Context(), o))
	s.certificates(metav1.ConditionUnknown, v1alpha1.ReasonHarborStarting, "since it was changed")

	everywhere := "everywhere-" + s.namespace
	s.edit(named(everywhere, "ClusterIssuer"))
	s.certificates(metav1.ConditionFalse, v1alpha1.ReasonHarborIssuerMissing, "There is no ClusterIssuer "+everywhere+", which")
	s.issuer("ClusterIssuer", everywhere, "True")
	s.certificates(metav1.ConditionTrue, v1alpha1.ReasonHarborRunning, "is ready")
}

// TestReconcile_certManagerMissing: what is missing is named, where a person looks first too, and a Harbor that runs is as healthy as before.
func TestReconcile_certManagerMissing(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	all := operatortest.CertManager(t)
	for _, d := range all {
		operatortest.Remove(t, s.client.WithWatch, d)
		s.client.await(d.CRD.GetName(), "")
	}
	s.certificates(metav1.ConditionFalse, v1alpha1.ReasonHarborCertManagerMissing, "certificates.cert-manager.io, issuers.cert-manager.io with version v1")
	s.expect(v1alpha1.HarborHealthy, "Ready", metav1.ConditionTrue, v1alpha1.ReasonHarborHealthy, "")
	s.operators.setHarbor("True", "False", "waiting for core")
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "ServiceReady", metav1.ConditionUnknown, v1alpha1.ReasonHarborStarting, "install it, see https://cert-manager.io")
	s.client.install(all...)
	s.certificates(metav1.ConditionFalse, v1alpha1.ReasonHarborIssuerMissing, "There is no Issuer i")
}

// TestReconcile_issuerThatCannotBeRead: unknown is not absent, and missing rights keep nothing else from being looked after.
func TestReconcile_issuerThatCannotBeRead(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	var fails error
	s.intercept(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if o.GetObjectKind().GroupVersionKind().Group == "cert-manager.io" {
			return fails
		}
		return c.Get(ctx, key, o, options...)
	}})
	fails = apierrors.NewForbidden(schema.GroupResource{Group: "cert-manager.io", Resource: "issuers"}, "i", errors.New("no"))
	s.certificates(metav1.ConditionUnknown, v1alpha1.ReasonAccessDenied, "could not be looked at")
	s.expect(v1alpha1.HarborHealthy, "Ready", metav1.ConditionTrue, v1alpha1.ReasonHarborHealthy, "")
	fails = errors.New("the wire is cut")
	if _, err := s.try(); err == nil {
		t.Error("a failing look is not tried again")
	}
	if c := meta.FindStatusCondition(s.get().Status.Conditions, v1alpha1.ConditionCertificatesReady); c.Status != metav1.ConditionUnknown || c.Reason != v1alpha1.ReasonHarborNotSeen {
		t.Errorf("%+v", c)
	}
}
