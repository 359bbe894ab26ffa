package workload

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Shared are the objects that all servers of a cluster, or all members of etcd, have in common, but for Secrets.
func Shared(c *v1alpha1.GlusterCluster) []Object {
	return []Object{
		service(c, Service(c.Name), PartServer, true, port("client", ClientPort), port("peer", PeerPort)),
		service(c, ClientService(c.Name), PartServer, false, port("client", ClientPort)),
		service(c, Etcd(c.Name), PartEtcd, true, port("client", EtcdPort), port("peer", etcdPeerPort)),
		serverPolicy(c), etcdPolicy(c), budget(c, Service(c.Name), PartServer), budget(c, Etcd(c.Name), PartEtcd),
	}
}

func port(name string, n int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: n, TargetPort: intstr.FromInt32(n)}
}

// service leads to the pods of a part. One that gives them names does so before they are ready, as they have to find one another for that.
func service(c *v1alpha1.GlusterCluster, name, part string, names bool, ports ...corev1.ServicePort) *corev1.Service {
	s := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta(c.Namespace, name, labels(c.Name, PartShared, "")),
		Spec: corev1.ServiceSpec{Selector: selector(c.Name, part), Ports: ports},
	}
	if names {
		s.Spec.ClusterIP, s.Spec.PublishNotReadyAddresses = corev1.ClusterIPNone, true
	}
	return s
}

// serverPolicy closes the port for other servers to everybody else: whoever reaches it needs no secret there (t053).
func serverPolicy(c *v1alpha1.GlusterCluster) *networkingv1.NetworkPolicy {
	return policy(c, Service(c.Name), PartServer,
		networkingv1.NetworkPolicyIngressRule{From: from(c, PartServer)},
		networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{
			open(ClientPort), {Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(firstBrickPort)), EndPort: new(int32(lastBrickPort))},
		}})
}

// etcdPolicy lets the servers and the members in. The port that tells how a member is has nothing else to say.
func etcdPolicy(c *v1alpha1.GlusterCluster) *networkingv1.NetworkPolicy {
	return policy(c, Etcd(c.Name), PartEtcd,
		networkingv1.NetworkPolicyIngressRule{From: from(c, PartEtcd)},
		networkingv1.NetworkPolicyIngressRule{From: from(c, PartServer), Ports: []networkingv1.NetworkPolicyPort{open(EtcdPort)}},
		networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{open(etcdHealthPort)}})
}

func policy(c *v1alpha1.GlusterCluster, name, part string, rules ...networkingv1.NetworkPolicyIngressRule) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}, ObjectMeta: meta(c.Namespace, name, labels(c.Name, PartShared, "")),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: selector(c.Name, part)}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, Ingress: rules,
		},
	}
}

func from(c *v1alpha1.GlusterCluster, part string) []networkingv1.NetworkPolicyPeer {
	return []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: selector(c.Name, part)}}}
}

func open(n int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(n))}
}

// budget lets one pod of a part be away by somebody's will.
func budget(c *v1alpha1.GlusterCluster, name, part string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}, ObjectMeta: meta(c.Namespace, name, labels(c.Name, PartShared, "")),
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: selector(c.Name, part)}},
	}
}

// Secret is a Secret of a cluster.
func Secret(c *v1alpha1.GlusterCluster, name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta(c.Namespace, name, labels(c.Name, PartShared, "")), Data: data,
	}
}
