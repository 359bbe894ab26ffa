package backend

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestDriver_places(t *testing.T) {
	named := func(handle string) string {
		node, _, _ := strings.Cut(handle, "/")
		return node
	}
	in := func(key string, op corev1.NodeSelectorOperator, nodes ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: nodes}}}
	}
	for name, c := range map[string]struct {
		driver   Driver
		affinity []corev1.NodeSelectorTerm
		want     []string
	}{
		"by its affinity":                  {Driver{}, []corev1.NodeSelectorTerm{in(v1alpha1.TopologyHost, corev1.NodeSelectorOpIn, "n3", "n2")}, []string{"n2", "n3"}},
		"by its handle":                    {Driver{NodeOf: named}, nil, []string{"n1"}},
		"by its handle and by another key": {Driver{NodeOf: named}, []corev1.NodeSelectorTerm{in("kubernetes.io/hostname", corev1.NodeSelectorOpIn, "x")}, []string{"n1"}},
		"by both, which agree":             {Driver{NodeOf: named}, []corev1.NodeSelectorTerm{in(v1alpha1.TopologyHost, corev1.NodeSelectorOpIn, "n1")}, []string{"n1"}},
		"by both, which do not agree":      {Driver{NodeOf: named}, []corev1.NodeSelectorTerm{in(v1alpha1.TopologyHost, corev1.NodeSelectorOpIn, "n2")}, []string{"n1", "n2"}},
		"where it is not":                  {Driver{}, []corev1.NodeSelectorTerm{in(v1alpha1.TopologyHost, corev1.NodeSelectorOpNotIn, "n2")}, nil},
		"of a driver that attaches":        {Driver{NodeOf: named, Attach: true}, []corev1.NodeSelectorTerm{in(v1alpha1.TopologyHost, corev1.NodeSelectorOpIn, "n2")}, nil},
		"of a driver whose handles do not": {Driver{}, nil, nil},
		"of a driver, by a handle of none": {Driver{NodeOf: func(string) string { return "" }}, nil, nil},
	} {
		v := &corev1.PersistentVolume{}
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{VolumeHandle: "n1/v"}
		if c.affinity != nil {
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: c.affinity}}
		}
		if d := cmp.Diff(c.want, c.driver.Places(v)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
