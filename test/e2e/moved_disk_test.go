//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

// TestMovedDiskIsImportedByApproval moves the disk of a group from n1 to n2. Its group becomes that of n2 by an approved plan that names the
// volume, and not before. Then the PersistentVolume is made anew as the documentation says, and a pod on n2 reads what one on n1 wrote.
func TestMovedDiskIsImportedByApproval(t *testing.T) {
	turn(t, 15, 20)
	const name = "moved"
	const group = v1alpha1.DefaultVolumeGroupPrefix + name
	d := plug(t, "n1", newImage(t, name, 1<<30), "scsi")
	path := awaitDevice(t, d, func(d *v1alpha1.NodeDevice) bool { return d.Available }).Path
	c := newCluster(name, "n1")
	c.Spec.Devices = &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{v1alpha1.DevicePath(path)}}
	create(t, c)
	waitReady(t, name, limitReady)
	pvc := claim(t, name, name, "64Mi")
	p := pod(t, name, "n1", "echo kept > /data0/file", pvc)
	waitPod(t, p, corev1.PodSucceeded)
	remove(t, p)
	uuid, volume := groupUUID(t, "n1", group), volumeOf(t, pvc)
	eventually(t, limitReady, "n1 lets go of the group", func(context.Context) error {
		_, err := tryOnNode("n1", "vgchange "+asNode("n1")+"-an "+group)
		return err
	})
	d.unplug(t)
	d.node = "n2"
	d.device = lastLine(lab(t, "disk", "add", d.node, d.image, "--bus", "scsi"))
	setHosts(t, name, "n1", "n2")
	digest := waitImport(t, name, volume.Name)
	if now := onNode(t, "n2", "vgs --foreign --noheadings -o vg_systemid "+group); strings.TrimSpace(now) != "quarry-n1" {
		t.Fatalf("before the approval the group names %s", now)
	}
	approve(t, name, digest)
	eventually(t, limitReady, "the Member of n2 records the group", func(ctx context.Context) error {
		m, err := memberOf(ctx, name, "n2")
		if err == nil && (m.Spec.Group == nil || m.Spec.Group.UUID != uuid) {
			err = fmt.Errorf("record %+v: %s", m.Spec.Group, m.Status.Message)
		}
		return err
	})
	rename(t, volume, "n2")
	setHosts(t, name, "n2")
	waitReady(t, name, limitReady)
	p = pod(t, name+"-again", "n2", "grep kept /data0/file", pvc)
	waitPod(t, p, corev1.PodSucceeded)
	remove(t, p)
}

// waitImport waits for the plan to import a group with a volume, and returns its digest.
func waitImport(t *testing.T, name, volume string) (digest string) {
	t.Helper()
	eventually(t, limitReady, "Cluster "+name+" plans to import the group", func(ctx context.Context) error {
		c, err := getCluster(ctx, name)
		if err != nil {
			return err
		}
		if c.Status.Plan == nil || len(c.Status.Plan.Steps) != 1 {
			return fmt.Errorf("plan %+v: %s", c.Status.Plan, c.Status.Message)
		}
		step := c.Status.Plan.Steps[0]
		if step.Action != v1alpha1.ActionImportVolumeGroup || step.Host != "n2" || !strings.Contains(strings.Join(step.Volumes, " "), volume) {
			return fmt.Errorf("step %+v", step)
		}
		digest = c.Status.Plan.Digest
		return nil
	})
	return digest
}

// rename makes a PersistentVolume anew on another node, and changes the tag of its logical volume, as docs/disks.md says.
func rename(t *testing.T, old *corev1.PersistentVolume, node string) {
	t.Helper()
	id, err := volumeid.Parse(old.Spec.CSI.VolumeHandle)
	if err != nil {
		t.Fatal(err)
	}
	anew := old.DeepCopy()
	anew.ObjectMeta = metav1.ObjectMeta{Name: old.Name, Annotations: old.Annotations, Labels: old.Labels}
	anew.Status = corev1.PersistentVolumeStatus{}
	from := id
	id.Node = node
	anew.Spec.CSI.VolumeHandle = id.String()
	for _, term := range anew.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for i := range term.MatchExpressions {
			if term.MatchExpressions[i].Key == v1alpha1.TopologyHost {
				term.MatchExpressions[i].Values = []string{node}
			}
		}
	}
	lab(t, "kubectl", "patch", "pv", old.Name, "-p", `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	lab(t, "kubectl", "delete", "pv", old.Name, "--wait=false")
	lab(t, "kubectl", "patch", "pv", old.Name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	eventually(t, limitReady, old.Name+" is gone", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(old), &corev1.PersistentVolume{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	onNode(t, node, fmt.Sprintf("lvchange %s--deltag %s --addtag %s %s/%s", asNode(node), from.Tag(), id.Tag(), id.Group, id.Name))
	if err := kube.Create(t.Context(), anew); err != nil {
		t.Fatal(err)
	}
}

// TestReinstalledNode: a node is deleted and registers anew under its name, with the disks that it had. Its group is on record, so nobody is
// asked, and a pod reads what was written before.
func TestReinstalledNode(t *testing.T) {
	turn(t, 12, 20)
	s := newSlotted(t, "reinstalled")
	before, err := memberOf(t.Context(), s.name, slotNode)
	if err != nil {
		t.Fatal(err)
	}
	lab(t, "node", "kill", slotNode)
	lab(t, "kubectl", "delete", "node", slotNode)
	lab(t, "node", "start", slotNode)
	s.serves(t)
	m, err := memberOf(t.Context(), s.name, slotNode)
	if err != nil || m.UID != before.UID || m.Spec.Group == nil || m.Spec.Group.UUID != s.group || m.Status.Plan != nil {
		t.Errorf("member %+v, %v", m, err)
	}
}

// TestOldDiskComesBack: a disk was lost with its group, a person said so, and the host got a new group under the same name. Then the old disk
// comes back: what is in the new group is served, the old one stays as it is, and nobody mixes them.
func TestOldDiskComesBack(t *testing.T) {
	turn(t, 17, 20)
	s := newSlotted(t, "old-disk")
	s.swap(t)
	waitCondition(t, s.name, v1alpha1.ConditionDisksReady, v1alpha1.ReasonVolumeGroupLost, s.group)
	old := s.group
	remove(t, s.user)
	m, err := memberOf(t.Context(), s.name, slotNode)
	if err != nil {
		t.Fatal(err)
	}
	lab(t, "kubectl", "patch", "member", m.Name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"lost":"%s"}}`, m.UID))
	remove(t, s.claim)
	waitReady(t, s.name, limitPod)
	if s.group = groupUUID(t, slotNode, "quarry-"+s.name); s.group == old || s.group == "" {
		t.Fatalf("the group is %q", s.group)
	}
	s.claim = claim(t, s.name+"-new", s.name, "64Mi")
	p := pod(t, s.name+"-new", slotNode, "echo new > /data0/file", s.claim)
	waitPod(t, p, corev1.PodSucceeded)
	remove(t, p)
	s.disk.device = lastLine(lab(t, "disk", "add", slotNode, s.disk.image))
	waitCondition(t, s.name, v1alpha1.ConditionDisksReady, v1alpha1.ReasonVolumeGroupConflict, old, "declared lost")
	p = pod(t, s.name+"-reads", slotNode, "grep new /data0/file", s.claim)
	waitPod(t, p, corev1.PodSucceeded)
	remove(t, p)
	found := strings.Fields(onNode(t, slotNode, "vgs --foreign --noheadings -o vg_uuid --select vg_name=quarry-"+s.name))
	if len(found) != 2 || !strings.Contains(strings.Join(found, " "), old) || !strings.Contains(strings.Join(found, " "), s.group) {
		t.Errorf("groups %v, want %s and %s", found, old, s.group)
	}
	s.disk.unplug(t)
	waitReady(t, s.name, limitReady)
}

// TestFreshForeignDiskIsNotTaken: another CSI driver attaches a disk to a host that has joined, and formats it a moment later. It is not taken, by
// default as it came too late, and with hotplug as it is too young; the Member says so. What the other driver has written stays.
func TestFreshForeignDiskIsNotTaken(t *testing.T) {
	turn(t, 0, 2)
	const name = "bystander"
	mine := plug(t, "n2", newImage(t, "mine", 1<<30), "scsi")
	awaitDevice(t, mine, func(d *v1alpha1.NodeDevice) bool { return d.Available })
	create(t, newCluster(name, "n2"))
	waitReady(t, name, limitReady)
	theirs := plug(t, "n2", newImage(t, "theirs", 1<<30), "scsi")
	said := func(text string) {
		t.Helper()
		eventually(t, limitReady, "the Member says "+text, func(ctx context.Context) error {
			m, err := memberOf(ctx, name, "n2")
			if err == nil && !strings.Contains(m.Status.Message, text) {
				err = fmt.Errorf("it says %q", m.Status.Message)
			}
			return err
		})
	}
	said("was not there, or not clean, when the host joined")
	update(t, name, func(c *v1alpha1.Cluster) {
		c.Spec.Devices = &v1alpha1.DeviceSelector{Hotplug: true, MinAge: &metav1.Duration{Duration: 10 * time.Minute}}
	})
	said("is too young")
	onNode(t, "n2", "mkfs.ext4 -q "+theirs.device)
	awaitDevice(t, theirs, func(d *v1alpha1.NodeDevice) bool { return strings.Contains(d.Verdict, v1alpha1.RefusalFilesystem) })
	onNode(t, "n2", "fsck.ext4 -n -f "+theirs.device)
	c := waitReady(t, name, limitReady)
	if !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady) || strings.Contains(strings.Join(devicesOf(t, name)["n2"], " "), theirs.device) {
		t.Errorf("devices %v", devicesOf(t, name))
	}
}
