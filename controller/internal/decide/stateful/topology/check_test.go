package topology

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestCheck(t *testing.T) {
	type requirement = corev1.NodeSelectorRequirement
	for name, row := range map[string]struct {
		expression, field *requirement
		fails             bool
	}{
		"in":                       {expression: &requirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "b"}}},
		"in nothing":               {expression: &requirement{Key: "zone", Operator: corev1.NodeSelectorOpIn}, fails: true},
		"exists":                   {expression: &requirement{Key: "zone", Operator: corev1.NodeSelectorOpExists}},
		"exists, with a value":     {expression: &requirement{Key: "zone", Operator: corev1.NodeSelectorOpExists, Values: []string{"a"}}, fails: true},
		"more than a number":       {expression: &requirement{Key: "cpus", Operator: corev1.NodeSelectorOpGt, Values: []string{"4"}}},
		"more than a word":         {expression: &requirement{Key: "cpus", Operator: corev1.NodeSelectorOpGt, Values: []string{"many"}}, fails: true},
		"an operator of the fancy": {expression: &requirement{Key: "zone", Operator: "Like", Values: []string{"a"}}, fails: true},
		"no operator":              {expression: &requirement{Key: "zone", Values: []string{"a"}}, fails: true},
		"a strange key":            {expression: &requirement{Key: "a b", Operator: corev1.NodeSelectorOpExists}, fails: true},
		"the name":                 {field: &requirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}},
		"one of two names":         {field: &requirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1", "n2"}}, fails: true},
		"another field":            {field: &requirement{Key: "metadata.uid", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}, fails: true},
	} {
		term := corev1.NodeSelectorTerm{}
		if row.expression != nil {
			term.MatchExpressions = append(term.MatchExpressions, *row.expression)
		}
		if row.field != nil {
			term.MatchFields = append(term.MatchFields, *row.field)
		}
		if err := Check(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}); (err != nil) != row.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
	if Check(&corev1.NodeSelector{}) == nil {
		t.Error("a selector without terms is fine")
	}
}
