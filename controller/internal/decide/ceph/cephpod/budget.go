package cephpod

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quarry.storage/quarry/pkg/cephname"
)

// Budget of a kind of daemons: how many of them may be away by somebody's will at the same time.
func (p Plan) Budget(kind string, away int32) *policyv1.PodDisruptionBudget {
	most := intstr.FromInt32(away)
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: metav1.ObjectMeta{Name: "ceph-" + p.Cluster + "-" + kind, Namespace: cephname.Namespace, Labels: p.Labels(kind, "")},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &most,
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{cephname.LabelFSID: p.FSID, cephname.LabelDaemon: kind}},
		},
	}
}
