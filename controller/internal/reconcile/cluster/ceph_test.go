package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	osdcalls "quarry.storage/quarry/controller/internal/agents/osd"
	cephbackend "quarry.storage/quarry/controller/internal/backend/ceph"
	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/cephtest"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/setup/filesystems"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// kubelet makes the pods of Deployments, and lets the model of Ceph know of the daemons in them, as a kubelet and the daemons would.
type kubelet struct {
	*suite
	model *cephtest.Cluster
	// seen are kinds of daemons in the order in which the last of each ended.
	ended []string
	// replaced are the daemons that got another pod, in order.
	replaced []string
	// fsid is the one that the monitors have from now on; empty while it is that of whoever asks.
	fsid string
	// addresses of the nodes.
	addresses map[string]string
	// ahead is by how many nanoseconds the backend's clock is ahead.
	ahead atomic.Int64
}

// tools is the container with Ceph's programs, on every host.
var tools = strings.Repeat("ab", 32)

// newCeph is a controller over a model of Ceph, and agents on hosts with a disk each.
func newCeph(t *testing.T, hosts ...string) *kubelet {
	t.Helper()
	k := &kubelet{model: cephtest.New(t, ""), addresses: map[string]string{}}
	k.model.Addresses = map[string]string{}
	k.model.Monitors, k.model.Managers, k.model.Groups = map[string]bool{}, nil, map[string]int{"active+clean": 1}
	disks := map[string][]string{}
	for _, h := range hosts {
		disks[h] = []string{"sdb"}
	}
	k.suite = newSuite(t, disks)
	for i, h := range hosts {
		k.agents[h].AddTools(tools)
		n := &corev1.Node{}
		if err := k.client.Get(t.Context(), clientKey(h), n); err != nil {
			t.Fatal(err)
		}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Gi")}
		n.Status.NodeInfo = corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64"}
		k.addresses[h] = fmt.Sprintf("10.0.0.%d", i+1)
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: k.addresses[h]}}
		if err := k.client.Status().Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cephname.Namespace}}
	if err := k.client.Create(t.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	t.Cleanup(k.sweepUp)
	k.restartCeph()
	return k
}

// restartCeph replaces the controller by one that remembers nothing.
func (k *kubelet) restartCeph() {
	k.restartController()
	files := cephbackend.New(cephbackend.Config{
		Agents: k.pool, Disks: filesystems.Disks{Calls: osdcalls.Calls{Pool: k.pool}}, Client: k.client, Live: k.client,
		Runner: func(fsid string) ceph.Runner {
			k.model.Change(func() {
				if k.fsid != "" && fsid != k.fsid {
					k.t.Errorf("the monitors of %s are asked, and not of %s", fsid, k.fsid)
				}
				k.model.FSID = fsid
			})
			return k.model
		},
		// What is asked is as young as it was a moment ago.
		Now: func() time.Time { return time.Now().Add(time.Duration(k.ahead.Load())) }, Young: time.Nanosecond,
	})
	cfg := k.r.Config
	cfg.Profiles = nil
	local, _ := k.r.BackendOf(&v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{StorageType: v1alpha1.StorageTypeLVM}})
	r := New(k.r.Config, Backends{v1alpha1.StorageTypeLVM: local, v1alpha1.StorageTypeCephFS: files})
	k.r = r
}

// sweepUp removes what is left in the namespace.
func (k *kubelet) sweepUp() {
	ctx := context.Background()
	for _, o := range []client.Object{&appsv1.Deployment{}, &corev1.Pod{}, &corev1.Secret{}, &corev1.Service{}, &corev1.ConfigMap{}, &policyv1.PodDisruptionBudget{}} {
		if err := k.client.DeleteAllOf(ctx, o, client.InNamespace(cephname.Namespace), client.GracePeriodSeconds(0)); err != nil {
			k.t.Error(err)
		}
	}
}

// work does once what kubelet and daemons do.
func (k *kubelet) work() {
	k.t.Helper()
	ctx := context.Background()
	var all appsv1.DeploymentList
	var pods corev1.PodList
	for _, l := range []client.ObjectList{&all, &pods} {
		if err := k.client.List(ctx, l, client.InNamespace(cephname.Namespace)); err != nil {
			k.t.Fatal(err)
		}
	}
	for i := range all.Items {
		d := &all.Items[i]
		if !d.DeletionTimestamp.IsZero() {
			k.end(d)
			continue
		}
		i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return p.Name == d.Name })
		if i >= 0 && pods.Items[i].Annotations[cephpod.AnnotationTemplate] != cephpod.Template(d) {
			k.replaced = append(k.replaced, d.Labels[cephname.LabelDaemon]+"."+d.Labels[cephname.LabelID])
			k.stop(d)
			i = -1
		}
		if i < 0 {
			k.run(d)
		}
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Labels[cephname.LabelDaemon] == cephname.DaemonSweep && p.Status.Phase != corev1.PodSucceeded {
			p.Status.Phase = corev1.PodSucceeded
			if err := k.client.Status().Update(ctx, p); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				k.t.Fatal(err)
			}
		}
	}
}

// opens does to the disk of an OSD what the container does that begins: one that came back as another device is opened anew.
func (k *kubelet) opens(d *appsv1.Deployment, node string) {
	if a := k.agents[node]; a != nil && a.Marks("sdb").Moved && d.Labels[cephname.LabelDaemon] == cephname.DaemonOSD {
		a.Replug("sdb", false)
	}
}

// run starts the daemon of a Deployment.
func (k *kubelet) run(d *appsv1.Deployment) {
	k.t.Helper()
	p := &corev1.Pod{ObjectMeta: *d.Spec.Template.ObjectMeta.DeepCopy(), Spec: *d.Spec.Template.Spec.DeepCopy()}
	p.Name, p.Namespace = d.Name, d.Namespace
	p.Spec.PriorityClassName = ""
	p.Annotations[cephpod.AnnotationTemplate] = cephpod.Template(d)
	if err := k.client.Create(context.Background(), p); err != nil {
		k.t.Fatal(err)
	}
	begun := []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: begun, ContainerStatuses: []corev1.ContainerStatus{{
		Name: p.Spec.Containers[0].Name, ContainerID: "containerd://" + tools, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}}
	if err := k.client.Status().Update(context.Background(), p); err != nil {
		k.t.Fatal(err)
	}
	d.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1, ObservedGeneration: d.Generation}
	if err := k.client.Status().Update(context.Background(), d); err != nil && !apierrors.IsConflict(err) {
		k.t.Fatal(err)
	}
	id, node := d.Labels[cephname.LabelID], d.Annotations[cephname.AnnotationNode]
	k.opens(d, node)
	k.model.Change(func() {
		if _, version, tagged := strings.Cut(p.Spec.Containers[0].Image, ":v"); tagged {
			if k.model.Versions == nil {
				k.model.Versions = map[string]string{}
			}
			k.model.Versions[d.Labels[cephname.LabelDaemon]+"."+id] = version
		}
		switch d.Labels[cephname.LabelDaemon] {
		case cephname.DaemonMonitor:
			k.model.Monitors[id] = true
			k.model.Addresses[id] = k.addresses[node]
		case cephname.DaemonManager:
			k.model.Managers = append(k.model.Managers, id)
		case cephname.DaemonMetadata:
			k.model.Servers = append(k.model.Servers, id)
		case cephname.DaemonOSD:
			for i := range k.model.OSDs {
				if o := &k.model.OSDs[i]; strconv.Itoa(o.ID) == id {
					o.Start(node, 100<<30)
				}
			}
			if !slices.Contains(k.model.Hosts, node) {
				k.model.Hosts = append(k.model.Hosts, node)
			}
		}
	})
}

// end stops the daemon of a Deployment that is being deleted.
func (k *kubelet) end(d *appsv1.Deployment) {
	k.t.Helper()
	k.stop(d)
	d.Finalizers = nil
	if err := k.client.Update(context.Background(), d); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		k.t.Fatal(err)
	}
	kind := d.Labels[cephname.LabelDaemon]
	k.ended = append(slices.DeleteFunc(k.ended, func(x string) bool { return x == kind }), kind)
}

// stop removes the pod of a Deployment, and the daemon in it from the model.
func (k *kubelet) stop(d *appsv1.Deployment) {
	k.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace}}
	if err := k.client.Delete(context.Background(), p, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		k.t.Fatal(err)
	}
	id, kind := d.Labels[cephname.LabelID], d.Labels[cephname.LabelDaemon]
	k.model.Change(func() {
		drop := func(names []string) []string { return slices.DeleteFunc(names, func(n string) bool { return n == id }) }
		switch kind {
		case cephname.DaemonMonitor:
			if _, mapped := k.model.Monitors[id]; mapped {
				k.model.Monitors[id] = false
			}
		case cephname.DaemonManager:
			k.model.Managers = drop(k.model.Managers)
		case cephname.DaemonMetadata:
			k.model.Servers = drop(k.model.Servers)
		case cephname.DaemonOSD:
			for i := range k.model.OSDs {
				if strconv.Itoa(k.model.OSDs[i].ID) == id {
					k.model.OSDs[i].Up = false
				}
			}
		}
	})
}

// until works and reconciles until the check has nothing to complain about. It gives up after a time and a number of passes: on a busy machine a pass takes seconds.
func (k *kubelet) until(check func(*v1alpha1.Cluster) string) {
	k.t.Helper()
	k.waitFor(check, true)
}

// untilQuietly does the same while steps fail.
func (k *kubelet) untilQuietly(check func(*v1alpha1.Cluster) string) {
	k.t.Helper()
	k.waitFor(check, false)
}

func (k *kubelet) waitFor(check func(*v1alpha1.Cluster) string, errors bool) {
	k.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for pass := 1; ; pass++ {
		k.work()
		err := k.reconcile("files")
		complaint := ""
		if c := (&v1alpha1.Cluster{}); err != nil && errors {
			complaint = err.Error()
		} else if err := k.client.Get(context.Background(), clientKey("files"), c); err == nil {
			if complaint = check(c); complaint != "" {
				complaint += fmt.Sprintf("; phase %s, message %q, ceph %+v", c.Status.Phase, c.Status.Message, c.Status.Ceph)
			}
		} else if complaint = check(nil); complaint != "" {
			complaint += ": the Cluster is gone"
		}
		if complaint == "" {
			return
		}
		if pass > 200 && time.Now().After(deadline) {
			k.t.Fatal(complaint)
		}
		// What is waited for needs time rather than passes: agents report, steps end in the background. Where nothing is under way, Ceph is asked rarely.
		time.Sleep(50 * time.Millisecond)
		k.ahead.Add(int64(2 * time.Second))
	}
}

func (k *kubelet) addFiles(edit func(*v1alpha1.ClusterSpec), hosts ...string) {
	k.t.Helper()
	k.suite.add("files", func(s *v1alpha1.ClusterSpec) {
		s.StorageType = v1alpha1.StorageTypeCephFS
		s.Devices = &v1alpha1.DeviceSelector{MinAge: &metav1.Duration{}}
		if edit != nil {
			edit(s)
		}
	}, hosts...)
}

// served is a Cluster that serves, with so many OSDs and monitors.
func (k *kubelet) served(osds, mons int) func(*v1alpha1.Cluster) string {
	return func(c *v1alpha1.Cluster) string {
		switch {
		case c == nil || c.Status.Ceph == nil:
			return "no status"
		case c.Status.Phase != v1alpha1.PhaseRunning && c.Status.Phase != v1alpha1.PhaseWarning:
			return "does not serve"
		case k.class("files") == nil:
			return "no class"
		case int(c.Status.Ceph.OSDs.Up) != osds || len(c.Status.Ceph.Monitors) != mons:
			return "other daemons"
		}
		return ""
	}
}

// TestCeph_budget: a drain asks how many OSDs may go, and the API server is told so while Ceph can do without, and of which host.
func TestCeph_budget(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	k.addFiles(nil, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	budget := func(away int32, free string) func(*v1alpha1.Cluster) string {
		return func(*v1alpha1.Cluster) string {
			b := &policyv1.PodDisruptionBudget{}
			if err := k.client.Get(t.Context(), client.ObjectKey{Namespace: cephname.Namespace, Name: "ceph-files-osd"}, b); err != nil {
				return err.Error()
			}
			if got := metav1.FormatLabelSelector(b.Spec.Selector); b.Spec.MaxUnavailable.IntVal != away || strings.Contains(got, cephname.LabelID) != (free != "") || !strings.Contains(got, free) {
				return fmt.Sprintf("%d may go of %s", b.Spec.MaxUnavailable.IntVal, got)
			}
			return ""
		}
	}
	k.until(budget(1, ""))
	k.groups("active+undersized+degraded")
	k.until(budget(0, ""))
	k.restartCeph()
	k.passes(3)
	if why := budget(0, "")(nil); why != "" {
		t.Error(why)
	}
	k.groups("active+clean")
	k.until(budget(1, ""))
	c := k.get("files")
	c.Spec.Maintenance = []v1alpha1.HostName{"n1"}
	if err := k.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	k.groups("active+remapped+backfilling")
	k.until(budget(0, cephname.LabelID+" notin ("))
	k.groups("active+clean")
	k.until(budget(1, ""))
}

func TestCeph_fromDisksToClass(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	k.addFiles(func(s *v1alpha1.ClusterSpec) {
		s.Ceph = &v1alpha1.CephSpec{Config: map[string]v1alpha1.CephOption{"osd.bluestore_cache_size": "32Mi", "osd.nonsense_option": "1"}}
	}, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	k.until(func(c *v1alpha1.Cluster) string {
		return hasCondition(v1alpha1.ConditionCephConfigured, metav1.ConditionFalse, v1alpha1.ReasonOptionRefused, "osd.nonsense_option", "unrecognized config option")(c)
	})
	c := k.get("files")
	if c.Status.Ceph.FSID != string(c.UID) || c.Annotations[v1alpha1.AnnotationCephFormed] != string(c.UID) || c.Annotations[v1alpha1.AnnotationCephServed] != string(c.UID) {
		t.Errorf("record %v, status %+v", c.Annotations, c.Status.Ceph)
	}
	k.model.Change(func() {
		if len(k.model.Pools) != 2 || k.model.Pools[0].Size != 3 || k.model.Options["osd.bluestore_cache_size"] != "32Mi" || !k.model.Volumes.Grouped {
			t.Errorf("pools %+v, options %v", k.model.Pools, k.model.Options)
		}
	})
	secret := &corev1.Secret{}
	if err := k.client.Get(t.Context(), client.ObjectKey{Namespace: cephname.Namespace, Name: cephname.Client("files")}, secret); err != nil {
		t.Fatal(err)
	}
	if got := string(secret.Data["monitors"]); strings.Count(got, ":3300") != 3 {
		t.Errorf("the clients know the monitors %q", got)
	}
	class := k.class("files")
	if class.Parameters["csi.storage.k8s.io/node-stage-secret-name"] != secret.Name {
		t.Errorf("parameters %v", class.Parameters)
	}
	for _, a := range k.agents {
		labels := a.Labels("sdb")
		if len(labels) == 0 || !labels[0].Label.Ready {
			t.Errorf("labels %+v", labels)
		}
	}
}

func TestCeph_deleteLeavesDisksClean(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	k.addFiles(nil, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	k.model.Change(func() { k.model.Volumes.All["left"] = &cephtest.Subvolume{Bytes: 1} })
	k.deleteCluster("files")
	k.until(func(c *v1alpha1.Cluster) string {
		if c == nil || !strings.Contains(c.Status.Message, "left") {
			return "it does not say which volume holds it"
		}
		return ""
	})
	for _, a := range k.agents {
		if len(a.Labels("sdb")) == 0 {
			t.Fatal("a disk was cleared while the filesystem had a volume")
		}
	}
	k.model.Change(func() { delete(k.model.Volumes.All, "left") })
	k.ended = nil
	k.until(func(c *v1alpha1.Cluster) string {
		if c != nil {
			return "still there"
		}
		return ""
	})
	want := []string{cephname.DaemonMetadata, cephname.DaemonOSD, cephname.DaemonManager, cephname.DaemonMonitor}
	if got := slices.DeleteFunc(k.ended, func(s string) bool { return s == cephname.DaemonTools }); !slices.Equal(got, want) {
		t.Errorf("daemons ended in the order %v", got)
	}
	for name, a := range k.agents {
		if len(a.Labels("sdb")) != 0 || !a.IsEmpty("sdb") {
			t.Errorf("%s: its disk carries %+v", name, a.Labels("sdb"))
		}
	}
	for _, l := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.SecretList{}, &policyv1.PodDisruptionBudgetList{}} {
		if err := k.client.List(t.Context(), l, client.InNamespace(cephname.Namespace)); err != nil || lenOf(l) > 0 {
			t.Errorf("%T: %d left, %v", l, lenOf(l), err)
		}
	}
}

func lenOf(l client.ObjectList) int {
	switch l := l.(type) {
	case *appsv1.DeploymentList:
		return len(l.Items)
	case *corev1.SecretList:
		return len(l.Items)
	case *policyv1.PodDisruptionBudgetList:
		return len(l.Items)
	}
	return -1
}

func TestCeph_hostLeaves(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3", "n4")
	k.addFiles(nil, "n1", "n2", "n3", "n4")
	k.until(k.served(4, 3))
	c := k.get("files")
	c.Spec.Hosts = []v1alpha1.HostName{"n2", "n3", "n4"}
	if err := k.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	// Data are on it: it is marked out, and nothing more.
	k.until(func(*v1alpha1.Cluster) string {
		m := k.member("files", "n1")
		if m == nil || m.DeletionTimestamp.IsZero() || len(m.Spec.Ceph.OSDs) != 1 || !m.Spec.Ceph.OSDs[0].Outed || m.Status.State != "failed" || !strings.Contains(m.Status.Message, "not safe elsewhere") {
			return fmt.Sprintf("member %+v", m)
		}
		return ""
	})
	if labels := k.agents["n1"].Labels("sdb"); len(labels) == 0 {
		t.Fatal("its disk was cleared")
	}
	uuid := k.member("files", "n1").Spec.Ceph.OSDs[0].UUID
	k.model.Change(func() {
		for i := range k.model.OSDs {
			if k.model.OSDs[i].UUID == uuid {
				k.model.OSDs[i].Holds = false
			}
		}
	})
	k.until(func(c *v1alpha1.Cluster) string {
		if k.member("files", "n1") != nil {
			return "the member is still there"
		}
		return k.served(3, 3)(c)
	})
	if !k.agents["n1"].IsEmpty("sdb") {
		t.Errorf("its disk carries %+v", k.agents["n1"].Labels("sdb"))
	}
	k.model.Change(func() {
		if slices.Contains(k.model.Hosts, "n1") || slices.ContainsFunc(k.model.OSDs, func(o cephtest.OSD) bool { return o.UUID == uuid }) {
			t.Errorf("Ceph still has %v, %+v", k.model.Hosts, k.model.OSDs)
		}
	})
}

func TestCeph_keysAreNeverMadeAnew(t *testing.T) {
	k := newCeph(t, "n1")
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Replicas: 1} }, "n1")
	k.until(k.served(1, 1))
	k.until(func(c *v1alpha1.Cluster) string {
		return hasCondition(v1alpha1.ConditionCopiesSafe, metav1.ConditionFalse, v1alpha1.ReasonFewCopies)(c)
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: cephname.Keys("files"), Namespace: cephname.Namespace}}
	if err := k.client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	k.until(func(c *v1alpha1.Cluster) string {
		return hasCondition(v1alpha1.ConditionMonitorsReady, metav1.ConditionFalse, v1alpha1.ReasonCephKeysMissing, cephname.Keys("files"))(c)
	})
	if err := k.client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); !apierrors.IsNotFound(err) {
		t.Errorf("keys: %v", err)
	}
}
