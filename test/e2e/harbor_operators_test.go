//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/test/operatortest"
)

const (
	// operatorNamespace is where the operators of HarborCluster's children run.
	operatorNamespace = "harbor-operators"
	// harborStandIn is the image of what runs in the pods that the operators make.
	harborStandIn = "quarry.storage/harbor-stand-in:1"
	// limitBuild is how long it may take to build one operator from its module, which is done once.
	limitBuild = 15 * time.Minute
	// limitOperator is how long an operator may take to see what there is to do, and to do it.
	limitOperator = 3 * time.Minute
)

// loadImage builds an image and puts it on the nodes.
func loadImage(t *testing.T, dockerfile, tag, dir string, args ...string) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	build := []string{"image", "build", "-f", filepath.Join(repoRoot(), "test", "harbor", dockerfile), "-t", tag, "--context", dir, "-o", archive}
	for _, a := range args {
		build = append(build, "--build-arg", a)
	}
	lab(t, build...)
	lab(t, "load", archive)
}

// loadOperator builds an operator from its module, and its image, and returns the name of that.
func loadOperator(t *testing.T, name string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limitBuild)
	defer cancel()
	started := time.Now()
	out, err := exec.CommandContext(ctx, filepath.Join(repoRoot(), "test", "operators", "build"), name).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w\n%s", err, failed.Stderr)
		}
		t.Fatalf("build the operator %s: %v", name, err)
	}
	program := strings.Fields(string(out))[1]
	tag := "quarry.storage/operator-" + name + ":1"
	loadImage(t, "Dockerfile.operator", tag, filepath.Dir(program), "PROGRAM="+filepath.Base(program))
	t.Logf("operator %s is built and loaded after %.0f s", name, time.Since(started).Seconds())
	return tag
}

// applyAs applies an object for the test.
func applyAs(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	err := kube.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner("e2e"), client.ForceOwnership)
	if err != nil {
		t.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

// install installs an operator, or another release of it over the one that is there, and waits until it runs.
func (h *harborJourney) install(t *testing.T, o operatortest.Operator) {
	t.Helper()
	o.Place(t, operatorNamespace, h.images[o.Program])
	for _, object := range o.Objects {
		h.adapt(t, object)
		applyAs(t, object)
		h.installed = append(h.installed, object)
	}
	for _, object := range o.Objects {
		if object.GetKind() == "Deployment" {
			waitDeployment(t, object.GetName())
		}
	}
}

// adapt sets an operator up for the lab: nothing of PostgreSQL runs in its pods, so its operator does not connect to it; and only Harbor's own kinds are
// looked after by Harbor's operator.
func (h *harborJourney) adapt(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	set := func(value any, path ...string) {
		if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case o.GetKind() == "ConfigMap" && o.GetName() == "postgres-operator":
		for key, value := range map[string]string{
			"docker_image": harborStandIn, "enable_database_access": "false", "enable_lazy_spilo_upgrade": "true", "pod_terminate_grace_period": "1s",
			"resync_period": "1m", "repair_period": "1m",
		} {
			set(value, "data", key)
		}
	case o.GetKind() == "Deployment" && o.GetName() == "harbor-operator":
		containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if err != nil {
			t.Fatal(err)
		}
		c := containers[0].(map[string]any)
		c["env"] = append(c["env"].([]any), map[string]any{"name": "HARBORCLUSTER_CONTROLLER_DISABLED", "value": "true"})
		set(containers, "spec", "template", "spec", "containers")
	}
}

func waitDeployment(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			out, err := tryLab("kubectl", "-n", operatorNamespace, "logs", "deployment/"+name, "--tail=80")
			t.Log(name, out, err)
		}
	})
	lab(t, "kubectl", "-n", operatorNamespace, "rollout", "status", "deployment/"+name, "--timeout="+limitOperator.String())
}

// issue makes the certificate that is given to everybody.
func (h *harborJourney) issue(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"webhook-service"}, NotAfter: time.Now().Add(24 * time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	h.certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	h.key = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})
}

// certManager stands in for cert-manager: its kinds, and the certificate that Harbor's operator serves its webhooks with. Nobody calls them.
func (h *harborJourney) certManager(t *testing.T) {
	t.Helper()
	h.issue(t)
	for kind, resource := range map[string]string{"Certificate": "certificates", "Issuer": "issuers", "ClusterIssuer": "clusterissuers"} {
		crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"group": "cert-manager.io", "scope": "Namespaced",
			"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": resource, "singular": strings.ToLower(kind)},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		}}}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		crd.SetName(resource + ".cert-manager.io")
		applyAs(t, crd)
		h.installed = append(h.installed, crd)
	}
	createObject(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "webhook-server-cert"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: h.certificate, corev1.TLSPrivateKeyKey: h.key},
	})
}

// play does, until the test ends, what is done by those that do not run here: Patroni makes the first pod of PostgreSQL its master, MinIO's operator
// follows the states that it was seen to go through, and cert-manager issues certificates.
func (h *harborJourney) play(ctx context.Context) {
	for ctx.Err() == nil {
		err := errors.Join(h.playPatroni(ctx), h.playMinIO(ctx), h.playCertManager(ctx))
		h.played.Store(&err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (h *harborJourney) playPatroni(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := kube.List(ctx, pods, client.InNamespace(harborNamespace), client.MatchingLabels{"application": "spilo"}); err != nil {
		return err
	}
	var failed []error
	for _, p := range pods.Items {
		if p.DeletionTimestamp != nil || p.Status.PodIP == "" || !strings.HasSuffix(p.Name, "-0") {
			continue
		}
		set := &appsv1.StatefulSet{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: harborNamespace, Name: strings.TrimSuffix(p.Name, "-0")}, set); apierrors.IsNotFound(err) {
			// v1.15.0 was seen to remove the StatefulSet and to leave the pod, which holds the volume: a person has to remove it.
			failed = append(failed, client.IgnoreNotFound(kube.Delete(ctx, &p)))
			continue
		}
		if p.Labels["spilo-role"] != "master" {
			patch := client.MergeFrom(p.DeepCopy())
			p.Labels["spilo-role"] = "master"
			failed = append(failed, kube.Patch(ctx, &p, patch))
		}
		//nolint:staticcheck // Patroni of that operator keeps its leader in Endpoints.
		e := &corev1.Endpoints{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: harborNamespace, Name: strings.TrimSuffix(p.Name, "-0")}, e); err != nil {
			failed = append(failed, client.IgnoreNotFound(err))
			continue
		}
		//nolint:staticcheck // As above.
		want := []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: p.Status.PodIP}}, Ports: []corev1.EndpointPort{{Name: "postgresql", Port: 5432}}}}
		if len(e.Subsets) != 1 || len(e.Subsets[0].Addresses) != 1 || e.Subsets[0].Addresses[0].IP != p.Status.PodIP {
			e.Subsets = want
			failed = append(failed, kube.Update(ctx, e))
		}
	}
	return errors.Join(failed...)
}

func (h *harborJourney) playMinIO(ctx context.Context) error {
	tenants := &unstructured.UnstructuredList{}
	tenants.SetGroupVersionKind(schema.GroupVersionKind{Group: "minio.min.io", Version: "v2", Kind: "Tenant"})
	if err := kube.List(ctx, tenants, client.InNamespace(harborNamespace)); err != nil {
		return notServed(err)
	}
	for _, o := range tenants.Items {
		state, _, _ := unstructured.NestedString(o.Object, "status", "currentState")
		status := map[string]any{"availableReplicas": int64(0), "certificates": map[string]any{}, "revision": int64(0), "syncVersion": "", "pools": []any{
			map[string]any{"ssName": o.GetName() + "-zone-harbor", "state": "PoolCreated"},
		}}
		switch state {
		case "":
			status["currentState"] = "Provisioning MinIO Statefulset"
		case "Provisioning MinIO Statefulset":
			status["currentState"], status["availableReplicas"] = "Initialized", int64(4)
			status["pools"].([]any)[0].(map[string]any)["state"] = "PoolInitialized"
		default:
			continue
		}
		o.Object["status"] = status
		if err := kube.Status().Update(ctx, &o); err != nil {
			return err
		}
	}
	return nil
}

func (h *harborJourney) playCertManager(ctx context.Context) error {
	certificates := &unstructured.UnstructuredList{}
	certificates.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"})
	if err := kube.List(ctx, certificates, client.InNamespace(harborNamespace)); err != nil {
		return notServed(err)
	}
	for _, o := range certificates.Items {
		if _, issued, _ := unstructured.NestedSlice(o.Object, "status", "conditions"); issued {
			continue
		}
		name, _, _ := unstructured.NestedString(o.Object, "spec", "secretName")
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: harborNamespace, Name: name}, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{corev1.TLSCertKey: h.certificate, corev1.TLSPrivateKeyKey: h.key, "ca.crt": h.certificate},
		}
		if err := client.IgnoreAlreadyExists(kube.Create(ctx, s)); err != nil {
			return err
		}
		o.Object["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "Ready", "message": "It is issued.", "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
		}}}
		if err := kube.Update(ctx, &o); err != nil {
			return err
		}
	}
	return nil
}

// notServed is no error when a kind is not defined yet.
func notServed(err error) error {
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// uninstallAll takes away what was installed, definitions last: with each goes everything of its kind.
func (h *harborJourney) uninstallAll(t *testing.T) {
	t.Helper()
	slices.Reverse(h.installed)
	slices.SortStableFunc(h.installed, func(a, b *unstructured.Unstructured) int {
		one := func(o *unstructured.Unstructured) int {
			if o.GetKind() == "CustomResourceDefinition" {
				return 1
			}
			return 0
		}
		return one(a) - one(b)
	})
	for _, o := range h.installed {
		if err := kube.Delete(context.Background(), o.DeepCopy()); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	}
}
