// Package topology decides whether a node meets the requirements that a volume has of nodes. It knows nothing of clients.
package topology

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// operators are the names that label selectors have for those of node selectors.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn:           selection.In,
	corev1.NodeSelectorOpNotIn:        selection.NotIn,
	corev1.NodeSelectorOpExists:       selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt:           selection.GreaterThan,
	corev1.NodeSelectorOpLt:           selection.LessThan,
}

// Check says what cannot be understood in a selector. Matches takes such a part for one that no node meets.
func Check(s *corev1.NodeSelector) error {
	if len(s.NodeSelectorTerms) == 0 {
		return fmt.Errorf("there is no term, so that no node matches")
	}
	for i, t := range s.NodeSelectorTerms {
		if err := CheckTerm(t); err != nil {
			return fmt.Errorf("term %d: %w", i+1, err)
		}
	}
	return nil
}

// CheckTerm says what cannot be understood in one term.
func CheckTerm(t corev1.NodeSelectorTerm) error {
	for _, r := range t.MatchExpressions {
		op, known := operators[r.Operator]
		if !known {
			return fmt.Errorf("the operator %q of %q does not exist", r.Operator, r.Key)
		}
		if _, err := labels.NewRequirement(r.Key, op, r.Values); err != nil {
			return err
		}
	}
	for _, r := range t.MatchFields {
		in := r.Operator == corev1.NodeSelectorOpIn || r.Operator == corev1.NodeSelectorOpNotIn
		if r.Key != metav1.ObjectNameField || !in || len(r.Values) != 1 {
			return fmt.Errorf("the field %q cannot be selected so: there is only %s, In or NotIn one value", r.Key, metav1.ObjectNameField)
		}
	}
	return nil
}

// Matches reports whether a node meets one of the terms. An empty term matches nothing.
func Matches(s *corev1.NodeSelector, name string, nodeLabels map[string]string) bool {
	return slices.ContainsFunc(s.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		if len(t.MatchExpressions)+len(t.MatchFields) == 0 {
			return false
		}
		return all(t.MatchExpressions, nodeLabels) && named(t.MatchFields, name)
	})
}

// all reports whether every requirement is met. One that cannot be understood is not.
func all(requirements []corev1.NodeSelectorRequirement, have map[string]string) bool {
	return !slices.ContainsFunc(requirements, func(r corev1.NodeSelectorRequirement) bool {
		q, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
		return err != nil || !q.Matches(labels.Set(have))
	})
}

// named reports whether the requirements of fields are met. The only field that there is, is the name, and it may be longer than a label.
func named(requirements []corev1.NodeSelectorRequirement, name string) bool {
	return !slices.ContainsFunc(requirements, func(r corev1.NodeSelectorRequirement) bool {
		listed := slices.Contains(r.Values, name)
		met := r.Operator == corev1.NodeSelectorOpIn && listed || r.Operator == corev1.NodeSelectorOpNotIn && !listed
		return r.Key != metav1.ObjectNameField || !met
	})
}

// Kept names what keeps a volume on nodes that are not there: the name of the node, else its host name, else the first value that a label has to have. It is empty where the
// selector names none.
func Kept(s *corev1.NodeSelector) string {
	byKey := map[string]string{}
	first := ""
	for _, t := range s.NodeSelectorTerms {
		for _, r := range slices.Concat(t.MatchFields, t.MatchExpressions) {
			if r.Operator != corev1.NodeSelectorOpIn || len(r.Values) == 0 {
				continue
			}
			if first == "" {
				first = slices.Min(r.Values)
			}
			if byKey[r.Key] == "" {
				byKey[r.Key] = slices.Min(r.Values)
			}
		}
	}
	return cmp.Or(byKey[metav1.ObjectNameField], byKey[corev1.LabelHostname], first)
}
