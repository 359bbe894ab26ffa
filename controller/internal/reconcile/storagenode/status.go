package storagenode

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// maxMessage is the length of the longest message of a status.
const maxMessage = 1 << 10

// writeStatus writes what is known of the node, when it changed.
func (r *Reconciler) writeStatus(ctx context.Context, sn *v1alpha1.StorageNode, n decide.Node) error {
	of, err := r.owners(ctx)
	if err != nil {
		return err
	}
	records := before(sn)
	if nodes, err := r.glusterNodes.List(ctx, r.Recorded, r.Records); err == nil {
		records = disk.RecordsOf(nodes)
	} else if ctx.Err() == nil {
		// All else about the node is known, and whoever takes a device asks again.
		logf.FromContext(ctx).Error(err, "Failed to read which devices are on record, showing those of before", "storageNode", klog.KObj(sn))
	}
	after := sn.DeepCopy()
	fill(after, n, of, records, r.Iscsi)
	recordDevices(after)
	_, err = kube.WriteStatus(ctx, r.Client, sn, after)
	return err
}

// before returns which devices of a node were on record when that was known last, as the status says.
func before(sn *v1alpha1.StorageNode) []disk.Record {
	var all []disk.Record
	for _, d := range sn.Status.Devices {
		if !strings.HasPrefix(d.InUseBy, disk.GlusterNode) {
			continue
		}
		all = append(all, disk.Record{Holder: d.InUseBy, Device: v1alpha1.GlusterDevice{
			Node: v1alpha1.HostName(sn.Name), Path: v1alpha1.DevicePath(d.Path), WWN: d.WWN, Serial: d.Serial, Size: d.Size.Value(), Allocated: true,
		}})
	}
	return all
}

// owners names the storages that exist.
func (r *Reconciler) owners(ctx context.Context) (owners, error) {
	all, err := kube.Storages(ctx, r.Client)
	if err != nil {
		return nil, err
	}
	of := make(owners, len(all))
	for _, s := range all {
		of[string(s.GetUID())] = s.StorageKind() + " " + s.GetName()
	}
	return of, nil
}

// fill computes the status. While it is too early to say whether the agent is up, what was reported before stands.
func fill(sn *v1alpha1.StorageNode, n decide.Node, of owners, records []disk.Record, iscsi func(decide.Device) string) {
	s := &sn.Status
	s.ObservedGeneration = sn.Generation
	if n.Agent == decide.AgentConnecting && len(s.Conditions) > 0 {
		return
	}
	s.Message = backend.Cut(n.Problem, maxMessage)
	switch {
	case n.LVMError != "":
		s.Message = backend.Cut("LVM cannot be run: "+n.LVMError, maxMessage)
	case n.Up() && len(n.Unknown) > 0:
		s.Message = backend.Cut(decide.Unreported(n.Unknown), maxMessage)
	}
	s.State = v1alpha1.MemberState(nodestate.Compute(nodestate.Of(n.Up(), false, sn.Spec.Maintenance, false)))
	connected := connection(n)
	connected.ObservedGeneration = sn.Generation
	meta.SetStatusCondition(&s.Conditions, connected)
	meta.SetStatusCondition(&s.Conditions, readiness(sn, n, connected))
	if n.Session.IsZero() {
		// No agent has reported everything since the controller started, for example because it died after it had said who it is. What an
		// earlier controller wrote is the best there is.
		return
	}
	s.AgentVersion, s.KernelRelease, s.LVMVersion = n.AgentVersion, n.KernelRelease, n.LVMVersion
	v := look(n.Devices, of)
	v.reserve(n, records)
	if iscsi != nil {
		v.share(n, iscsi)
	}
	s.Devices, s.OtherDevices = v.devices, v.summary()
	s.DeviceCount, s.AvailableCount, s.InUseCount = int32(v.total), int32(v.available), int32(v.inUse)
	s.Groups, s.GroupCount = groupsOf(n, of), int32(len(n.Groups)+len(n.OtherNodes))
}

func connection(n decide.Node) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionAgentConnected, Status: metav1.ConditionFalse, Message: backend.Cut(n.Problem, maxMessage),
	}
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

// readiness says whether the node can be used: its agent is up, and LVM can be run and reports all groups.
func readiness(sn *v1alpha1.StorageNode, n decide.Node, connected metav1.Condition) metav1.Condition {
	c := connected
	c.Type = v1alpha1.ConditionReady
	switch {
	case n.Up() && n.LVMError != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonStepFailed, sn.Status.Message
	case n.Up() && len(n.Unknown) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonVolumeGroupUnknown, sn.Status.Message
	case n.Up():
		c.Reason, c.Message = v1alpha1.ReasonReady, "The node can be used."
	}
	return c
}
