package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// TestGoesOff: a storage is looked at when a node goes out of service, or is back, and not at each word of a kubelet. The cache keeps what that needs.
func TestGoesOff(t *testing.T) {
	node := func(boot string, tainted bool, ready corev1.ConditionStatus) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{"a": "b"}}}
		if n.Status.NodeInfo.BootID = boot; tainted {
			n.Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/out-of-service", Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
		}
		n.Status.NodeInfo.SystemUUID, n.Status.NodeInfo.KernelVersion = "m", "6.1"
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: ready, Reason: "Said"}}
		kept, err := StripNode(n)
		if err != nil {
			t.Fatal(err)
		}
		out, ok := kept.(*corev1.Node)
		if !ok || len(out.Status.Conditions) != 1 || len(out.Status.Addresses) != 1 || out.Annotations != nil || out.Status.NodeInfo != (corev1.NodeSystemInfo{BootID: boot, SystemUUID: "m"}) {
			t.Fatalf("%+v", kept)
		}
		return out
	}
	works, dies, silent := node("one", false, corev1.ConditionTrue), node("one", false, corev1.ConditionUnknown), node("one", true, corev1.ConditionUnknown)
	early := node("one", true, corev1.ConditionTrue)
	for name, tt := range map[string]struct {
		before, now *corev1.Node
		off, told   bool
	}{
		"nothing happens":        {works, works, false, false},
		"it falls silent":        {works, dies, false, false},
		"a person taints it":     {dies, silent, true, true},
		"while it is ready":      {works, early, false, true},
		"it falls silent then":   {early, silent, true, true},
		"it is booted anew":      {silent, node("two", true, corev1.ConditionTrue), false, true},
		"the taint is taken off": {early, works, false, true},
	} {
		if got := IsOff(tt.now); got != tt.off {
			t.Errorf("%s: off: %t", name, got)
		}
		if got := GoesOff.Update(event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.now}); got != tt.told {
			t.Errorf("%s: told: %t", name, got)
		}
	}
	if !GoesOff.Create(event.CreateEvent{Object: silent}) || GoesOff.Create(event.CreateEvent{Object: works}) {
		t.Error("at the start nodes that are off are told, and no others")
	}
}
