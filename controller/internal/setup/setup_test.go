package setup

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/agentpod"
	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/pki"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// Namespaces of deploy/base.
const (
	namespace      = "quarry-system"
	agentNamespace = "quarry-agents"
)

func TestParse(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"all is well":      {[]string{"--namespace=x"}, ""},
		"no namespace":     {nil, "namespace is empty"},
		"a bad port":       {[]string{"--namespace=x", "--agent-port=0"}, "is not a port"},
		"an unknown flag":  {[]string{"--nonsense"}, "not defined"},
		"no agents":        {[]string{"--namespace=x", "--agent-namespace="}, "agent-namespace is empty"},
		"no account":       {[]string{"--namespace=x", "--agent-service-account="}, "agent-service-account is empty"},
		"a stray argument": {[]string{"--namespace=x", "stray"}, "unexpected argument"},
	} {
		_, err := Parse(c.args)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// installed is true while the API server has all that install brings. Who takes something away installs it again.
var installed bool

// install applies deploy/crd and deploy/base as a user would, once: no test but the one that installs again changes them.
func install(t *testing.T) {
	t.Helper()
	if installed {
		return
	}
	kubectl := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	kubeconfig := apitest.Kubeconfig(t)
	if _, err := os.Stat(kubectl); err != nil {
		t.Skipf("needs kubectl: %v", err)
	}
	deploy := deployed(t)
	for _, part := range []string{"crd", "base"} {
		cmd := exec.Command(kubectl, "--kubeconfig", kubeconfig, "apply", "--server-side", "--force-conflicts", "-k", filepath.Join(deploy, part))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kubectl apply of deploy/%s: %v\n%s", part, err, out)
		}
	}
	installed = true
}

// deployed is the directory of the manifests. It opens each of them: Go keeps the result of a test while the files that the test itself opened are the same,
// and knows nothing of what kubectl reads.
func deployed(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(apitest.Root(t), "deploy")
	if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			_, err = os.ReadFile(path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// as returns how to reach the API server as a service account of the controllers' namespace.
func as(t *testing.T, account string) *rest.Config {
	t.Helper()
	return asIn(t, namespace, account, "")
}

// asIn returns how to reach the API server as a service account, with a token that is bound to a node.
func asIn(t *testing.T, in, account, node string) *rest.Config {
	t.Helper()
	cfg := apitest.Config(t)
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + in + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + in, "system:authenticated"},
	}
	if node != "" {
		cfg.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	return cfg
}

func clientOf(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(cfg, client.Options{Scheme: apitest.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func await(t *testing.T, what string, check func() string) {
	t.Helper()
	complaint := "never looked"
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if complaint = check(); complaint == "" {
			return
		}
	}
	t.Fatalf("%s: %s", what, complaint)
}

// started is true once a controller ran in this process. Only the first one finds out that two reconcilers have one name.
var started atomic.Bool

// start runs the controller with the rights that deploy/rbac gives it, and nothing more.
func start(t *testing.T, cfg Config) {
	t.Helper()
	cfg.again, cfg.settled = started.Swap(true), true
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, as(t, "quarry-controller"), cfg) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the controller ended: %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Error("the controller does not end")
		}
	})
}

// startAgent runs the agent of a node under the controller's own authority, with its pod and node in the API.
func startAgent(t *testing.T, c client.Client, name string) (*agenttest.Agent, int) {
	t.Helper()
	ctx, secret := context.Background(), &corev1.Secret{}
	await(t, "the authority's secret", func() string {
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pki.SecretCA}, secret); err != nil {
			return err.Error()
		}
		return ""
	})
	ca := agenttest.CAFromPEM(t, secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	a := agenttest.New(t, agenttest.Options{NodeName: name, CA: ca})
	a.AddDisks(100<<30, "sdb")
	_, port, err := net.SplitHostPort(a.Addr())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return a, n
}

// available does what Kubernetes does once the pods of the CSI driver run.
func available(ctx context.Context, admin client.Client) string {
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = namespace, "quarry-csi-lvm"
	if err := admin.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
		return err.Error()
	}
	d.Status.Replicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 1, 1, 1
	if err := admin.Status().Update(ctx, d); err != nil {
		return err.Error()
	}
	return ""
}

func TestRun_withItsOwnRights(t *testing.T) {
	admin := apitest.Client(t)
	install(t)
	ctx := context.Background()
	cfg := Config{
		Namespace: namespace, AgentNamespace: agentNamespace, AgentServiceAccount: "quarry-agent", MetricsAddress: "0", HealthAddress: "0", LeaderElection: true,
	}
	// The port of the agent is known only when it runs, and that needs the authority: a first controller makes it.
	keeper := &pki.Keeper{Client: clientOf(t, as(t, "quarry-controller")), Namespace: namespace, Now: time.Now}
	if err := keeper.Keep(ctx); err != nil {
		t.Fatal(err)
	}
	borrower := &pki.Borrower{Client: clientOf(t, as(t, "quarry-csi")), Namespace: namespace}
	if err := borrower.Borrow(ctx); err != nil {
		t.Errorf("the CSI controller, with its own rights: %v", err)
	}
	agent, port := startAgent(t, admin, "n1")
	cfg.AgentPort = port
	start(t, cfg)

	cluster := createAll(t, admin)
	await(t, "the CSI driver is deployed", func() string { return available(ctx, admin) })
	admitsDrivers(t, admin)
	await(t, "the Cluster runs", phaseOf(admin, cluster))
	agent.AddDisks(100<<30, "sdc")
	await(t, "the new disk is taken without anybody asking", func() string {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err.Error()
		}
		if cluster.Status.DeviceCount != 2 {
			return "not yet: " + cluster.Status.Message
		}
		return ""
	})
	replicasAreKept(t, admin, "n1")
	copiesArePinned(t, admin, cluster.Name, "n1")
	await(t, "events", func() string { return toldOfDisks(admin) })
	if err := admin.Delete(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	await(t, "the Cluster is gone", func() string {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); !apierrors.IsNotFound(err) {
			return "not yet: " + cluster.Status.Message
		}
		return ""
	})
	if !agent.IsEmpty("sdb") || !agent.IsEmpty("sdc") || len(agent.Groups()) > 0 {
		t.Errorf("disks are not clean: %t, %t, %+v", agent.IsEmpty("sdb"), agent.IsEmpty("sdc"), agent.Groups())
	}
	agentObtainsCertificate(t)
	t.Run("Harbor", func(t *testing.T) { followOperators(t, admin) })
}

// createAll creates a node with the pod of its agent, and a Cluster on it.
func createAll(t *testing.T, admin client.Client) *v1alpha1.Cluster {
	t.Helper()
	ctx := context.Background()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: "agent", Labels: map[string]string{agentpod.Label: agentpod.Value}},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "agent", Image: "agent"}}},
	}
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}
	cluster.Spec.StorageType, cluster.Spec.Hosts = v1alpha1.StorageTypeLVM, []v1alpha1.HostName{"n1"}
	cluster.Spec.Devices = &v1alpha1.DeviceSelector{Hotplug: true}
	for _, o := range []client.Object{node, pod, cluster} {
		if err := admin.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, "127.0.0.1", []corev1.PodIP{{IP: "127.0.0.1"}}
	if err := admin.Status().Update(ctx, pod); err != nil {
		t.Fatal(err)
	}
	return cluster
}

func phaseOf(c client.Client, cluster *v1alpha1.Cluster) func() string {
	return func() string {
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err.Error()
		}
		if cluster.Status.Phase != v1alpha1.PhaseRunning {
			return string(cluster.Status.Phase) + ": " + cluster.Status.Message
		}
		return ""
	}
}

func toldOfDisks(c client.Client) string {
	var events corev1.EventList
	if err := c.List(context.Background(), &events); err != nil {
		return err.Error()
	}
	for _, e := range events.Items {
		if e.Reason == v1alpha1.ReasonDisksAdded && e.InvolvedObject.Name == "pool" {
			return ""
		}
	}
	return "none tells of the disks"
}

// agentObtainsCertificate does what an agent does, with the rights of one.
func agentObtainsCertificate(t *testing.T) {
	t.Helper()
	ctx, c := context.Background(), clientOf(t, asIn(t, agentNamespace, "quarry-agent", "n1"))
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "quarry-agent-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: v1alpha1.SignerAgent, Request: requestOf(t, "n1"),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
	if err := c.Create(ctx, csr); err != nil {
		t.Fatal(err)
	}
	await(t, "the certificate", func() string {
		if err := c.Get(ctx, client.ObjectKeyFromObject(csr), csr); err != nil {
			return err.Error()
		}
		if len(csr.Status.Certificate) == 0 {
			return "not signed yet"
		}
		return ""
	})
	block, _ := pem.Decode(csr.Status.Certificate)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil || leaf.VerifyHostname("n1") != nil {
		t.Errorf("%v, names %v", err, leaf.DNSNames)
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); !apierrors.IsForbidden(err) {
		t.Errorf("agents may list nodes: %v", err)
	}
}

func TestDeploy_samplesAndLab(t *testing.T) {
	install(t)
	kubectl, kubeconfig := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), apitest.Kubeconfig(t)
	deploy := deployed(t)
	for _, what := range [][]string{{"-f", filepath.Join(deploy, "samples")}, {"-k", filepath.Join(deploy, "lab")}} {
		args := append([]string{"--kubeconfig", kubeconfig, "apply", "--server-side", "--force-conflicts", "--dry-run=server"}, what...)
		if out, err := exec.Command(kubectl, args...).CombinedOutput(); err != nil {
			t.Errorf("kubectl apply %s: %v\n%s", what, err, out)
		}
	}
}

func TestAdmissionPolicy_pinsAgents(t *testing.T) {
	install(t)
	good := certificatesv1.CertificateSigningRequestSpec{
		SignerName: v1alpha1.SignerAgent, Request: requestOf(t, "n1"),
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
	}
	agent, unbound := clientOf(t, asIn(t, agentNamespace, "quarry-agent", "n1")), clientOf(t, asIn(t, agentNamespace, "quarry-agent", ""))
	try := func(c client.Client, edit func(*certificatesv1.CertificateSigningRequestSpec)) error {
		csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "try-"}, Spec: *good.DeepCopy()}
		edit(&csr.Spec)
		return c.Create(context.Background(), csr, client.DryRunAll)
	}
	keep := func(*certificatesv1.CertificateSigningRequestSpec) {}
	// A policy takes a moment until it is in force.
	await(t, "the policy", func() string {
		if try(unbound, keep) == nil {
			return "a token without a node is accepted"
		}
		return ""
	})
	if err := try(agent, keep); err != nil {
		t.Errorf("a good request is refused: %v", err)
	}
	// Agents were in the controllers' namespace once.
	if err := try(clientOf(t, asIn(t, namespace, "quarry-agent", "n1")), keep); !apierrors.IsForbidden(err) {
		t.Errorf("an account of that name in the controllers' namespace may ask for a certificate: %v", err)
	}
	for name, edit := range map[string]func(*certificatesv1.CertificateSigningRequestSpec){
		"the kubelet's signer": func(s *certificatesv1.CertificateSigningRequestSpec) {
			s.SignerName = certificatesv1.KubeletServingSignerName
		},
		"client auth": func(s *certificatesv1.CertificateSigningRequestSpec) {
			s.Usages = append(s.Usages, certificatesv1.UsageClientAuth)
		},
	} {
		if err := try(agent, edit); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
