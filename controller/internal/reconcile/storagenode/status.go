package storagenode

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// retry is how soon a conflict is tried again.
const retry = time.Second

// writeStatus writes what the agent reports, when it changed.
func (r *Reconciler) writeStatus(ctx context.Context, sn *v1alpha1.StorageNode) error {
	node := r.Pool.Node(sn.Name)
	after := sn.DeepCopy()
	fill(after, node)
	recordDevices(after)
	if equality.Semantic.DeepEqual(sn.Status, after.Status) {
		return nil
	}
	err := r.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(sn.DeepCopy(), client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch status of storagenode %s: %w", sn.Name, err)
	}
	return nil
}

// fill computes the status. While it is too early to say whether the agent answers, what was reported before stands.
func fill(sn *v1alpha1.StorageNode, n decide.Node) {
	s := &sn.Status
	s.ObservedGeneration = sn.Generation
	if n.Agent == decide.AgentConnecting && len(s.Conditions) > 0 {
		return
	}
	s.Message = n.Problem
	if n.LVMError != "" {
		s.Message = "LVM cannot be run: " + n.LVMError
	}
	s.State = v1alpha1.MemberState(nodestate.Compute(nodestate.Of(n.Up(), false, sn.Spec.Maintenance, false)))
	connected := connection(n)
	connected.ObservedGeneration = sn.Generation
	meta.SetStatusCondition(&s.Conditions, connected)
	ready := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: connected.Status, Reason: connected.Reason, Message: connected.Message,
		ObservedGeneration: sn.Generation,
	}
	if n.Up() {
		ready.Reason, ready.Message = v1alpha1.ReasonReady, "The node can be used."
		if n.LVMError != "" {
			ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonStepFailed, s.Message
		}
	}
	meta.SetStatusCondition(&s.Conditions, ready)
	if n.Observed.IsZero() {
		// Nothing was ever reported since the controller started: what an earlier one wrote is the best there is.
		return
	}
	s.AgentVersion, s.KernelRelease, s.LVMVersion = n.AgentVersion, n.KernelRelease, n.LVMVersion
	s.Devices, s.VolumeGroups, s.AvailableCount = nil, nil, 0
	for _, d := range n.Devices {
		v := deviceOf(d)
		if v.Available {
			s.AvailableCount++
		}
		s.Devices = append(s.Devices, v)
	}
	s.DeviceCount = int32(len(s.Devices))
	for _, g := range n.Groups {
		var pools []v1alpha1.ThinPoolUsage
		for _, p := range g.Pools {
			pools = append(pools, p.Usage())
		}
		s.VolumeGroups = append(s.VolumeGroups, v1alpha1.NodeVolumeGroup{
			Name: g.Name, OwnerUID: g.OwnerUID, Size: *quantity(g.SizeBytes), Free: *quantity(g.FreeBytes),
			Volumes: int32(len(g.Volumes)), Partial: g.Partial, ThinPools: pools,
		})
	}
}

func connection(n decide.Node) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionAgentConnected, Status: metav1.ConditionFalse, Message: n.Problem}
	switch n.Agent {
	case decide.AgentUp:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonAgentConnected, "The agent answers."
	case decide.AgentConnecting:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonPending, "The connection to the agent is being made."
	case decide.AgentMissing:
		c.Reason = v1alpha1.ReasonAgentMissing
	default:
		c.Reason = v1alpha1.ReasonAgentUnreachable
	}
	return c
}

func deviceOf(d decide.Device) v1alpha1.NodeDevice {
	return v1alpha1.NodeDevice{
		Path: d.Path, KernelName: d.KernelName, Type: d.Type, Size: *quantity(d.SizeBytes), Model: d.Model, Serial: d.Serial,
		WWN: d.WWN, Transport: d.Transport, Rotational: d.Rotational, Available: d.Clean(), Refusals: d.Refusals,
		VolumeGroup: d.VolumeGroup,
	}
}

func quantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
