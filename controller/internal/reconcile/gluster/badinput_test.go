package gluster

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/gluster/csi"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestBadInput_answers: whatever servers answer that makes no sense, a condition says so, nothing is removed, and all goes on when they make sense again.
func TestBadInput_answers(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.patience = 2 * time.Second
	s.pool(4)
	s.until("it runs", s.running(4))
	s.volume()
	empty, full := s.bare(), s.full()
	text := func(status int, kind, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/ping" {
				return false
			}
			w.Header().Set("Content-Type", kind)
			w.Header().Set("X-Gluster-Peer-Id", "0a0a0a0a-1b1b-4c4c-8d8d-2e2e2e2e2e2e")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			return true
		}
	}
	only := func(path string, by func(http.ResponseWriter, *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			return strings.HasPrefix(r.URL.Path, path) && by(w, r)
		}
	}
	const json = "application/json; charset=UTF-8"
	rows := []struct {
		name string
		by   func(http.ResponseWriter, *http.Request) bool
	}{
		{"garbage", text(200, json, "\x00\xff{")},
		{"HTML", text(200, "text/html", "<html>sign in</html>")},
		{"500", text(500, json, `{"errors":[{"code":1,"message":"no"}]}`)},
		{"empty", text(200, json, "")},
		{"null", text(200, json, "null")},
		{"cut", text(200, json, `[{"id":"0a0a0a0a-1b1b-4c4c-8d8d-2e2e2e2e2e2e","name"`)},
		{"no peers at all", only("/v1/peers", text(200, json, "[]"))},
		{"a list without who answers", only("/v1/peers", text(200, json, `[{"id":"1a0a0a0a-1b1b-4c4c-8d8d-2e2e2e2e2e2e","name":"x","peer-addresses":["a:1"],"client-addresses":[],"online":true,"metadata":{}}]`))},
		{"404 for every peer", only("/v1/peers", text(404, json, `{"errors":[{"code":1,"message":"peer not found"}]}`))},
		{"volumes cut", only("/v1/volumes", text(200, json, `[{"id"`))},
		{"a volume without bricks", only("/v1/volumes", text(200, json, `[{"id":"0a0a0a0a-1b1b-4c4c-8d8d-2e2e2e2e2e2e","name":"v","state":"Started","subvols":[]}]`))},
		{"snapshots are no list", only("/v1/snapshots", text(200, json, `{}`))},
		{"late", func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/ping" {
				select {
				case <-r.Context().Done():
				case <-time.After(5 * time.Second):
				}
			}
			return r.URL.Path != "/ping"
		}},
		{"silent", func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}},
	}
	for _, one := range s.servers {
		one.Intercept(rows[0].by)
	}
	s.remove(empty)
	s.remove(full)
	for _, row := range rows {
		for _, one := range s.servers {
			one.Intercept(row.by)
		}
		_ = s.pass()
		s.untouched(row.name, empty)
		s.untouched(row.name, full)
	}
	for _, one := range s.servers {
		one.Intercept(nil)
	}
	s.until("both are gone, and others are there", func() bool { return s.state(empty) == "gone" && s.state(full) == "gone" && s.running(4)() })
	s.whole()
}

// untouched wants a node that is being deleted to be there with all that it has, and a condition that says why.
func (s *suite) untouched(row, name string) {
	s.t.Helper()
	for _, claim := range []string{name, workload.StateClaim(name)} {
		if c := s.claim(claim); c == nil || c.DeletionTimestamp != nil {
			s.t.Fatalf("%s: claim %s is removed", row, claim)
		}
	}
	if got := s.node(name); got == nil || got.Annotations[v1alpha1.AnnotationPeerLeft] != "" || len(s.nodes()) < 4 {
		s.t.Fatalf("%s: node %s is taken for gone", row, name)
	}
	if c := s.condition(name, v1alpha1.ConditionRemoved); c.Status == metav1.ConditionTrue || c.Message == "" {
		s.t.Errorf("%s: %+v", row, c)
	}
}

// TestBadInput_secret: the Secret of the servers is gone, or has another secret.
func TestBadInput_secret(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(3)
	s.until("it runs", s.running(3))
	n := s.inZone("z0")
	name := types.NamespacedName{Namespace: s.namespace, Name: workload.Auth("pool")}
	o := &corev1.Secret{}
	must(t, s.client.Get(t.Context(), name, o))
	o.Data[workload.KeyAuth] = []byte("another")
	must(t, s.client.Update(t.Context(), o))
	s.remove(n)
	for range 4 {
		_ = s.pass()
	}
	if c := s.condition(n, v1alpha1.ConditionPeerJoined); c.Status != metav1.ConditionUnknown || !strings.Contains(s.node(n).Status.Message+s.node(s.inZone("z1")).Status.Message, "does not accept the secret") {
		t.Errorf("%+v %s", c, s.node(n).Status.Message)
	}
	must(t, s.client.Delete(t.Context(), o))
	for range 4 {
		if err := s.pass(); err == nil || !strings.Contains(err.Error(), "is gone, and the servers have the secret") {
			t.Errorf("%v", err)
		}
	}
	if s.client.Get(t.Context(), name, &corev1.Secret{}) == nil {
		t.Error("a secret is made that no server has")
	}
	if s.claim(n) == nil || s.claim(n).DeletionTimestamp != nil {
		t.Error("a claim is removed")
	}
	again := workload.Secret(s.cluster(), workload.Auth("pool"), map[string][]byte{workload.KeyAuth: []byte(secret)})
	must(t, s.client.Create(t.Context(), again))
	s.until("it goes on", func() bool { return s.state(n) == "gone" && s.running(3)() })
}

// TestBadInput_specs: what the API server cannot know. Nothing is made, and a condition says why.
func TestBadInput_specs(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		edit func(*v1alpha1.GlusterCluster)
		want string
	}{
		"A17: no StorageClass": {func(c *v1alpha1.GlusterCluster) { c.Spec.NodeTemplates[0].Storage.StorageClassName = "gone" }, "the StorageClass gone of template z0 does not exist"},
		"A16: no CA":           {func(c *v1alpha1.GlusterCluster) { c.Spec.GlusterCA = &v1alpha1.GlusterCredentials{SecretName: "gone"} }, "gone does not exist"},
		"A16: a CA elsewhere": {func(c *v1alpha1.GlusterCluster) {
			c.Spec.GlusterCA = &v1alpha1.GlusterCredentials{SecretName: "ca", SecretNamespace: "kube-system"}
		}, "is in another namespace"},
		"no StorageClass at all": {func(c *v1alpha1.GlusterCluster) { c.Spec.NodeTemplates = nil }, "etcd needs a StorageClass"},
		"none for the state":     {func(c *v1alpha1.GlusterCluster) { c.Spec.State = &v1alpha1.GlusterState{StorageClassName: "gone"} }, "the StorageClass gone of spec.state"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.pool(1, row.edit)
			s.passes(2)
			c := s.ofCluster(v1alpha1.ConditionSpecValid)
			if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, row.want) || s.cluster().Status.State != v1alpha1.GlusterFailed {
				t.Errorf("%s %+v", s.cluster().Status.State, c)
			}
			if len(s.nodes()) > 0 || s.claim(workload.Member("pool", 0)) != nil || len(s.servers) > 0 {
				t.Error("something was made")
			}
		})
	}
	t.Run("a CA that is none", func(t *testing.T) {
		s := newSuite(t)
		must(t, s.client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "ca"}, Data: map[string][]byte{"tls.crt": []byte("x")}}))
		s.pool(1, func(c *v1alpha1.GlusterCluster) { c.Spec.GlusterCA = &v1alpha1.GlusterCredentials{SecretName: "ca"} })
		s.passes(3)
		if c := s.ofCluster(v1alpha1.ConditionSpecValid); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "cannot be used") || len(s.nodes()) > 0 {
			t.Errorf("%+v", c)
		}
	})
}

// TestBadInput_nodes: nodes that people made.
func TestBadInput_nodes(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(3)
	s.until("it runs", s.running(3))
	make := func(name string, edit func(*v1alpha1.GlusterNode)) {
		n := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: v1alpha1.GlusterNodeSpec{Cluster: "pool", Zone: "hand"}}
		edit(n)
		must(t, s.client.Create(t.Context(), n))
	}
	claim := func(name string, mode corev1.PersistentVolumeMode) {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
		c.Spec.AccessModes, c.Spec.VolumeMode = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, new(mode)
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
		must(t, s.client.Create(t.Context(), c))
	}
	storage := func(of ...v1alpha1.GlusterStorage) func(*v1alpha1.GlusterNode) {
		return func(n *v1alpha1.GlusterNode) { n.Spec.Storage = of }
	}
	claim("files", corev1.PersistentVolumeFilesystem)
	claim("disk", corev1.PersistentVolumeBlock)
	make("files", storage(v1alpha1.GlusterStorage{PVCName: "files"}))
	make("missing", storage(v1alpha1.GlusterStorage{PVCName: "missing-claim"}))
	make("rival", storage(v1alpha1.GlusterStorage{PVCName: s.inZone("z0")}))
	make("good", storage(v1alpha1.GlusterStorage{PVCName: "disk"}))
	make("external", func(n *v1alpha1.GlusterNode) {
		n.Spec.External = &v1alpha1.GlusterExternal{Address: "nobody.example.com"}
	})
	make("device", func(n *v1alpha1.GlusterNode) {
		n.Spec.Storage = []v1alpha1.GlusterStorage{{Device: "/dev/disk/by-id/one"}}
		n.Spec.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: corev1.NodeSelectorOpExists}},
		}}}}
	})
	s.until("the good one serves", s.in("good", "online"))
	s.until("its devices are there", func() bool { return s.condition("good", v1alpha1.ConditionReady).Status == metav1.ConditionTrue })
	for name, want := range map[string]string{
		"files": "has a filesystem", "rival": "the bricks on it are those of peer", "device": "0 match",
	} {
		if c := s.condition(name, v1alpha1.ConditionSpecValid); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, want) || s.servers[name] != nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c := s.condition("missing", v1alpha1.ConditionClaimsReady); c.Status != metav1.ConditionFalse {
		t.Errorf("%+v", c)
	}
	if c := s.condition("external", v1alpha1.ConditionPeerOnline); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonPeerDown {
		t.Errorf("%+v", c)
	}
	for _, name := range []string{"files", "rival", "device", "external"} {
		s.remove(name)
		s.until(name+" is gone", s.in(name, "gone"))
	}
	s.remove("good")
	s.until("good is gone", s.in("good", "gone"))
	if s.claim("disk") == nil || s.claim("disk").DeletionTimestamp != nil || s.claim("files") == nil {
		t.Error("the claims of a person are removed")
	}
}

func TestExternal(t *testing.T) {
	for address, want := range map[string]string{"g.example.com": "g.example.com:24007", "10.0.0.1:1": "10.0.0.1:1", "fd00::1": "[fd00::1]:24007", "[fd00::1]:5": "[fd00::1]:5"} {
		if got := external(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// TestNode_ofNoCluster: the GlusterCluster is not there. A node says so, and goes when it is deleted, as nothing was made for it.
func TestNode_ofNoCluster(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	n := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "n"}, Spec: v1alpha1.GlusterNodeSpec{Cluster: "pool", Storage: []v1alpha1.GlusterStorage{{PVCName: "c"}}}}
	must(t, s.client.Create(t.Context(), n))
	s.passes(2)
	if c := s.condition("n", v1alpha1.ConditionSpecValid); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "pool does not exist") {
		t.Errorf("%+v", c)
	}
	s.remove("n")
	s.until("it is gone", s.in("n", "gone"))
}

// TestDrivers_second: a driver has one name in Kubernetes. The second cluster is told of the first, and takes nothing of it away.
func TestDrivers_second(t *testing.T) {
	one, two := newSuite(t), newSuite(t)
	one.pool(1, fuse)
	one.passes(4)
	two.pool(1, fuse)
	two.passes(4)
	if c := one.ofCluster(v1alpha1.ConditionCSIReady); c.Reason != v1alpha1.ReasonCSIDeploying {
		t.Errorf("%+v", c)
	}
	if c := two.ofCluster(v1alpha1.ConditionCSIReady); c.Reason != v1alpha1.ReasonNameConflict || !strings.Contains(c.Message, one.namespace+"/pool") {
		t.Errorf("%+v", c)
	}
	must(t, two.client.Delete(t.Context(), two.cluster()))
	two.until("the second is gone", func() bool { return two.cluster() == nil })
	driver := &storagev1.CSIDriver{}
	must(t, one.client.Get(t.Context(), types.NamespacedName{Name: csi.Name(v1alpha1.GlusterFuse)}, driver))
	// One that the spec gives up goes, if no volume is there.
	one.editCluster(func(c *v1alpha1.GlusterCluster) { c.Spec.Drivers = []v1alpha1.GlusterDriver{} })
	one.until("the driver is gone", func() bool {
		return one.client.Get(t.Context(), types.NamespacedName{Name: csi.Name(v1alpha1.GlusterFuse)}, driver) != nil
	})
	must(t, one.client.Delete(t.Context(), one.cluster()))
	one.until("the first is gone", func() bool { return one.cluster() == nil })
}
