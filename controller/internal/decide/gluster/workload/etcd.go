package workload

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const etcdData = "/var/lib/etcd"

// EtcdMember is the workload of one member of etcd. Each is one of its own, with a claim that nobody makes again: a member that comes back empty under its
// old name has forgotten what it agreed to, and three of them would begin an empty store, in which there is no pool.
func EtcdMember(c *v1alpha1.GlusterCluster, i int) *appsv1.StatefulSet {
	name := Member(c.Name, i)
	all := labels(c.Name, PartEtcd, "")
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: meta(c.Namespace, name, all),
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), ServiceName: Etcd(c.Name), Selector: &metav1.LabelSelector{MatchLabels: withMember(selector(c.Name, PartEtcd), i)},
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: withMember(all, i)},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{member(c, i)}, Volumes: []corev1.Volume{claimed("data", name), secret("tls", EtcdTLS(c.Name), KeyCA, KeyCertificate, KeyPrivate)},
					AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), TerminationGracePeriodSeconds: new(int64(30)),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), RunAsGroup: new(int64(65532)), FSGroup: new(int64(65532)),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
						// Two members on one machine are lost together, and with them the majority.
						RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{apart(selector(c.Name, PartEtcd))},
					}},
				},
			},
		},
	}
}

// member is the container.
func member(c *v1alpha1.GlusterCluster, i int) corev1.Container {
	return corev1.Container{
		Name: PartEtcd, Image: string(c.Spec.Images.Etcd), Command: []string{"etcd"}, Args: etcdArguments(c, i),
		Ports:        []corev1.ContainerPort{{Name: "client", ContainerPort: EtcdPort}, {Name: "peer", ContainerPort: etcdPeerPort}, {Name: "health", ContainerPort: etcdHealthPort}},
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: etcdData}, {Name: "tls", MountPath: etcdDir, ReadOnly: true}},
		// A member proves by its certificate that it is one: the authority makes certificates for this pool alone. Its address proves nothing, and the name that DNS
		// has for the address of a pod ends with the domain of the Kubernetes cluster, which no certificate has. The first name is that of etcd before 3.6.
		Env: []corev1.EnvVar{{Name: "ETCD_EXPERIMENTAL_PEER_SKIP_CLIENT_SAN_VERIFICATION", Value: "true"}, {Name: "ETCD_PEER_SKIP_CLIENT_SAN_VERIFICATION", Value: "true"}},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromInt32(etcdHealthPort)}},
			PeriodSeconds: 5, TimeoutSeconds: 5,
		},
		SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
		}},
	}
}

func etcdArguments(c *v1alpha1.GlusterCluster, i int) []string {
	var cluster []string
	for j := range Members {
		cluster = append(cluster, fmt.Sprintf("%s=https://%s:%d", Member(c.Name, j), memberHost(c, j), etcdPeerPort))
	}
	host := memberHost(c, i)
	all := []string{
		"--name=" + Member(c.Name, i), "--data-dir=" + etcdData + "/data",
		fmt.Sprintf("--listen-client-urls=https://0.0.0.0:%d", EtcdPort), fmt.Sprintf("--advertise-client-urls=https://%s:%d", host, EtcdPort),
		fmt.Sprintf("--listen-peer-urls=https://0.0.0.0:%d", etcdPeerPort), fmt.Sprintf("--initial-advertise-peer-urls=https://%s:%d", host, etcdPeerPort),
		fmt.Sprintf("--listen-metrics-urls=http://0.0.0.0:%d", etcdHealthPort),
		"--initial-cluster=" + strings.Join(cluster, ","), "--initial-cluster-token=" + c.Namespace + "/" + c.Name, "--initial-cluster-state=new",
	}
	for _, side := range []string{"", "peer-"} {
		all = append(all, fmt.Sprintf("--%scert-file=%s/%s", side, etcdDir, KeyCertificate), fmt.Sprintf("--%skey-file=%s/%s", side, etcdDir, KeyPrivate),
			fmt.Sprintf("--%strusted-ca-file=%s/%s", side, etcdDir, KeyCA), fmt.Sprintf("--%sclient-cert-auth=true", side))
	}
	return all
}

// labelMember tells the members of etcd apart.
const labelMember = v1alpha1.Group + "/etcd-member"

func withMember(all map[string]string, i int) map[string]string {
	out := map[string]string{labelMember: fmt.Sprint(i)}
	for k, v := range all {
		out[k] = v
	}
	return out
}
