package cluster

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Step of a deletion.
type Step string

// Steps, in their order.
const (
	// Hold waits.
	Hold Step = "Hold"
	// DeleteDrivers deletes the CSI drivers: nothing uses a volume of theirs any more.
	DeleteDrivers Step = "DeleteDrivers"
	// DeleteNode deletes one GlusterNode, which then leaves the pool.
	DeleteNode Step = "DeleteNode"
	// DeleteEtcd deletes etcd with its claims. It goes last: without it nobody knows of the pool.
	DeleteEtcd Step = "DeleteEtcd"
	// DropFinalizer lets the GlusterCluster go.
	DropFinalizer Step = "DropFinalizer"
)

// Deletion is what a decision about a cluster that is deleted is made on.
type Deletion struct {
	Pool gluster.Pool
	// Nodes are all GlusterNodes that name the cluster, read from the API server itself.
	Nodes []*v1alpha1.GlusterNode
	// Claimed is the number of PersistentVolumes of the cluster's drivers; negative when nobody could count them.
	Claimed int
	// NeverBegan: it is known that no server of any node ever ran, so that there is no pool.
	NeverBegan bool
	// Drivers and Etcd say whether they still exist.
	Drivers, Etcd gluster.Answer
	// Ending is what of etcd was asked to go already; nil when something has to be asked.
	Ending *gluster.Ending
}

// Decision is the one step of a pass.
type Decision struct {
	Step Step
	// Node is the one to delete.
	Node            string
	Status          metav1.ConditionStatus
	Reason, Message string
}

func hold(status metav1.ConditionStatus, reason, format string, args ...any) Decision {
	return Decision{Step: Hold, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func step(s Step, message string) Decision {
	return Decision{Step: s, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDeleting, Message: message}
}

// Delete chooses the next step of a deletion (A21). While the pool lists a volume or a snapshot, or nobody can say, nothing is deleted. A pool that never
// answers again ends when each of its nodes was declared lost.
func (d Deletion) Delete() Decision {
	switch {
	case d.Claimed < 0:
		return hold(metav1.ConditionUnknown, v1alpha1.ReasonPoolUnknown, "Whether there are PersistentVolumes of the cluster is not known.")
	case d.Claimed > 0:
		return hold(metav1.ConditionFalse, v1alpha1.ReasonVolumesExist, "There are %d PersistentVolumes of the cluster: delete their claims first.", d.Claimed)
	}
	if len(d.Nodes) > 0 {
		if held := d.held(); held != nil {
			return *held
		}
	}
	switch {
	case d.Drivers == gluster.Unknown:
		return hold(metav1.ConditionUnknown, v1alpha1.ReasonDeleting, "Whether the drivers still exist is not known.")
	case d.Drivers == gluster.Yes:
		return step(DeleteDrivers, "The pool has no volumes. The drivers are deleted.")
	case len(d.Nodes) > 0:
		return d.node()
	case d.Etcd == gluster.Unknown:
		return hold(metav1.ConditionUnknown, v1alpha1.ReasonDeleting, "Whether etcd still exists is not known.")
	case d.Etcd == gluster.Yes && d.Ending != nil:
		return hold(metav1.ConditionFalse, v1alpha1.ReasonDeleting, "The pool has no nodes, and etcd is being deleted. %s", d.Ending.Message())
	case d.Etcd == gluster.Yes:
		return step(DeleteEtcd, "The pool has no nodes. etcd is deleted.")
	}
	return step(DropFinalizer, "Nothing is left of the cluster.")
}

// held says what the pool still has. Once the last server is being stopped nobody tells, and then that it left is on record.
func (d Deletion) held() *Decision {
	if d.NeverBegan || !slices.ContainsFunc(d.Nodes, func(n *v1alpha1.GlusterNode) bool { return !gluster.Left(n) }) {
		return nil
	}
	if d.Pool.Volumes == nil || d.Pool.Snapshots == nil {
		return new(hold(metav1.ConditionUnknown, v1alpha1.ReasonPoolUnknown, "The pool does not tell its volumes and snapshots."))
	}
	var names []string
	for _, v := range *d.Pool.Volumes {
		names = append(names, "volume "+v.Name)
	}
	for _, v := range *d.Pool.Snapshots {
		names = append(names, "snapshot "+v.Name)
	}
	if doubt := d.Pool.Doubt(); len(names) == 0 && doubt != "" {
		return new(hold(metav1.ConditionUnknown, v1alpha1.ReasonPoolUnknown, "%s", doubt))
	} else if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return new(hold(metav1.ConditionFalse, v1alpha1.ReasonVolumesExist, "The pool has %d volumes and snapshots, which have to be deleted first: %s.",
		len(names), strings.Join(names[:min(len(names), 10)], ", ")))
}

// node deletes the next node once the one before is gone, the youngest first.
func (d Deletion) node() Decision {
	next := d.Nodes[0]
	for _, n := range d.Nodes {
		if !n.DeletionTimestamp.IsZero() {
			return hold(metav1.ConditionFalse, v1alpha1.ReasonDeleting, "Node %s is being removed.", n.Name)
		}
		c := n.CreationTimestamp.Compare(next.CreationTimestamp.Time)
		if c > 0 || c == 0 && n.Name > next.Name {
			next = n
		}
	}
	s := step(DeleteNode, fmt.Sprintf("The pool has no volumes. Node %s is removed.", next.Name))
	s.Node = next.Name
	return s
}
