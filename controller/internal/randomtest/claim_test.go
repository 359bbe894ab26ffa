package randomtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// callTimeout is that of the sidecars.
const callTimeout = 60 * time.Second

// finalizer is what the provisioner keeps a PersistentVolume with.
const finalizer = "external-provisioner.volume.kubernetes.io/finalizer"

// claim is a volume that somebody wants, as the sidecars see it.
type claim struct {
	name, cluster, node string
	// from is the volume or snapshot that it begins as a copy of; empty for an empty volume.
	from  string
	bytes int64
	// handle is empty until the volume is bound.
	handle   string
	deleting bool
	// uncertain is true once an attempt to make the volume ended in a way that does not say whether it is there: nobody gives up then.
	uncertain bool
	// forget lets the provisioner die once, after the volume was made and before it says so.
	forget bool
	// wants is the size that the volume is to grow to.
	wants int64
	// refused is what the last attempt was told.
	refused error
	// open is true while a pod uses the volume.
	open bool
	// gone is true for one whose volume was deleted after the backup that brought the claim back.
	gone bool
}

// volume is a volume that somebody was told of.
type volume struct {
	host  string
	as    agenttest.Record
	claim *claim
	// released is true once the removal was asked for: it may be gone at any moment.
	released bool
	// forgotten is true once the API server went back to before the volume was made; used once a pod used it.
	forgotten, used bool
}

// provision does what the sidecars do: it makes, grows and deletes volumes.
func (w *world) provision(r *rand.Rand) {
	for _, c := range slices.Clone(w.claims) {
		if !w.ctl.lagging {
			w.ctl.cache.at = w.api.now()
		}
		switch {
		case c.deleting && c.handle != "":
			w.deprovision(c)
		case c.deleting && !c.uncertain:
			w.drop(c)
		case c.handle == "":
			w.make(c, r)
		case c.gone:
		case c.wants > c.bytes:
			w.grow(c)
		}
	}
	w.snapshotter()
	if w.careless {
		return
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), callTimeout)
	defer cancel()
	// What cannot be swept now is swept later.
	_, _ = w.ctl.sweeper.Sweep(ctx)
}

func (w *world) drop(c *claim) {
	w.claims = slices.DeleteFunc(w.claims, func(o *claim) bool { return o == c })
}

// abandon drops a claim whose volume may exist without anybody having been told of it. Such a volume holds its Cluster up: no object says whose
// it is, so a person looks at it.
func (w *world) abandon(c *claim) {
	w.orphans = append(w.orphans, "pvc-"+c.name)
	w.drop(c)
}

func (w *world) make(c *claim, r *rand.Rand) {
	var class storagev1.StorageClass
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: c.cluster}, &class); err != nil {
		if c.refused = err; c.deleting {
			w.abandon(c)
		}
		return
	}
	if h := w.hostOf(c.node); h == nil || !h.node {
		// The provisioner takes a node that is not there off the claim, whatever is known of the volume, and the scheduler chooses another.
		if c.deleting {
			w.abandon(c)
		} else {
			w.schedule(c, r)
		}
		return
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), callTimeout)
	defer cancel()
	on := []*csi.Topology{{Segments: map[string]string{v1alpha1.TopologyHost: c.node}}}
	resp, err := w.ctl.csi.CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: "pvc-" + c.name, Parameters: class.Parameters, CapacityRange: &csi.CapacityRange{RequiredBytes: c.bytes},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		}},
		AccessibilityRequirements: &csi.TopologyRequirement{Requisite: on, Preferred: on}, VolumeContentSource: c.contents(),
	})
	c.refused = err
	switch status.Code(err) {
	case codes.OK:
	case codes.ResourceExhausted:
		// The scheduler chooses another node; the provisioner is sure that there is no volume.
		c.uncertain = false
		w.schedule(c, r)
		return
	case codes.NotFound:
		// The source of a copy is gone. What an earlier attempt made may still be there.
		if c.uncertain && c.deleting {
			w.abandon(c)
		}
		return
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted:
		c.uncertain = true
		return
	default:
		c.uncertain = false
		return
	}
	if c.forget {
		c.forget, c.uncertain = false, true
		return
	}
	w.bind(c, resp.GetVolume(), class.Name)
}

// schedule chooses another node for a claim, as the scheduler does. A copy stays where its source is.
func (w *world) schedule(c *claim, r *rand.Rand) {
	if h, ok := pick(r, w.hosts); ok && c.from == "" {
		c.node = h.name
	}
}

// bind makes the PersistentVolume, and writes the volume into the ledger.
func (w *world) bind(c *claim, v *csi.Volume, class string) {
	c.handle, c.bytes, c.uncertain = v.GetVolumeId(), v.GetCapacityBytes(), false
	node := v.GetAccessibleTopology()[0].GetSegments()[v1alpha1.TopologyHost]
	w.create(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + c.name, Finalizers: []string{finalizer}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(c.bytes, resource.BinarySI)},
			StorageClassName:              class,
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: c.name},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: v1alpha1.DriverLVM, VolumeHandle: c.handle, VolumeAttributes: v.GetVolumeContext(),
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: v1alpha1.TopologyHost, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	})
	have, ok := w.record(node, c.handle)
	if !ok {
		w.fail("volumes are kept", "%s was made for claim %s, and is not on the disks of %s", c.handle, c.name, node)
		return
	}
	if uuid := v.GetVolumeContext()[v1alpha1.AttributeGroupUUID]; uuid != have.GroupUUID {
		w.fail("volumes are kept", "%s was made in group %s, and its PersistentVolume records %q", c.handle, have.GroupUUID, uuid)
	}
	used := false
	if v := w.ledger[c.handle]; v != nil {
		if used = v.used; v.as.Created != have.Created {
			w.fail("volumes are kept", "%s is another one after the restore: %+v, was %+v", c.handle, have, v.as)
		}
	}
	w.ledger[c.handle] = &volume{host: node, as: have, claim: c, used: used}
	if c.from != "" {
		w.copied++
	}
}

// record finds a volume on the disks of a node. One that moved with its disks to another node is not present.
func (w *world) record(node, handle string) (agenttest.Record, bool) {
	var elsewhere agenttest.Record
	for _, h := range w.hosts {
		for _, have := range h.Records() {
			switch {
			case have.ID != handle:
			case h.name == node:
				return have, true
			default:
				have.Present = false
				elsewhere = have
			}
		}
	}
	return elsewhere, elsewhere.ID != ""
}

func (w *world) grow(c *claim) {
	ctx, cancel := context.WithTimeout(w.t.Context(), callTimeout)
	defer cancel()
	resp, err := w.ctl.csi.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
		VolumeId: c.handle, CapacityRange: &csi.CapacityRange{RequiredBytes: c.wants},
	})
	c.refused = err
	switch status.Code(err) {
	case codes.OK:
		c.bytes, c.wants = resp.GetCapacityBytes(), 0
		if v := w.ledger[c.handle]; v != nil {
			v.as.SizeBytes = c.bytes
		}
	case codes.OutOfRange, codes.ResourceExhausted:
		c.wants = 0
	}
}

// deprovision deletes a volume whose claim is gone, as the provisioner does: the PersistentVolume goes once the driver said that the volume did.
func (w *world) deprovision(c *claim) {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + c.name}}
	edit(w, pv, func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased })
	if v := w.ledger[c.handle]; v != nil {
		v.released = true
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), callTimeout)
	defer cancel()
	_, err := w.ctl.csi.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: c.handle})
	if c.refused = err; err != nil {
		return
	}
	if v := w.ledger[c.handle]; v != nil {
		switch have, ok := w.record(v.host, c.handle); {
		case ok && w.lost[have.GroupUUID]:
			w.forsaken++
		case ok:
			w.fail("deleted volumes are gone", "DeleteVolume of %s was answered with OK, and it is still there: %+v", c.handle, have)
		}
	}
	delete(w.ledger, c.handle)
	// The claim was sent from node to node, and one that is away may still have what it made: nobody can tell that any more.
	w.orphans = append(w.orphans, pv.Name)
	w.remove(pv)
	edit(w, pv, func(v *corev1.PersistentVolume) { v.Finalizers = nil })
	w.drop(c)
}

// claimsThat returns the claims that fit.
func (w *world) claimsThat(fit func(c *claim) bool) []*claim {
	return slices.DeleteFunc(slices.Clone(w.claims), func(c *claim) bool { return !fit(c) })
}

// newClaim wants a volume.
func (w *world) newClaim(cluster, node string, bytes int64) *claim {
	w.named++
	c := &claim{name: fmt.Sprintf("00000000-0000-4000-9000-%012d", w.named), cluster: cluster, node: node, bytes: bytes}
	w.claims = append(w.claims, c)
	return c
}
