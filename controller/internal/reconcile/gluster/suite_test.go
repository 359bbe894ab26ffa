package gluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide/gluster/csi"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	servers "quarry.storage/quarry/controller/internal/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/gd2"
	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/volume"
)

func TestMain(m *testing.M) { apitest.Main(m) }

const secret = "0123456789abcdef"

// suite is the reconciler in a namespace of a real API server, with stand-ins for the servers. The test itself is the kubelet.
type suite struct {
	// patience is how long an answer is waited for: long, as a busy machine is slow, unless a test has servers that hang.
	patience  time.Duration
	t         *testing.T
	client    client.WithWatch
	r         *Reconciler
	events    *events.FakeRecorder
	namespace string
	world     *cluster.World
	servers   map[string]*server
	// ahead is how much further the reconciler's clock is than the real one.
	ahead time.Duration
	names atomic.Int32
	told  []string
	// seen are the states that nodes were in, one after the other.
	seen map[string]bool
	// etcd is how many members run.
	etcd int
	// halted names workloads that do not run, whatever Kubernetes wants.
	halted map[string]bool
	// stuck names workloads whose pod does not end.
	stuck map[string]bool
	// broken is an image with which no container runs, and keepClaim a claim that does not go.
	broken, keepClaim string
	// tight: no budget lets a pod go.
	tight bool
	// unplugged are the paths of disks that are not on their machine: no pod starts with one.
	unplugged map[string]bool
	// die ends the pass that is being made: nobody is asked for anything any more.
	die func()
}

// server is the stand-in of one workload.
type server struct {
	*gd2.Server
	at, client string
}

func newSuite(t *testing.T, changes ...func(*cluster.Config)) *suite {
	t.Helper()
	// Tests beside this one share what has no namespace. Of that only a class is held, which all of them make and nobody changes.
	c := apitest.Mirror(t, apitest.Client(t), &storagev1.StorageClassList{})
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "gluster-"}}
	must(t, c.Create(t.Context(), ns))
	c = apitest.MirrorOf(t, c, ns.Name, &v1alpha1.GlusterClusterList{}, &v1alpha1.GlusterNodeList{}, &appsv1.StatefulSetList{}, &appsv1.DeploymentList{}, &appsv1.DaemonSetList{},
		&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &policyv1.PodDisruptionBudgetList{},
		apitest.Loose(appsv1.SchemeGroupVersion.WithKind("StatefulSet")), apitest.Loose(corev1.SchemeGroupVersion.WithKind("Service")),
		apitest.Loose(networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy")), apitest.Loose(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")))
	cfg := cluster.Config{HealTime: 20 * time.Millisecond, LeaveTime: 10 * time.Millisecond, Lease: 10 * time.Millisecond}
	for _, change := range changes {
		change(&cfg)
	}
	s := &suite{
		patience: 20 * time.Second,
		t:        t, client: c, events: events.NewFakeRecorder(10000), namespace: ns.Name, world: cluster.New(cfg), servers: map[string]*server{}, seen: map[string]bool{},
		etcd: workload.Members, halted: map[string]bool{}, stuck: map[string]bool{},
	}
	t.Cleanup(s.world.Close)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "example.com/fast"}
	if err := c.Create(t.Context(), class); !apierrors.IsAlreadyExists(err) {
		must(t, err)
	}
	s.restart()
	return s
}

// restart begins another process: it knows nothing of before.
func (s *suite) restart() {
	s.r = &Reconciler{
		Client: s.client, Live: s.client, Events: s.events, Dial: s.dial, Sidecars: csi.Sidecars{Provisioner: "p:1", Attacher: "a:1", Registrar: "r:1"},
		Now: s.now, Started: s.now().Add(-time.Hour), Secret: func() string { return secret },
		Suffix: func() string { return fmt.Sprintf("%05d", s.names.Add(1)) },
	}
}

func (s *suite) now() time.Time { return time.Now().Add(s.ahead) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dial reaches the stand-in that has an address.
func (s *suite) dial(auth, ca []byte) (func(string) (servers.API, error), error) {
	c, err := servers.New(servers.Config{Secret: auth, CA: ca, Timeout: s.patience})
	if err != nil {
		return nil, err
	}
	return func(address string) (servers.API, error) {
		for _, one := range s.servers {
			if one.client == address {
				return c.At(one.at)
			}
		}
		return nil, errors.New("no such host")
	}, nil
}

// pool makes a GlusterCluster with a template for each zone, of one node each.
func (s *suite) pool(zones int, edits ...func(*v1alpha1.GlusterCluster)) {
	s.t.Helper()
	c := &v1alpha1.GlusterCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "pool"}}
	c.Spec.Images = v1alpha1.GlusterImages{Glusterd2: "example.com/glusterd2:1", Etcd: "example.com/etcd:1"}
	c.Spec.Drivers = []v1alpha1.GlusterDriver{}
	for z := range zones {
		c.Spec.NodeTemplates = append(c.Spec.NodeTemplates, v1alpha1.GlusterNodeTemplate{
			Name: fmt.Sprintf("z%d", z), Threshold: v1alpha1.GlusterThreshold{Nodes: new(int32(1))},
			Storage: v1alpha1.GlusterTemplateStorage{StorageClassName: "fast", Capacity: resource.MustParse("10Gi")},
		})
	}
	for _, e := range edits {
		e(c)
	}
	must(s.t, s.client.Create(s.t.Context(), c))
}

// intercept lets calls of the reconciler fail.
func (s *suite) intercept(f interceptor.Funcs) { s.r.Client = interceptor.NewClient(s.client, f) }

func (s *suite) try() (ctrl.Result, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	defer cancel()
	s.die = cancel
	return s.r.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: s.namespace, Name: "pool"}})
}

// pass is a pass, and what the kubelet does after it. Errors that pass by themselves are allowed.
func (s *suite) pass() error {
	s.t.Helper()
	before := map[string]v1alpha1.MemberState{}
	for _, n := range s.nodes() {
		before[n.Name] = n.Status.State
	}
	_, err := s.try()
	for _, n := range s.nodes() {
		if was := before[n.Name]; was != n.Status.State {
			s.seen[fmt.Sprintf("%s to %s", was, n.Status.State)] = true
		}
	}
	s.kubelet()
	s.ahead += 25 * time.Second
	return err
}

// until makes passes until something is so.
func (s *suite) until(what string, done func() bool) {
	s.t.Helper()
	var last error
	for range 300 {
		if done() {
			return
		}
		// The last one that there was: a pass that only waits has none, and does not tell why the one before it failed.
		if err := s.pass(); err != nil {
			last = err
		}
		time.Sleep(15 * time.Millisecond)
	}
	for _, n := range s.nodes() {
		s.t.Logf("%s %s %v: %s", n.Name, n.Status.State, n.Status.Flags, n.Status.Message)
		for _, c := range n.Status.Conditions {
			s.t.Logf("    %s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	if c := s.cluster(); c != nil {
		for _, one := range c.Status.Conditions {
			s.t.Logf("  %s %s %s: %s", one.Type, one.Status, one.Reason, one.Message)
		}
	}
	s.t.Fatalf("never: %s; the last error: %v", what, last)
}

// passes makes some passes, and wants no error.
func (s *suite) passes(n int) {
	s.t.Helper()
	for range n {
		must(s.t, s.pass())
	}
}

func (s *suite) cluster() *v1alpha1.GlusterCluster {
	s.t.Helper()
	c := &v1alpha1.GlusterCluster{}
	err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: s.namespace, Name: "pool"}, c)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(s.t, err)
	return c
}

func (s *suite) nodes() []v1alpha1.GlusterNode {
	s.t.Helper()
	var list v1alpha1.GlusterNodeList
	must(s.t, s.client.List(s.t.Context(), &list, client.InNamespace(s.namespace)))
	return list.Items
}

func (s *suite) node(name string) *v1alpha1.GlusterNode {
	s.t.Helper()
	for _, n := range s.nodes() {
		if n.Name == name {
			return &n
		}
	}
	return nil
}

// inZone is the name of the first node in a zone.
func (s *suite) inZone(zone string) string {
	s.t.Helper()
	for _, n := range s.nodes() {
		if string(n.Spec.Zone) == zone && n.DeletionTimestamp.IsZero() {
			return n.Name
		}
	}
	s.t.Fatalf("no node in zone %s", zone)
	return ""
}

func (s *suite) edit(name string, change func(*v1alpha1.GlusterNode)) {
	s.t.Helper()
	n := s.node(name)
	change(n)
	must(s.t, s.client.Update(s.t.Context(), n))
}

func (s *suite) editCluster(change func(*v1alpha1.GlusterCluster)) {
	s.t.Helper()
	c := s.cluster()
	change(c)
	must(s.t, s.client.Update(s.t.Context(), c))
}

func (s *suite) remove(name string) {
	s.t.Helper()
	must(s.t, s.client.Delete(s.t.Context(), s.node(name)))
}

func (s *suite) condition(name, condition string) metav1.Condition {
	s.t.Helper()
	n := s.node(name)
	if n == nil {
		return metav1.Condition{}
	}
	if c := meta.FindStatusCondition(n.Status.Conditions, condition); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func (s *suite) ofCluster(condition string) metav1.Condition {
	s.t.Helper()
	c := s.cluster()
	if c == nil {
		return metav1.Condition{}
	}
	if c := meta.FindStatusCondition(c.Status.Conditions, condition); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func (s *suite) state(name string) string {
	s.t.Helper()
	n := s.node(name)
	if n == nil {
		return "gone"
	}
	return string(n.Status.State)
}

func (s *suite) in(name, state string) func() bool {
	return func() bool { return s.state(name) == state }
}

// running reports whether the cluster is running with so many nodes.
func (s *suite) running(nodes int) func() bool {
	return func() bool {
		c := s.cluster()
		return c != nil && c.Status.State == v1alpha1.GlusterRunning && len(s.nodes()) == nodes
	}
}

// happened returns the events so far, and forgets none.
func (s *suite) happened() []string {
	for {
		select {
		case e := <-s.events.Events:
			s.told = append(s.told, e)
		default:
			return s.told
		}
	}
}

func (s *suite) tells(text string) bool {
	return slices.ContainsFunc(s.happened(), func(e string) bool { return strings.Contains(e, text) })
}

// kubelet does what the rest of Kubernetes would: claims are bound, pods run, and what is deleted goes.
func (s *suite) kubelet() {
	s.t.Helper()
	ctx := s.t.Context()
	var claims corev1.PersistentVolumeClaimList
	must(s.t, s.client.List(ctx, &claims, client.InNamespace(s.namespace)))
	var sets appsv1.StatefulSetList
	must(s.t, s.client.List(ctx, &sets, client.InNamespace(s.namespace)))
	wanted := map[string]bool{}
	for i := range sets.Items {
		w := &sets.Items[i]
		if !w.DeletionTimestamp.IsZero() && s.stuck[w.Name] {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: workload.Pod(w.Name)}}
			must(s.t, client.IgnoreNotFound(s.client.Delete(ctx, p)))
			continue
		}
		if !w.DeletionTimestamp.IsZero() {
			s.stopped(w)
			w.Finalizers = nil
			must(s.t, client.IgnoreNotFound(s.client.Update(ctx, w)))
			continue
		}
		wanted[workload.Pod(w.Name)] = true
		s.run(w)
	}
	s.budgets()
	for i := range claims.Items {
		c := &claims.Items[i]
		switch {
		case !c.DeletionTimestamp.IsZero() && c.Name == s.keepClaim:
		case !c.DeletionTimestamp.IsZero():
			c.Finalizers = nil
			must(s.t, client.IgnoreNotFound(s.client.Update(ctx, c)))
		case c.Status.Phase != corev1.ClaimBound:
			c.Spec.VolumeName = "pv-" + string(c.UID)
			must(s.t, s.client.Update(ctx, c))
			c.Status.Phase = corev1.ClaimBound
			must(s.t, s.client.Status().Update(ctx, c))
		}
	}
}

// stopped ends the pod of a workload.
func (s *suite) stopped(w *appsv1.StatefulSet) {
	s.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: workload.Pod(w.Name)}}
	must(s.t, client.IgnoreNotFound(s.client.Delete(s.t.Context(), p, client.GracePeriodSeconds(0))))
	if one := s.servers[w.Name]; one != nil {
		one.Node.Stop()
		one.Node.KillBricks()
	}
}

// run has a pod of a workload, with its server.
func (s *suite) run(w *appsv1.StatefulSet) {
	s.t.Helper()
	if s.broken != "" && w.Spec.Template.Spec.Containers[0].Image == s.broken {
		s.stall(w, "ImagePullBackOff")
		return
	}
	if s.hangs(w) {
		s.stall(w, "ContainerCreating")
		return
	}
	ready := !s.halted[w.Name]
	if w.Labels[v1alpha1.LabelGlusterPart] == workload.PartEtcd {
		ready = w.Name < workload.Member("pool", s.etcd)
	} else {
		s.serve(w, ready && !s.ends(w))
	}
	s.revise(w)
	p := &corev1.Pod{}
	err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: s.namespace, Name: workload.Pod(w.Name)}, p)
	switch {
	case apierrors.IsNotFound(err):
		p = podOf(w)
		must(s.t, s.client.Create(s.t.Context(), p))
	case err == nil && p.DeletionTimestamp != nil && !s.stuck[w.Name]:
		// The next one is made when this one is gone.
		s.stopped(w)
		return
	default:
		must(s.t, err)
	}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	if len(p.Status.Conditions) == 1 && p.Status.Conditions[0].Status == status {
		return
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(s.now())}}
	must(s.t, s.client.Status().Update(s.t.Context(), p))
}

// hangs reports whether the pod of a workload cannot start, or the next one could not, as a disk is not there.
func (s *suite) hangs(w *appsv1.StatefulSet) bool {
	s.t.Helper()
	p := s.pods()[workload.Pod(w.Name)]
	spec := w.Spec.Template.Spec
	if p != nil {
		spec = p.Spec
		if p.DeletionTimestamp != nil || len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil {
			return false
		}
	}
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil && s.unplugged[v.HostPath.Path] })
}

// serve has a stand-in for a workload of glusterd2.
func (s *suite) serve(w *appsv1.StatefulSet, runs bool) {
	s.t.Helper()
	one := s.servers[w.Name]
	if one == nil {
		c := w.Spec.Template.Spec.Containers[0]
		flags := map[string]string{}
		for _, a := range c.Args {
			k, v, _ := strings.Cut(a, "=")
			flags[k] = v
		}
		cfg := cluster.NodeConfig{
			Name: w.Name, PeerAddress: flags["--peeraddress"], ClientAddress: flags["--clientaddress"], Secret: []byte(secret), StateDir: flags["--localstatedir"],
			Disk: &cluster.Disk{Blocks: map[string]*cluster.Block{}},
		}
		for _, e := range c.Env {
			if e.Name == "GD2_PEER_ID" {
				cfg.PeerID = e.Value
			}
		}
		for _, d := range c.VolumeDevices {
			cfg.Disk.Blocks[d.DevicePath] = &cluster.Block{Size: 10 << 30}
		}
		for _, d := range c.VolumeMounts {
			if strings.HasPrefix(d.MountPath, "/dev/") {
				cfg.Disk.Blocks[d.MountPath] = &cluster.Block{Size: 10 << 30}
			}
		}
		l, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp", "127.0.0.1:0")
		must(s.t, err)
		s.t.Cleanup(func() { _ = l.Close() })
		one = &server{Server: &gd2.Server{World: s.world, Node: s.world.Add(cfg)}, at: l.Addr().String(), client: cfg.ClientAddress}
		go func() { _ = one.Serve(l, nil) }()
		s.servers[w.Name] = one
	}
	if runs {
		one.Node.Start()
	}
}

// halt has the server of a node die, with its bricks.
func (s *suite) halt(name string) {
	s.halted[name] = true
	s.servers[name].Node.Kill()
	s.servers[name].Node.KillBricks()
}

// volume makes the volume v of three copies, and has a client write to it. Each move of a brick makes it smaller by the log of an XFS (w031), and mkfs refuses less
// than 300 MB: a test may move one brick many times.
func (s *suite) volume() {
	s.t.Helper()
	s.volumeOf(2 << 30)
}

// volumeOf makes the volume v with a size.
func (s *suite) volumeOf(size uint64) {
	s.t.Helper()
	const name = "v"
	c := s.world.Begin(s.anyone("").Node)
	defer c.End()
	if _, f := volume.Create(c, volume.CreateRequest{Name: name, Size: size, Replica: 3}); f != nil {
		s.t.Fatal(f.Errors)
	}
	if _, f := volume.Start(c, name, volume.StartRequest{}); f != nil {
		s.t.Fatal(f.Errors)
	}
	volume.Write(c, name, "a", "b", "c")
}

// bricksOn is how many bricks of volumes a node has.
func (s *suite) bricksOn(name string) int {
	n := 0
	c := s.world.Begin(s.anyone(name).Node)
	defer c.End()
	for _, v := range c.C.Volumes {
		for _, sub := range v.Subvols {
			for _, b := range sub.Bricks {
				if b.PeerID == s.servers[name].Node.PeerID {
					n++
				}
			}
		}
	}
	return n
}

// anyone is a server that runs, other than one.
func (s *suite) anyone(but string) *server {
	s.t.Helper()
	for name, one := range s.servers {
		runs := false
		s.world.Do(func() { runs = one.Node.Runs() })
		if runs && name != but {
			return one
		}
	}
	s.t.Fatal("no server runs")
	return nil
}

// full is a node with a brick, and bare one without.
func (s *suite) full() string { return s.with(true) }
func (s *suite) bare() string { return s.with(false) }

func (s *suite) with(bricks bool) string {
	s.t.Helper()
	for _, one := range s.nodes() {
		if one.DeletionTimestamp.IsZero() && (s.bricksOn(one.Name) > 0) == bricks {
			return one.Name
		}
	}
	s.t.Fatalf("there is no node with bricks: %v", bricks)
	return ""
}

// whole wants all data of the volume on all of its bricks.
func (s *suite) whole() {
	s.t.Helper()
	c := s.world.Begin(s.anyone("").Node)
	defer c.End()
	if v := c.C.Volumes["v"]; len(v.Pending) > 0 || len(v.Unmarked) > 0 || len(v.Files) != 3 {
		s.t.Errorf("the volume is not whole: %+v", v)
	}
}
