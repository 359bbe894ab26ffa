package certificate

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/pki"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestMain(m *testing.M) { apitest.Main(m) }

const agentUser = "system:serviceaccount:quarry-system:quarry-agent"

type fixed struct {
	authority pki.Authority
	err       error
}

func (f *fixed) Authority() (pki.Authority, error) { return f.authority, f.err }

// as returns a client that acts as the agent of a node, or as somebody else.
func as(t *testing.T, user, node string) client.Client {
	t.Helper()
	cfg := apitest.Config(t)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	if node != "" {
		cfg.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	c, err := client.New(cfg, client.Options{Scheme: apitest.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask creates a request for the certificate of node n1.
func ask(t *testing.T, c client.Client, name string) {
	const node = "n1"
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: v1alpha1.AgentCommonNamePrefix + node}, DNSNames: []string{node},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: v1alpha1.SignerAgent, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
	if err := c.Create(context.Background(), csr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), csr) })
}

func newReconciler(t *testing.T) (*Reconciler, *fixed) {
	t.Helper()
	a, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	f := &fixed{authority: a}
	return &Reconciler{Client: apitest.Client(t), Authority: f, Policy: pki.Policy{AgentUser: agentUser}, Now: time.Now}, f
}

func reconcile(t *testing.T, r *Reconciler, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key := client.ObjectKey{Name: name}
	if _, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := r.Client.Get(context.Background(), key, csr); err != nil {
		t.Fatal(err)
	}
	return csr
}

func TestReconcile_signsForTheAgentOfTheNode(t *testing.T) {
	r, f := newReconciler(t)
	ask(t, as(t, agentUser, "n1"), "good")
	csr := reconcile(t, r, "good")
	if !has(csr, certificatesv1.CertificateApproved) {
		t.Fatalf("%+v", csr.Status)
	}
	block, rest := pem.Decode(csr.Status.Certificate)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{DNSName: "n1", Roots: f.authority.Pool()}); err != nil {
		t.Error(err)
	}
	if string(rest) != string(f.authority.Bundle()) {
		t.Error("the ca does not follow the certificate")
	}
	if again := reconcile(t, r, "good"); again.ResourceVersion != csr.ResourceVersion {
		t.Error("written again")
	}
}

func TestReconcile_denies(t *testing.T) {
	r, _ := newReconciler(t)
	ask(t, as(t, agentUser, "n2"), "other-node")
	ask(t, as(t, "mallory", "n1"), "other-user")
	ask(t, as(t, agentUser, ""), "no-node")
	for name, reason := range map[string]string{
		"other-node": pki.ReasonWrongSubject, "other-user": pki.ReasonNotAnAgent, "no-node": pki.ReasonNodeUnknown,
	} {
		csr := reconcile(t, r, name)
		if len(csr.Status.Conditions) != 1 || csr.Status.Conditions[0].Type != certificatesv1.CertificateDenied ||
			csr.Status.Conditions[0].Reason != reason || csr.Status.Conditions[0].Message == "" || len(csr.Status.Certificate) > 0 {
			t.Errorf("%s: %+v", name, csr.Status)
		}
	}
}

func TestReconcile_approvalOfSomebodyElseDoesNotHelp(t *testing.T) {
	r, _ := newReconciler(t)
	ask(t, as(t, "mallory", "n1"), "approved")
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := r.Client.Get(context.Background(), client.ObjectKey{Name: "approved"}, csr); err != nil {
		t.Fatal(err)
	}
	r.set(csr, certificatesv1.CertificateApproved, "Manual", "kubectl certificate approve")
	if err := r.Client.SubResource("approval").Update(context.Background(), csr); err != nil {
		t.Fatal(err)
	}
	csr = reconcile(t, r, "approved")
	if !has(csr, certificatesv1.CertificateFailed) || len(csr.Status.Certificate) > 0 {
		t.Errorf("%+v", csr.Status)
	}
}

func TestReconcile_waitsForTheAuthority(t *testing.T) {
	r, f := newReconciler(t)
	f.err = pki.ErrNotReady
	ask(t, as(t, agentUser, "n1"), "early")
	_, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "early"}})
	if !errors.Is(err, pki.ErrNotReady) {
		t.Fatalf("got %v", err)
	}
	f.err = nil
	if csr := reconcile(t, r, "early"); len(csr.Status.Certificate) == 0 {
		t.Errorf("%+v", csr.Status)
	}
}
