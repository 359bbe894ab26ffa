//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// keeperNfs is an Nfs that keeps the CSI driver of NFS deployed between the tests.
const keeperNfs = "keeper-nfs"

// server is the lab's storage node. Tests that only use it hold it for reading, one that takes its power for writing.
var server struct {
	sync.RWMutex
	once sync.Once
	err  error
	// address of the node.
	address string
	// exports are the names of the directories that tests have exported: each is there from now on.
	exports sync.Map
}

// useServer brings the storage node up and lets the test run beside others that use it.
func useServer(t *testing.T) {
	t.Helper()
	t.Parallel()
	server.RLock()
	t.Cleanup(server.RUnlock)
	startServer(t)
}

// ownServer brings the storage node up and keeps it for this test alone.
func ownServer(t *testing.T) {
	t.Helper()
	server.Lock()
	t.Cleanup(server.Unlock)
	startServer(t)
}

func startServer(t *testing.T) {
	t.Helper()
	server.once.Do(func() {
		var out string
		if out, server.err = tryLab("storage", "up"); server.err == nil {
			server.address = lastLine(out)
			server.err = client.IgnoreAlreadyExists(kube.Create(context.Background(), newNfs(keeperNfs, "data")))
		}
	})
	if server.err != nil {
		t.Fatal(server.err)
	}
}

// newNfs is an Nfs on an export of the storage node.
func newNfs(name, export string, change ...func(*v1alpha1.Nfs)) *v1alpha1.Nfs {
	n := &v1alpha1.Nfs{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.Server, n.Spec.Path = server.address, "/export/"+export
	for _, f := range change {
		f(n)
	}
	return n
}

// share makes an export and an Nfs of its name, and waits until volumes can be made. The export is empty before and after.
func share(t *testing.T, name string, change ...func(*v1alpha1.Nfs)) *v1alpha1.Nfs {
	t.Helper()
	export(t, name)
	clear := func() string { return onServer(t, "find /export/"+name+" -mindepth 1 -delete") }
	clear()
	t.Cleanup(func() { clear() })
	n := newNfs(name, name, change...)
	create(t, n)
	waitRunning(t, n, limitPod)
	return n
}

// export makes a directory of the storage node that its clients can mount, or leaves it as it is.
func export(t *testing.T, name string) {
	t.Helper()
	server.exports.Store(name, true)
	lab(t, "storage", "export", name)
}

// onServer runs a script on the storage node.
func onServer(t *testing.T, script string) string {
	t.Helper()
	return onNode(t, "storage", script)
}

func shared(c *corev1.PersistentVolumeClaim) {
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
}

// TestNfsSharedByNodes: pods on two nodes write to one claim at the same time, a third reads both. Expansion changes the number only.
func TestNfsSharedByNodes(t *testing.T) {
	turn(t, 1, 2)
	useServer(t)
	const name = "by-nodes"
	n := share(t, name, func(n *v1alpha1.Nfs) { n.Spec.SubDir = "${pvc.namespace}/${pvc.name}" })
	c := claim(t, "together", name, "100Mi", shared)
	volume := bound(t, c)
	if mode := volume.Spec.AccessModes; volume.Spec.CSI.Driver != v1alpha1.DriverNFS || len(mode) != 1 || mode[0] != corev1.ReadWriteMany {
		t.Errorf("volume %+v", volume.Spec)
	}
	if out := onServer(t, "stat -c %F:%a:%u "+path.Join(n.Spec.Path, namespace, c.Name)); strings.TrimSpace(out) != "directory:770:0" {
		t.Errorf("the directory that subDir says is %q", out)
	}

	// Each waits for the other, so that both write at the same time. They list the directory: a client may remember for a minute and
	// longer that a file is not there.
	const wait = "until ls /data0 | grep -qx %s; do sleep 0.2; done; "
	script := func(self, other string) string {
		return fmt.Sprintf("touch /data0/%[1]s.ready; "+wait+`for i in $(seq 200); do echo "$i" >> /data0/%[1]s; done
			touch /data0/%[1]s.done; sync; `, self, other+".ready") + fmt.Sprintf(wait, "read")
	}
	one := waitPod(t, sharing(t, "one", "n1", script("one", "two"), c), corev1.PodRunning)
	two := waitPod(t, sharing(t, "two", "n2", script("two", "one"), c), corev1.PodRunning)
	reader := waitPod(t, sharing(t, "three", "n3", fmt.Sprintf(wait, "one.done")+fmt.Sprintf(wait, "two.done")+
		"seq 200 | cmp - /data0/one; seq 200 | cmp - /data0/two; echo both; touch /data0/read", c), corev1.PodSucceeded)
	if out := logs(reader); out != "both\n" {
		t.Errorf("the third pod says %q", out)
	}
	for _, p := range []*corev1.Pod{one, two} {
		waitPod(t, p, corev1.PodSucceeded)
	}
	checkExpansion(t, c)
	checkNfsStatus(t, n)

	for _, p := range []*corev1.Pod{one, two, reader} {
		remove(t, p)
	}
	remove(t, c)
	waitVolumeGone(t, volume)
	if out := onServer(t, "find "+n.Spec.Path+" -mindepth 1 -not -path '*/.quarry*'"); strings.Contains(out, c.Name) {
		t.Errorf("left on the share: %s", out)
	}
}

// sharing is a pod of an ordinary user that belongs to a group of the volume.
func sharing(t *testing.T, name, node, script string, c *corev1.PersistentVolumeClaim) *corev1.Pod {
	t.Helper()
	p := newPod(name, node, script)
	p.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](1000), FSGroup: ptr.To[int64](2000), RunAsNonRoot: ptr.To(true),
	}
	mountClaim(p, 0, c)
	createObject(t, p)
	return p
}

// checkExpansion: NFS enforces no size.
func checkExpansion(t *testing.T, c *corev1.PersistentVolumeClaim) {
	t.Helper()
	patch := client.MergeFrom(c.DeepCopy())
	c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("3Gi")
	if err := kube.Patch(t.Context(), c, patch); err != nil {
		t.Fatal(err)
	}
	eventually(t, limitPod, "the claim has the new size", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if got := c.Status.Capacity[corev1.ResourceStorage]; got.Cmp(resource.MustParse("3Gi")) != 0 {
			return fmt.Errorf("it has %s, conditions %v", got.String(), c.Status.Conditions)
		}
		return nil
	})
}

func checkNfsStatus(t *testing.T, n *v1alpha1.Nfs) {
	t.Helper()
	eventually(t, limitReady, "the Nfs tells its volumes, its size and where it was seen from", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		if s := n.Status; s.VolumeCount != 1 || s.Version != "4.2" || s.ShareID == "" || !strings.HasPrefix(s.CheckedFrom, "n") {
			return fmt.Errorf("status %+v", s)
		}
		if total := n.Status.Capacity.Total; total.Total == nil || total.Free == nil || total.Total.Cmp(resource.MustParse("3Gi")) < 0 {
			return fmt.Errorf("capacity %+v", total)
		}
		return nil
	})
	class := &storagev1.StorageClass{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: n.Name}, class); err != nil || class.Provisioner != v1alpha1.DriverNFS {
		t.Errorf("StorageClass %+v, %v", class, err)
	}
	table := lab(t, "kubectl", "get", "qn", n.Name)
	for _, column := range []string{"SERVER", "PATH", "PHASE", "CAPACITY", "FREE", "AGE", n.Spec.Server, n.Spec.Path, "Running"} {
		if !strings.Contains(table, column) {
			t.Errorf("kubectl get qn does not show %s:\n%s", column, table)
		}
	}
}

// waitVolumeGone waits until the driver has deleted a volume.
func waitVolumeGone(t *testing.T, v *corev1.PersistentVolume) {
	t.Helper()
	eventually(t, limitPod, "volume "+v.Name+" is gone", func(ctx context.Context) error {
		now := &corev1.PersistentVolume{}
		err := kube.Get(ctx, client.ObjectKeyFromObject(v), now)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is %s: %s", now.Status.Phase, fmt.Sprint(err))
	})
}

// secondServer serves a disk of a node's own over NFS, from the node's kernel, and returns an Nfs for it. It works while the storage node
// does not. The disk is the root of what is exported: NFS 4 leads clients through all directories above an export, and the kernel exports
// nothing of a node's own root, an overlay.
func secondServer(t *testing.T, node, name string) *v1alpha1.Nfs {
	t.Helper()
	image := newImage(t, "second", 1<<30)
	onHost(t, "mkfs.ext4", "-q", "-F", image)
	d := plug(t, node, image, "ubd")
	t.Cleanup(func() {
		// The kernel lets go of what was exported in its own time.
		onNode(t, node, `exportfs -ua; rpc.nfsd 0; exportfs -f; pids=$(pidof rpc.mountd nfsdcld) && kill $pids
			for i in $(seq 100); do umount /srv 2>/dev/null && exit; exportfs -f; sleep 0.1; done; umount /srv`)
	})
	onNode(t, node, strings.ReplaceAll(`modprobe -a nfsd auth_rpcgss
		mkdir -p /run/rpc_pipefs /var/lib/nfs/nfsdcld
		mountpoint -q /run/rpc_pipefs || mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
		mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
		mount DEV /srv
		mkdir /srv/second
		printf '[general]\npipefs-directory=/run/rpc_pipefs\n[exports]\nrootdir=/srv\n' > /etc/nfs.conf
		nfsdcld
		rpc.mountd --no-nfs-version 3
		exportfs -i -o rw,no_root_squash,sync,no_subtree_check,fsid=7 '*:/second'
		rpc.nfsd --no-nfs-version 3 --grace-time 10 --lease-time 10 2`, "DEV", d.device))
	address := ""
	nodeObject := &corev1.Node{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: node}, nodeObject); err != nil {
		t.Fatal(err)
	}
	for _, a := range nodeObject.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			address = a.Address
		}
	}
	n := &v1alpha1.Nfs{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.Server, n.Spec.Path = address, "/second"
	create(t, n)
	waitRunning(t, n, limitPod)
	return n
}
