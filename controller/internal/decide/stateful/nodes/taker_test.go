package nodes

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTakers(t *testing.T) {
	all := Nodes{}
	for name, zone := range map[string]string{"n1": "a", "n2": "a", "n3": "b", "n4": "", "n5": "b", "n6": "b"} {
		all[name] = Node{Labels: map[string]string{"host": name}}
		if zone != "" {
			all[name].Labels["zone"] = zone
		}
	}
	all["n4"] = Node{Labels: all["n4"].Labels, Taints: []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}}
	all["n5"] = Node{Labels: all["n5"].Labels, Closed: true}
	all["n6"] = Of(node(corev1.ConditionUnknown))
	tolerate := func(t corev1.Toleration) corev1.PodSpec { return corev1.PodSpec{Tolerations: []corev1.Toleration{t}} }
	apart := func(key string, match map[string]string) corev1.PodSpec {
		return corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: match}}},
		}}}
	}
	strange := apart("host", nil)
	strange.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}}, Spec: corev1.PodSpec{NodeName: "n1"}}
	pending := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}}}
	for name, c := range map[string]struct {
		pod  corev1.PodSpec
		want string
	}{
		"no rules":                       {corev1.PodSpec{}, "n1 n2 n3"},
		"a node selector":                {corev1.PodSpec{NodeSelector: map[string]string{"zone": "a"}}, "n1 n2"},
		"a label that no node has":       {corev1.PodSpec{NodeSelector: map[string]string{"x": ""}}, ""},
		"it tolerates the taint":         {tolerate(corev1.Toleration{Key: "gpu", Value: "yes"}), "n1 n2 n3 n4"},
		"it tolerates all":               {tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists}), "n1 n2 n3 n4"},
		"it tolerates another value":     {tolerate(corev1.Toleration{Key: "gpu", Value: "no"}), "n1 n2 n3"},
		"it tolerates another effect":    {tolerate(corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}), "n1 n2 n3"},
		"an operator that nobody knows":  {tolerate(corev1.Toleration{Key: "gpu", Operator: "Gt", Value: "yes"}), "n1 n2 n3"},
		"not beside another one":         {apart("host", map[string]string{"app": "db"}), "n2 n3"},
		"not in the zone of another one": {apart("zone", map[string]string{"app": "db"}), "n3"},
		"not beside one of another app":  {apart("host", map[string]string{"app": "web"}), "n1 n2 n3"},
		"a key that no node has":         {apart("rack", map[string]string{"app": "db"}), "n1 n2 n3"},
		"a rule that nobody understands": {strange, ""},
		"a required affinity": {corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "host", Operator: corev1.NodeSelectorOpIn, Values: []string{"n2", "n4", "n5"}}}}},
		}}}}, "n2"},
	} {
		takers, _ := all.Takers(&corev1.Pod{Spec: c.pod}, []*corev1.Pod{other, pending})
		if got := strings.Join(slices.Sorted(maps.Keys(takers)), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTakers_why: each node that does not take a pod is told of, with the rule that keeps it from that.
func TestTakers_why(t *testing.T) {
	db := on("db@n1")
	for want, c := range map[string]struct {
		node Node
		spec corev1.PodSpec
	}{
		"does not serve": {node: Of(node(corev1.ConditionUnknown))},
		"is cordoned":    {node: Node{Closed: true}},
		"is not what the node selector or the node affinity of the template asks for": {spec: corev1.PodSpec{NodeSelector: map[string]string{"x": ""}}},
		"has a taint that the template does not tolerate":                             {node: Node{Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}}},
		"is kept away by the pod anti-affinity of the template":                       {spec: apart(term("host", "db"))},
		"lacks the pods that the pod affinity of the template asks for":               {spec: near(term("host", "web"))},
		"is kept away by the topology spread of the template":                         {spec: spread("zone", 1)},
	} {
		c.node.Labels = map[string]string{"host": "n1"}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "db"}}, Spec: c.spec}
		if takers, why := (Nodes{"n1": c.node}).Takers(p, []*corev1.Pod{db}); len(takers) > 0 || why["n1"] != want {
			t.Errorf("%v, want %s", why, want)
		}
	}
}
