package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// OutOfService reports whether a person tainted a node as out of service.
func OutOfService(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintOutOfService })
}

// IsOff reports whether a node is out of service and silent. That is when Kubernetes, too, takes its pods for ended, and lets others take their place.
func IsOff(n *corev1.Node) bool {
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return OutOfService(n) && !ready
}

// GoesOff lets through a node that goes out of service, is back, or was booted anew.
var GoesOff = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return outOfService(e.Object) },
	DeleteFunc: func(e event.DeleteEvent) bool { return outOfService(e.Object) },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		now, same := e.ObjectNew.(*corev1.Node)
		return ok && same && (OutOfService(before) != OutOfService(now) || IsOff(before) != IsOff(now) || machine(before) != machine(now))
	},
}

func outOfService(o any) bool {
	n, ok := o.(*corev1.Node)
	return ok && OutOfService(n)
}

// StripNode keeps of a Node, for a cache, what tells whether it is off, and where it is.
func StripNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	out := &corev1.Node{TypeMeta: n.TypeMeta, ObjectMeta: n.ObjectMeta}
	out.ManagedFields, out.Annotations = nil, nil
	out.Spec.Taints, out.Status.Addresses, out.Status.NodeInfo = n.Spec.Taints, n.Status.Addresses, machine(n)
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Status.Conditions = append(out.Status.Conditions, corev1.NodeCondition{Type: c.Type, Status: c.Status})
		}
	}
	return out, nil
}

// machine is what a Node tells of its machine: which one it is, and its boot.
func machine(n *corev1.Node) corev1.NodeSystemInfo {
	return corev1.NodeSystemInfo{BootID: n.Status.NodeInfo.BootID, SystemUUID: n.Status.NodeInfo.SystemUUID}
}
