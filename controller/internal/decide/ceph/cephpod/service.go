package cephpod

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
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

// Dashboard is the Service of the dashboard. It selects the one manager that serves it: the others only say at which address of a node that is, where not everybody gets to.
func (p Plan) Dashboard(manager string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: cephname.Dashboard(p.Cluster), Namespace: cephname.Namespace, Labels: p.Labels(cephname.ObjectDashboard, "")},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{cephname.LabelFSID: p.FSID, cephname.LabelDaemon: cephname.DaemonManager, cephname.LabelID: manager},
			Ports:    []corev1.ServicePort{{Name: "https", Port: cephname.PortDashboard, TargetPort: intstr.FromInt32(cephname.PortDashboard), Protocol: corev1.ProtocolTCP}},
		},
	}
}

// DashboardSecret has the user of the dashboard, and its password.
func (p Plan) DashboardSecret(password string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: cephname.Dashboard(p.Cluster), Namespace: cephname.Namespace, Labels: p.Labels(cephname.ObjectDashboard, "")},
		Type:       corev1.SecretTypeBasicAuth,
		Data:       map[string][]byte{cephname.KeyUsername: []byte(cephname.DashboardUser), cephname.KeyPassword: []byte(password)},
	}
}
