//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// adoptedNode has the group of TestAdoptedGroup.
const adoptedNode = "n3"

// TestAdoptedGroup: a Cluster is gone from the API server and comes back under another UID. Its group becomes that of the new one by an approved plan, while a
// pod writes, and the volume is read back. Then the disks are those of a copy, with a UUID of its own: a person gives the recorded group up for it. The
// claim of a volume that was given up goes, the copy of another one stays, and is read back once a person names it.
func TestAdoptedGroup(t *testing.T) {
	turn(t, 10, 20)
	const name = "adopted"
	const group = v1alpha1.DefaultVolumeGroupPrefix + name
	d := plug(t, adoptedNode, newImage(t, name, 1<<30), "scsi")
	path := awaitDevice(t, d, func(d *v1alpha1.NodeDevice) bool { return d.Available }).Path
	c := newCluster(name, adoptedNode)
	c.Spec.Devices = &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{v1alpha1.DevicePath(path)}}
	create(t, c)
	c = waitReady(t, name, limitReady)
	first := groupUUID(t, adoptedNode, group)
	kept, gone := claim(t, name+"-kept", name, "64Mi"), claim(t, name+"-gone", name, "64Mi")
	writer := waitPod(t, pod(t, name+"-writer", adoptedNode, counting, kept), corev1.PodRunning)
	remove(t, waitPod(t, pod(t, name+"-gone", adoptedNode, "echo gone > /data0/file; sync", gone), corev1.PodSucceeded))
	waitSynced(t, writer, 5)

	t.Run("a Cluster that is gone", func(t *testing.T) { inheritsGroup(t, c, first, volumeOf(t, kept), writer) })
	synced := lastSynced(t, writer)
	remove(t, writer)
	checkCounted(t, kept, adoptedNode, synced)

	// The copy was made before one of the volumes, as it were.
	_, _, lv := handle(t, volumeOf(t, gone))
	copies(t, group, lv)
	second := groupUUID(t, adoptedNode, group)
	t.Run("a group that is given up", func(t *testing.T) {
		adoptsCopy(t, name, first, second, volumeOf(t, kept), volumeOf(t, gone))
		fresh := claim(t, name+"-fresh", name, "64Mi")
		p := pod(t, name+"-fresh", adoptedNode, "echo fresh > /data0/file && sync && grep fresh /data0/file", fresh)
		remove(t, waitPod(t, p, corev1.PodSucceeded))
		remove(t, fresh)
	})
	lost := volumeOf(t, gone)
	remove(t, gone)
	waitVolumeGone(t, lost)
	again := releasesCopy(t, kept, second)
	checkCounted(t, again, adoptedNode, synced)
}

// waitStep waits until the plan of a Cluster is one step, and returns its digest.
func waitStep(t *testing.T, name string, is func(v1alpha1.PlanStep) bool) (digest string) {
	t.Helper()
	eventually(t, limitReady, "Cluster "+name+" has the plan", func(ctx context.Context) error {
		c, err := getCluster(ctx, name)
		if err != nil {
			return err
		}
		if c.Status.Plan == nil || len(c.Status.Plan.Steps) != 1 || !is(c.Status.Plan.Steps[0]) {
			return fmt.Errorf("plan %+v: %s", c.Status.Plan, c.Status.Message)
		}
		digest = c.Status.Plan.Digest
		return nil
	})
	return digest
}

// inheritsGroup brings the Cluster back under another UID, and has it take its group over by approval. Nothing happens to a pod that writes.
func inheritsGroup(t *testing.T, c *v1alpha1.Cluster, uuid string, v *corev1.PersistentVolume, writer *corev1.Pod) {
	m, err := memberOf(t.Context(), c.Name, adoptedNode)
	if err != nil {
		t.Fatal(err)
	}
	stopController(t)
	erase(t, c)
	erase(t, m)
	restore(t, c)
	startController(t)
	digest := waitStep(t, c.Name, func(s v1alpha1.PlanStep) bool {
		return s.Action == v1alpha1.ActionImportVolumeGroup && s.Host == adoptedNode && strings.Contains(strings.Join(s.Volumes, " "), v.Name)
	})
	before := lastSynced(t, writer)
	approve(t, c.Name, digest)
	now := waitReady(t, c.Name, limitReady)
	waitSynced(t, writer, before+5)
	if n := restartsOf(t, writer); n != 0 || now.UID == c.UID {
		t.Errorf("the writer was restarted %d times, the Cluster has the UID %s as before", n, now.UID)
	}
	if m, err := memberOf(t.Context(), c.Name, adoptedNode); err != nil || m.Spec.Group == nil || m.Spec.Group.UUID != uuid {
		t.Errorf("the record is %+v, and the group has the UUID %s; %v", m, uuid, err)
	}
	owners := onNode(t, adoptedNode, "vgs --foreign --noheadings -o vg_tags "+v1alpha1.DefaultVolumeGroupPrefix+c.Name)
	if !strings.Contains(owners, string(now.UID)) || !strings.Contains(owners, string(c.UID)) {
		t.Errorf("the group has the tags %s, and is that of %s after %s", owners, now.UID, c.UID)
	}
}

// copies makes of the group on the node what a copy of its disks is that got a UUID of its own, as by vgimportclone: without one of the volumes.
func copies(t *testing.T, group, without string) {
	t.Helper()
	as := asNode(adoptedNode)
	eventually(t, limitReady, adoptedNode+" lets go of the group", func(context.Context) error {
		_, err := tryOnNode(adoptedNode, "vgchange "+as+"-an "+group)
		return err
	})
	onNode(t, adoptedNode, fmt.Sprintf("vgchange %[1]s--uuid %[2]s && lvremove %[1]s--yes %[2]s/%[3]s", as, group, without))
}

// adoptsCopy has the record name the group that is there in place of another one, by approval.
func adoptsCopy(t *testing.T, name, before, now string, kept, lost *corev1.PersistentVolume) {
	waitCondition(t, name, v1alpha1.ConditionDisksReady, v1alpha1.ReasonVolumeGroupLost, before, now, kept.Name, lost.Name)
	digest := waitStep(t, name, func(s v1alpha1.PlanStep) bool {
		volumes := strings.Join(s.Volumes, "; ")
		return s.Action == v1alpha1.ActionAdoptVolumeGroup && s.GroupUUID == now && slices.Equal(s.Replaces, []string{before}) &&
			strings.Contains(volumes, "lost: "+kept.Name) && strings.Contains(volumes, "lost: "+lost.Name)
	})
	approve(t, name, digest)
	waitReady(t, name, limitReady)
	eventually(t, limitReady, "the Member says that what was given up is away", func(ctx context.Context) error {
		m, err := memberOf(ctx, name, adoptedNode)
		if err != nil {
			return err
		}
		if m.Spec.Group == nil || m.Spec.Group.UUID != now || !slices.Equal(m.Spec.Group.Earlier, []string{before}) ||
			!meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionGivenUpAbsent) {
			return fmt.Errorf("record %+v, conditions %+v", m.Spec.Group, m.Status.Conditions)
		}
		return nil
	})
}

// releasesCopy deletes the claim of a volume that was given up, of which the group has a copy. Nothing is deleted there. Then a person does what the event
// says, and names the copy with a PersistentVolume and a claim; it returns that.
func releasesCopy(t *testing.T, c *corev1.PersistentVolumeClaim, uuid string) *corev1.PersistentVolumeClaim {
	t.Helper()
	v := volumeOf(t, c)
	_, group, lv := handle(t, v)
	before := onNode(t, adoptedNode, "lvs --foreign --noheadings -o lv_uuid "+group+"/"+lv)
	remove(t, c)
	waitEvent(t, "PersistentVolume", v.Name, "has a volume of the name "+lv)
	lab(t, "kubectl", "patch", "pv", v.Name, "-p", `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	remove(t, v.DeepCopy())
	if now := onNode(t, adoptedNode, "lvs --foreign --noheadings -o lv_uuid "+group+"/"+lv); now != before {
		t.Errorf("the copy is %s, and was %s", now, before)
	}
	v.Spec.CSI.VolumeAttributes[v1alpha1.AttributeGroupUUID] = uuid
	return bringVolumeBack(t, v)
}
