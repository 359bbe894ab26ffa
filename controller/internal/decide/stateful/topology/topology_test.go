package topology

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMatches(t *testing.T) {
	type q = corev1.NodeSelectorRequirement
	labels := map[string]string{"host": "n1", "cores": "8"}
	long := strings.Repeat("n", 70)
	for name, c := range map[string]struct {
		terms []corev1.NodeSelectorTerm
		name  string
		want  bool
	}{
		"a label that is in":              {[]corev1.NodeSelectorTerm{{MatchExpressions: []q{{Key: "host", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1", "n2"}}}}}, "n1", true},
		"a label that is not in":          {[]corev1.NodeSelectorTerm{{MatchExpressions: []q{{Key: "host", Operator: corev1.NodeSelectorOpIn, Values: []string{"n2"}}}}}, "n1", false},
		"both of one term":                {[]corev1.NodeSelectorTerm{{MatchExpressions: []q{{Key: "host", Operator: corev1.NodeSelectorOpExists}, {Key: "cores", Operator: corev1.NodeSelectorOpGt, Values: []string{"9"}}}}}, "n1", false},
		"one of two terms":                {[]corev1.NodeSelectorTerm{{MatchExpressions: []q{{Key: "x", Operator: corev1.NodeSelectorOpExists}}}, {MatchExpressions: []q{{Key: "host", Operator: corev1.NodeSelectorOpExists}}}}, "n1", true},
		"an empty term":                   {[]corev1.NodeSelectorTerm{{}}, "n1", false},
		"no terms":                        {nil, "n1", false},
		"an operator that does not exist": {[]corev1.NodeSelectorTerm{{MatchExpressions: []q{{Key: "host", Operator: "Like"}}}}, "n1", false},
		"the name of the node":            {[]corev1.NodeSelectorTerm{{MatchFields: []q{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{long}}}}}, long, true},
		"another name":                    {[]corev1.NodeSelectorTerm{{MatchFields: []q{{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"n1"}}}}}, "n1", false},
		"a field that does not exist":     {[]corev1.NodeSelectorTerm{{MatchFields: []q{{Key: "x", Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}}, "n1", false},
	} {
		if got := Matches(&corev1.NodeSelector{NodeSelectorTerms: c.terms}, c.name, labels); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestKept_byAVolume(t *testing.T) {
	in := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	term := func(r ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: r}
	}
	for name, c := range map[string]struct {
		terms []corev1.NodeSelectorTerm
		want  string
	}{
		"nothing":             {nil, ""},
		"a label":             {[]corev1.NodeSelectorTerm{term(in("topology.example.org/node", "n1"))}, "n1"},
		"the host name first": {[]corev1.NodeSelectorTerm{term(in("a", "x"), in(corev1.LabelHostname, "n1"))}, "n1"},
		"the name before it": {[]corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{in(corev1.LabelHostname, "h1")}, MatchFields: []corev1.NodeSelectorRequirement{in(metav1.ObjectNameField, "n1")},
		}}, "n1"},
		"one of several":   {[]corev1.NodeSelectorTerm{term(in("zone", "b", "a"))}, "a"},
		"no value at all":  {[]corev1.NodeSelectorTerm{term(corev1.NodeSelectorRequirement{Key: "a", Operator: corev1.NodeSelectorOpExists})}, ""},
		"of a second term": {[]corev1.NodeSelectorTerm{term(), term(in("a", "n2"))}, "n2"},
	} {
		if got := Kept(&corev1.NodeSelector{NodeSelectorTerms: c.terms}); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
