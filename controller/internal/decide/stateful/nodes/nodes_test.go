package nodes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
)

func node(status corev1.ConditionStatus, edits ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"host": "n1"}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: status}}
	for _, edit := range edits {
		edit(n)
	}
	return n
}

func shutDown(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}} }
func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }
func unheard(n *corev1.Node)  { n.Status.Conditions = nil }

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		node   *corev1.Node
		want   replica.NodeState
		closed bool
	}{
		"ready":                        {node(corev1.ConditionTrue), replica.NodeFine, false},
		"ready and cordoned":           {node(corev1.ConditionTrue, cordoned), replica.NodeFine, true},
		"its kubelet says it is not":   {node(corev1.ConditionFalse), replica.NodeUnready, false},
		"its kubelet says nothing":     {node(corev1.ConditionUnknown), replica.NodeUnreachable, false},
		"it never said anything":       {node("", unheard), replica.NodeUnreachable, false},
		"a person says it is off":      {node(corev1.ConditionUnknown, shutDown), replica.NodeShutDown, false},
		"even if it says that it runs": {node(corev1.ConditionTrue, shutDown), replica.NodeShutDown, false},
	} {
		if got := Of(c.node); got.State != c.want || got.Closed != c.closed {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestBlackout(t *testing.T) {
	fine, silent := Of(node(corev1.ConditionTrue)), Of(node(corev1.ConditionUnknown))
	unready := Of(node(corev1.ConditionFalse))
	for name, c := range map[string]struct {
		nodes   Nodes
		missing int
		want    bool
	}{
		"one of three":                          {Nodes{"a": silent, "b": fine, "c": fine}, 0, false},
		"two of three":                          {Nodes{"a": silent, "b": unready, "c": fine}, 0, true},
		"half of four":                          {Nodes{"a": silent, "b": silent, "c": fine, "d": fine}, 0, false},
		"one is silent, and one was deleted":    {Nodes{"a": silent, "c": fine}, 1, true},
		"one of three was deleted":              {Nodes{"b": fine, "c": fine}, 1, false},
		"all were deleted":                      {Nodes{}, 2, true},
		"none are there, and nothing names one": {Nodes{}, 0, false},
	} {
		if got := c.nodes.Blackout(c.missing); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestReach(t *testing.T) {
	on := func(host string, n *corev1.Node) Node { n.Labels = map[string]string{"host": host}; return Of(n) }
	for name, c := range map[string]struct {
		nodes Nodes
		want  replica.NodeState
	}{
		"its node is fine":                    {Nodes{"n1": on("n1", node(corev1.ConditionTrue))}, replica.NodeFine},
		"its node is cordoned":                {Nodes{"n1": on("n1", node(corev1.ConditionTrue, cordoned))}, replica.NodeClosed},
		"its node is silent":                  {Nodes{"n1": on("n1", node(corev1.ConditionUnknown, cordoned)), "n9": on("n9", node(corev1.ConditionTrue))}, replica.NodeUnreachable},
		"its node does not exist":             {Nodes{"n9": on("n9", node(corev1.ConditionTrue))}, replica.NodeGone},
		"one of two is fine":                  {Nodes{"n1": on("n1", node(corev1.ConditionUnknown)), "n2": on("n2", node(corev1.ConditionTrue))}, replica.NodeFine},
		"one of two is silent, one cordoned":  {Nodes{"n1": on("n1", node(corev1.ConditionUnknown)), "n2": on("n2", node(corev1.ConditionTrue, cordoned))}, replica.NodeClosed},
		"one of two is not ready, one silent": {Nodes{"n1": on("n1", node(corev1.ConditionFalse)), "n2": on("n2", node(corev1.ConditionUnknown))}, replica.NodeUnready},
	} {
		s := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "host", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1", "n2"}},
		}}}}
		if got := c.nodes.Reach(s); got != c.want {
			t.Errorf("%s: %d", name, got)
		}
	}
}

func TestSame(t *testing.T) {
	a := Of(node(corev1.ConditionTrue))
	other := Of(node(corev1.ConditionTrue))
	other.Labels = map[string]string{"host": "n2"}
	for name, c := range map[string]struct {
		b    Node
		want bool
	}{
		"the same":      {Of(node(corev1.ConditionTrue)), true},
		"cordoned":      {Of(node(corev1.ConditionTrue, cordoned)), false},
		"silent":        {Of(node(corev1.ConditionUnknown)), false},
		"another label": {other, false},
		"more to give": {Of(node(corev1.ConditionTrue, func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64")}
		})), false},
		"a taint": {Of(node(corev1.ConditionTrue, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}} })), false},
		"not ready, it was": {Of(node(corev1.ConditionTrue, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
		})), true},
		"a mild taint": {Of(node(corev1.ConditionTrue, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}}
		})), true},
	} {
		if got := Same(a, c.b); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestMissing: a volume tells of a node that does not exist, until one is there that it can be used on.
func TestMissing(t *testing.T) {
	on := func(values ...string) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: "host", Operator: corev1.NodeSelectorOpIn, Values: values,
		}}}}}
	}
	n := Nodes{"n1": Of(node(corev1.ConditionUnknown))}
	for name, c := range map[string]struct {
		made string
		on   *corev1.NodeSelector
		want string
	}{
		"its node is there":                           {"n1", on("n1"), ""},
		"another one can use it":                      {"n2", on("n1", "n2"), ""},
		"its node does not exist":                     {"n2", on("host-of-n2"), "n2"},
		"nothing says which node it was made for":     {"", on("n2"), "n2"},
		"it was made for a node that it cannot be on": {"n1", on("n2"), "n2"},
	} {
		if got := n.Missing(c.made, c.on); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
