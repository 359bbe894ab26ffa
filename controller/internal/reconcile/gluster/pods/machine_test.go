package pods

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
)

// TestMachine: a Node takes the next pod unless it is cordoned, or has a taint that keeps pods away and that the template does not tolerate.
func TestMachine(t *testing.T) {
	taint := func(effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: "full", Value: "yes", Effect: effect}
	}
	bears := corev1.Toleration{Key: "full", Operator: corev1.TolerationOpEqual, Value: "yes", Effect: corev1.TaintEffectNoSchedule}
	for name, row := range map[string]struct {
		cordoned    bool
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		why         string
	}{
		"nothing":                     {false, nil, nil, ""},
		"cordoned":                    {true, nil, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, "is cordoned"},
		"NoSchedule":                  {false, []corev1.Taint{taint(corev1.TaintEffectNoSchedule)}, nil, "the taint full=yes:NoSchedule"},
		"NoExecute":                   {false, []corev1.Taint{taint(corev1.TaintEffectNoExecute)}, nil, "the taint full=yes:NoExecute"},
		"rather not":                  {false, []corev1.Taint{taint(corev1.TaintEffectPreferNoSchedule)}, nil, ""},
		"tolerated":                   {false, []corev1.Taint{taint(corev1.TaintEffectNoSchedule)}, []corev1.Toleration{bears}, ""},
		"another effect is tolerated": {false, []corev1.Taint{taint(corev1.TaintEffectNoExecute)}, []corev1.Toleration{bears}, "NoExecute"},
		"all are tolerated":           {false, []corev1.Taint{taint(corev1.TaintEffectNoExecute)}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, ""},
		"one of two is tolerated":     {false, []corev1.Taint{taint(corev1.TaintEffectNoSchedule), {Key: "off", Effect: corev1.TaintEffectNoSchedule}}, []corev1.Toleration{bears}, "the taint off:NoSchedule"},
		"a comparison does not count": {false, []corev1.Taint{{Key: "n", Value: "5", Effect: corev1.TaintEffectNoSchedule}}, []corev1.Toleration{{Key: "n", Operator: corev1.TolerationOpGt, Value: "1"}}, "the taint n=5:NoSchedule"},
		"the value is another one":    {false, []corev1.Taint{{Key: "full", Value: "no", Effect: corev1.TaintEffectNoSchedule}}, []corev1.Toleration{bears}, "the taint full=no:NoSchedule"},
		"out of service":              {false, []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}, nil, corev1.TaintNodeOutOfService},
		"nobody hears of the machine": {false, []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}}, nil, corev1.TaintNodeUnreachable},
	} {
		got := machine(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: corev1.NodeSpec{Unschedulable: row.cordoned, Taints: row.taints}}, row.tolerations)
		if (got.Takes == gluster.Yes) != (row.why == "") || got.Takes == gluster.Unknown || !strings.Contains(got.Why, row.why) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestTakes_unknown: without a workload nothing is known.
func TestTakes_unknown(t *testing.T) {
	if got, err := Takes(t.Context(), nil, &corev1.Pod{}, nil); err != nil || got.Takes != gluster.Unknown || got.Why == "" {
		t.Errorf("%+v, %v", got, err)
	}
}
