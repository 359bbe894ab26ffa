// Package pin decides on which node the volume of a claim is made when it begins as a copy of another volume: only the node of the source
// can make it, and the scheduler does not know which one that is. It is pure, and knows no single backend.
package pin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// AnnotationSelectedNode is where the scheduler writes the node of a claim that waits for its first consumer. A scheduler that finds it
// there takes that node or none, and the provisioner begins as soon as it is there.
const AnnotationSelectedNode = "volume.kubernetes.io/selected-node"

// annotationProvisioner is where Kubernetes writes who provisions a claim, once that has a node.
const annotationProvisioner = "volume.kubernetes.io/storage-provisioner"

// Kept are the annotations that are looked at here.
var Kept = []string{AnnotationSelectedNode, annotationProvisioner, v1alpha1.AnnotationSourceNode, corev1.BetaStorageClassAnnotation}

// Refused reports whether a claim lacks a node because the provisioner has taken one off: it had the claim in hand a moment ago.
func Refused(c *corev1.PersistentVolumeClaim) bool {
	_, selected := c.Annotations[AnnotationSelectedNode]
	_, asked := c.Annotations[annotationProvisioner]
	return asked && !selected
}

// Claim is a claim without a volume that only the node of its source can serve.
type Claim struct {
	claim *corev1.PersistentVolumeClaim
	// Source of the volume.
	Source Source
	// Driver of the volume.
	Driver backend.Driver
}

// For returns what there is to decide on a claim; class is nil when it is not known. It reports false for a claim that is none of our
// business: the scheduler chooses its node, or has done so.
func For(c *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, drivers []backend.Driver) (Claim, bool) {
	source, ok := Waiting(c)
	return of(c, source, ok, class, drivers)
}

// Chosen is For of a claim that has a node, whoever chose it, and no volume.
func Chosen(c *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, drivers []backend.Driver) (Claim, bool) {
	source, ok := Provisioning(c)
	return of(c, source, ok, class, drivers)
}

func of(c *corev1.PersistentVolumeClaim, source Source, ok bool, class *storagev1.StorageClass, drivers []backend.Driver) (Claim, bool) {
	if !ok || class == nil || class.Name != ClassOf(c) {
		return Claim{}, false
	}
	driver, ok := driverOf(class, drivers)
	return Claim{claim: c, Source: source, Driver: driver}, ok
}

// Waiting returns the source of a claim that lacks a node. It reports false for one that has a node or a volume, that is being deleted, or
// that has no source of which this package can tell the node.
func Waiting(c *corev1.PersistentVolumeClaim) (Source, bool) {
	if _, selected := c.Annotations[AnnotationSelectedNode]; selected {
		return Source{}, false
	}
	return unserved(c)
}

// Provisioning is Waiting of a claim that has a node: it is the provisioner's.
func Provisioning(c *corev1.PersistentVolumeClaim) (Source, bool) {
	if c.Annotations[AnnotationSelectedNode] == "" {
		return Source{}, false
	}
	return unserved(c)
}

// unserved returns the source of a claim that has no volume.
func unserved(c *corev1.PersistentVolumeClaim) (Source, bool) {
	_, reserved := c.Labels[v1alpha1.LabelReserved]
	switch {
	case c.Spec.VolumeName != "", c.Status.Phase == corev1.ClaimBound, c.Status.Phase == corev1.ClaimLost, !c.DeletionTimestamp.IsZero():
		return Source{}, false
	case reserved:
		// A StatefulCluster takes a selected node for a sign that the replica's pod did exist; the label goes when it does.
		return Source{}, false
	}
	return sourceOf(c)
}

// ClassOf returns the name of the StorageClass of a claim, from the annotation that came before the field too, as Kubernetes reads it.
func ClassOf(c *corev1.PersistentVolumeClaim) string {
	if name, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	if c.Spec.StorageClassName == nil {
		return ""
	}
	return *c.Spec.StorageClassName
}

// driverOf returns the driver of a class whose volumes stay on one node, if it waits for the first consumer. Of any other class the
// scheduler is not asked, or any node will do.
func driverOf(class *storagev1.StorageClass, drivers []backend.Driver) (backend.Driver, bool) {
	if class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return backend.Driver{}, false
	}
	i := slices.IndexFunc(drivers, func(d backend.Driver) bool {
		return d.Name == class.Provisioner && d.Topology && d.NodeOf != nil
	})
	if i < 0 {
		return backend.Driver{}, false
	}
	return drivers[i], true
}

// Node returns the node that the claim's volume has to be made on. It reports false while that is not known, and when the claim was
// brought there once already: a provisioner that has taken the node off again said that there is no room, and is not asked in a circle.
func (c Claim) Node(o Origin) (string, bool) {
	if o.Driver != c.Driver.Name {
		return "", false
	}
	node := c.Driver.NodeOf(o.Handle)
	if done, _ := c.marked(); node == "" || done == c.mark(node) {
		return "", false
	}
	return node, true
}

// Pin returns the annotations that bring the claim to a node: the scheduler's own, and the mark that it was done. Both are written at once.
func (c Claim) Pin(node string) map[string]string {
	return map[string]string{AnnotationSelectedNode: node, v1alpha1.AnnotationSourceNode: c.mark(node)}
}

// Remind returns the annotation that makes the provisioner look at a claim with a node once more, and changes nothing else. A provisioner that has taken
// a node off puts the claim into its own cache as it knows it; a node that was set meanwhile is lost there until the claim changes. It reports false
// when that was done three times: then the provisioner has the claim in hand, and the events of the claim say what it waits for.
func (c Claim) Remind() (map[string]string, bool) {
	done, reminded := c.marked()
	if reminded >= reminders {
		return nil, false
	}
	if done == "" {
		done = c.mark("")
	}
	return map[string]string{v1alpha1.AnnotationSourceNode: fmt.Sprintf("%s/%d", done, reminded+1)}, true
}

// reminders is how often the provisioner is reminded of one claim.
const reminders = 3

// marked returns the mark that the claim carries, and how often the provisioner was reminded of it. The mark of another claim counts for nothing.
func (c Claim) marked() (mark string, reminded int) {
	parts := strings.Split(c.claim.Annotations[v1alpha1.AnnotationSourceNode], "/")
	if len(parts) < 2 || parts[0] != string(c.claim.UID) {
		return "", 0
	}
	if len(parts) > 2 {
		reminded, _ = strconv.Atoi(parts[2])
	}
	return c.mark(parts[1]), reminded
}

// mark names claim and node. Whoever copies a claim copies its annotations too, and only the UID tells that they were another one's.
func (c Claim) mark(node string) string { return string(c.claim.UID) + "/" + node }
