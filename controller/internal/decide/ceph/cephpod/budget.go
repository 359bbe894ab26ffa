package cephpod

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quarry.storage/quarry/pkg/cephname"
)

// Metrics is the Service of the managers' metrics. It has no address of its own: each manager is asked, and only the one that serves has something to tell.
func (p Plan) Metrics() *corev1.Service {
	labels := p.Labels(cephname.ObjectMetrics, "")
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name: cephname.Metrics(p.Cluster), Namespace: cephname.Namespace, Labels: labels,
			Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": strconv.Itoa(cephname.PortMetrics)},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{cephname.LabelFSID: p.FSID, cephname.LabelDaemon: cephname.DaemonManager},
			Ports: []corev1.ServicePort{{Name: cephname.ObjectMetrics, Port: cephname.PortMetrics, TargetPort: intstr.FromInt32(cephname.PortMetrics), Protocol: corev1.ProtocolTCP}},
		},
	}
}

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
