package cephpod

import (
	"slices"
	"strconv"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quarry.storage/quarry/pkg/cephname"
)

// BudgetName is how the budget of a kind of daemons is called.
func BudgetName(cluster, kind string) string { return "ceph-" + cluster + "-" + kind }

// Budget of a kind of daemons: how many of them may be away by somebody's will at the same time. OSDs that are free are not counted, and nothing holds them.
func (p Plan) Budget(kind string, away int32, free ...int) *policyv1.PodDisruptionBudget {
	most := intstr.FromInt32(away)
	out := &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: metav1.ObjectMeta{Name: BudgetName(p.Cluster, kind), Namespace: cephname.Namespace, Labels: p.Labels(kind, "")},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &most,
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{cephname.LabelFSID: p.FSID, cephname.LabelDaemon: kind}},
		},
	}
	// A pod that two budgets select is never evicted, so there is one, and it leaves out what is free.
	if len(free) > 0 {
		ids := make([]string, 0, len(free))
		for _, id := range free {
			ids = append(ids, strconv.Itoa(id))
		}
		out.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: cephname.LabelID, Operator: metav1.LabelSelectorOpNotIn, Values: ids}}
	}
	return out
}

// Budgeted reads what Budget made. It reports whether it is that: another one is made anew.
func (p Plan) Budgeted(kind string, b *policyv1.PodDisruptionBudget) (away int32, free []int, ours bool) {
	s := b.Spec
	if s.MaxUnavailable == nil || s.MaxUnavailable.Type != intstr.Int || s.MinAvailable != nil || s.Selector == nil || len(s.Selector.MatchExpressions) > 1 {
		return 0, nil, false
	}
	for _, e := range s.Selector.MatchExpressions {
		for _, text := range e.Values {
			id, err := strconv.Atoi(text)
			if err != nil {
				return 0, nil, false
			}
			free = append(free, id)
		}
	}
	away = s.MaxUnavailable.IntVal
	want := p.Budget(kind, away, free...).Spec.Selector
	same := metav1.FormatLabelSelector(want) == metav1.FormatLabelSelector(s.Selector)
	slices.Sort(free)
	return away, free, same
}
