//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestMembersSurviveRestore: a backup brings objects back with new UIDs and without status. Then nothing is torn down, nothing new is made
// on any disk, volumes serve as before, and the status says what is wrong. Once a person approves it, the groups are the Cluster's again, and grow.
func TestMembersSurviveRestore(t *testing.T) {
	turn(t, 15, 20)
	const name = "restored"
	c := newCluster(name, "n1", "n2")
	create(t, c)
	c = waitReady(t, name, limitReady)
	members, err := membersOf(t.Context(), name)
	if err != nil || len(members) != 2 {
		t.Fatalf("%s, %v", describeMembers(members), err)
	}
	old, devices := string(c.UID), devicesOf(t, name)
	t.Cleanup(func() { cleanByHand(t, name, devices) })
	claim, volume := keepVolume(t, name)
	disks := map[string]string{"n1": onDisks(t, "n1"), "n2": onDisks(t, "n2")}

	stopController(t)
	erase(t, c)
	for i := range members {
		erase(t, &members[i])
		restore(t, &members[i])
	}
	restore(t, c)
	startController(t)
	t.Run("Cluster and Members", func(t *testing.T) {
		waitCondition(t, name, v1alpha1.ConditionHostsValid, v1alpha1.ReasonNameTaken, members[0].Name, members[1].Name, old)
		for _, m := range members {
			waitOwnerMissing(t, &m, old)
		}
		p := pod(t, "after-restore", "n1", "grep kept /data0/file", claim)
		waitPod(t, p, corev1.PodSucceeded)
		remove(t, p)
		nothingHappens(t, name, disks)
	})

	stopController(t)
	erase(t, c)
	for i := range members {
		erase(t, &members[i])
	}
	// A clean disk on a host without volumes: a Cluster that has just been created would begin to use it.
	tempting := plug(t, "n2", newImage(t, "tempting", 1<<30), "ubd")
	restore(t, c)
	startController(t)
	t.Run("the Cluster only", func(t *testing.T) {
		waitCondition(t, name, v1alpha1.ConditionDisksReady, v1alpha1.ReasonVolumeGroupLost, volume.Name,
			"belongs to a Cluster with UID "+old+", which does not exist any more", "Approve the plan with "+v1alpha1.ActionImportVolumeGroup)
		disksStay(t, disks)
		made, err := membersOf(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range made {
			if m.Spec.Group != nil || m.Status.DeviceCount != 0 {
				t.Errorf("%s records %+v and has %d devices", m.Name, m.Spec.Group, m.Status.DeviceCount)
			}
		}
	})

	t.Run("imported by approval", func(t *testing.T) { importsAll(t, name, volume.Name, members, tempting) })
	p := pod(t, "after-import", "n1", "grep kept /data0/file", claim)
	waitPod(t, p, corev1.PodSucceeded)
	remove(t, p)
	second, p := anotherVolume(t, name, volume)
	waitPod(t, p, corev1.PodSucceeded)
	remove(t, p)
	remove(t, claim)
	remove(t, second)
	if err := kube.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	waitGone(t, name)
	for node, paths := range devices {
		for _, d := range paths {
			checkClean(t, node, d)
		}
	}
}

// importsAll approves the plan of a Cluster that was restored under another UID, and waits until both hosts have on record what they had before, and n2 has
// grown by a disk.
func importsAll(t *testing.T, name, volume string, before []v1alpha1.Member, spare *disk) {
	t.Helper()
	var digest string
	eventually(t, limitReady, "Cluster "+name+" plans to import its groups", func(ctx context.Context) error {
		c, err := getCluster(ctx, name)
		if err != nil {
			return err
		}
		if c.Status.Plan == nil || len(c.Status.Plan.Steps) != len(before) {
			return fmt.Errorf("plan %+v: %s", c.Status.Plan, c.Status.Message)
		}
		for _, step := range c.Status.Plan.Steps {
			if named := strings.Contains(strings.Join(step.Volumes, " "), volume); step.Action != v1alpha1.ActionImportVolumeGroup || named != (step.Host == "n1") {
				return fmt.Errorf("step %+v", step)
			}
		}
		digest = c.Status.Plan.Digest
		return nil
	})
	approve(t, name, digest)
	waitReady(t, name, limitReady)
	path := awaitDevice(t, spare, func(*v1alpha1.NodeDevice) bool { return true }).Path
	lab(t, "kubectl", "patch", "cluster.quarry.storage", name, "--type=merge", "-p", `{"spec":{"devices":{"hotplug":true}}}`)
	eventually(t, limitReady, "n2 takes the disk that is there", func(ctx context.Context) error {
		if got := devicesOf(t, name)["n2"]; !slices.Contains(got, path) {
			return fmt.Errorf("devices %v, without %s", got, path)
		}
		return ctx.Err()
	})
	waitReady(t, name, limitReady)
	for _, m := range before {
		now, err := memberOf(t.Context(), name, string(m.Spec.Node))
		if err != nil || now.Spec.Group == nil || now.Spec.Group.UUID != m.Spec.Group.UUID {
			t.Errorf("record of %s: %+v, before %+v, %v", m.Spec.Node, now.Spec.Group, m.Spec.Group, err)
		}
	}
}

// anotherVolume makes a volume in a group that was imported, and lets the one that outlived its claims go with them.
func anotherVolume(t *testing.T, class string, old *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, *corev1.Pod) {
	t.Helper()
	lab(t, "kubectl", "patch", "pv", old.Name, "-p", `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	c := claim(t, "more-"+class, class, "64Mi")
	return c, pod(t, "writes-"+class, "n1", "echo more > /data0/file && sync", c)
}

// keepVolume makes a volume with a file on n1. Its data outlives the claim: nobody can delete it through a Cluster that is gone.
func keepVolume(t *testing.T, class string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	t.Helper()
	c := claim(t, "kept-"+class, class, "64Mi")
	p := pod(t, "keeps-"+class, "n1", "echo kept > /data0/file && sync", c)
	waitPod(t, p, corev1.PodSucceeded)
	remove(t, p)
	v := volumeOf(t, c)
	patch := client.MergeFrom(v.DeepCopy())
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	if err := kube.Patch(t.Context(), v, patch); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, v) })
	return c, v
}

var controllerPods = []string{"kubectl", "-n", controllerNamespace}

// stopController ends the controller, and starts it again when the test ends before startController does.
func stopController(t *testing.T) {
	t.Helper()
	lab(t, append(controllerPods, "scale", "deployment/quarry-controller", "--replicas=0")...)
	lab(t, append(controllerPods, "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=quarry-controller", "--timeout=60s")...)
	t.Cleanup(func() { startController(t) })
}

func startController(t *testing.T) {
	t.Helper()
	lab(t, append(controllerPods, "scale", "deployment/quarry-controller", "--replicas=2")...)
	lab(t, append(controllerPods, "rollout", "status", "deployment/quarry-controller", "--timeout=120s")...)
}

// erase takes an object away as if the API server had never had it. The controller must not run.
func erase(t *testing.T, o client.Object) {
	t.Helper()
	now := o.DeepCopyObject().(client.Object)
	if err := kube.Get(context.Background(), client.ObjectKeyFromObject(o), now); err != nil {
		t.Fatal(err)
	}
	before := now.DeepCopyObject().(client.Object)
	now.SetFinalizers(nil)
	// Those that are the record of a Ceph cluster stay: a policy guards them.
	annotations := maps.Clone(now.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationRemove] = string(now.GetUID())
	now.SetAnnotations(annotations)
	if err := errors.Join(kube.Patch(context.Background(), now, client.MergeFrom(before)), kube.Delete(context.Background(), now)); err != nil {
		t.Fatal(err)
	}
}

// restore makes an object anew, as a backup has it: with its finalizers, with another UID and without status.
func restore(t *testing.T, o client.Object) {
	t.Helper()
	copied := o.DeepCopyObject().(client.Object)
	copied.SetUID("")
	copied.SetResourceVersion("")
	copied.SetCreationTimestamp(metav1.Time{})
	copied.SetManagedFields(nil)
	controllerutil.AddFinalizer(copied, v1alpha1.FinalizerTeardown)
	switch o := copied.(type) {
	case *v1alpha1.Cluster:
		o.Status = v1alpha1.ClusterStatus{}
	case *v1alpha1.Member:
		o.Finalizers, o.Status = []string{v1alpha1.FinalizerMember}, v1alpha1.MemberStatus{}
		t.Cleanup(func() {
			if kube.Get(context.Background(), client.ObjectKeyFromObject(o), o) == nil {
				erase(t, o)
			}
		})
	}
	if err := kube.Create(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
}

// waitCondition waits until a condition of a Cluster is False for a reason, and its message says all of some texts.
func waitCondition(t *testing.T, name, condition, reason string, texts ...string) {
	t.Helper()
	eventually(t, limitReady, "Cluster "+name+" tells "+reason, func(ctx context.Context) error {
		c, err := getCluster(ctx, name)
		if err != nil {
			return err
		}
		found := meta.FindStatusCondition(c.Status.Conditions, condition)
		if found == nil || found.Status != metav1.ConditionFalse || found.Reason != reason {
			return fmt.Errorf("%s is %+v; all: %+v", condition, found, c.Status.Conditions)
		}
		for _, text := range texts {
			if !strings.Contains(found.Message, text) {
				return fmt.Errorf("%s does not say %q: %s", condition, text, found.Message)
			}
		}
		return nil
	})
}

func waitOwnerMissing(t *testing.T, m *v1alpha1.Member, owner string) {
	t.Helper()
	eventually(t, limitReady, m.Name+" tells that its owner is missing", func(ctx context.Context) error {
		now := &v1alpha1.Member{}
		if err := kube.Get(ctx, client.ObjectKeyFromObject(m), now); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Reason != v1alpha1.ReasonOwnerMissing || !strings.Contains(now.Status.Message, owner) {
			return fmt.Errorf("%+v, message %q", ready, now.Status.Message)
		}
		if diff := cmp.Diff(m.Spec, now.Spec); diff != "" || !now.DeletionTimestamp.IsZero() {
			t.Errorf("the Member was changed (-before +after):\n%s", diff)
		}
		return nil
	})
}

// nothingHappens watches the disks for a while: there is no event to wait for.
func nothingHappens(t *testing.T, cluster string, disks map[string]string) {
	t.Helper()
	disksStay(t, disks)
	if c, err := getCluster(t.Context(), cluster); err == nil && c.Status.Plan != nil {
		t.Errorf("there is a plan: %+v", c.Status.Plan)
	}
}

func disksStay(t *testing.T, disks map[string]string) {
	t.Helper()
	time.Sleep(3 * time.Second)
	for node, before := range disks {
		if diff := cmp.Diff(before, onDisks(t, node)); diff != "" {
			t.Errorf("the disks of %s were changed (-before +after):\n%s", node, diff)
		}
	}
}

// cleanByHand removes a group whose owner is gone, as an administrator does. It may be called again.
func cleanByHand(t *testing.T, cluster string, devices map[string][]string) {
	t.Helper()
	group := v1alpha1.DefaultVolumeGroupPrefix + cluster
	for node, paths := range devices {
		script := fmt.Sprintf(`if vgs --foreign %[1]s >/dev/null 2>&1; then
				vgremove %[3]s --yes --force --quiet %[1]s
				for d in %[2]s; do pvremove --yes --quiet $d; dd if=/dev/zero of=$d bs=1M count=1 conv=fsync 2>/dev/null; done
			fi`, group, strings.Join(paths, " "), asNode(node))
		if _, err := tryOnNode(node, script); err != nil {
			t.Error(err)
		}
	}
}
