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

// Directories in the pod of a server.
const (
	stateDir = "/var/lib/glusterd2"
	runDir   = "/run/glusterd2"
	logDir   = "/var/log/glusterd2"
	etcdDir  = "/etc/quarry/etcd"
	tlsDir   = "/etc/quarry/tls"
)

// Server is the workload of a node: one pod with glusterd2. Kubernetes never runs a second pod of it beside one that may still run, and never replaces a pod
// by itself because the template changed: whether the volumes can do without the server right now is not its business. without are disks of its machine that it does not get now.
func Server(c *v1alpha1.GlusterCluster, n *v1alpha1.GlusterNode, without ...v1alpha1.DevicePath) *appsv1.StatefulSet {
	all, hosts := labels(c.Name, PartServer, n.Name), disked(n, without)
	pod := corev1.PodSpec{
		Containers: []corev1.Container{server(c, n, hosts)}, Volumes: volumes(c, n, hosts), AutomountServiceAccountToken: new(false),
		EnableServiceLinks: new(false), TerminationGracePeriodSeconds: new(int64(60)), Affinity: affinity(c, n),
	}
	about := meta(c.Namespace, n.Name, all)
	about.Annotations = recorded(n)
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: about,
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), ServiceName: Service(c.Name),
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelGlusterNode: n.Name}},
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			Template:       corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: all}, Spec: pod},
		},
	}
}

// server is the container. Its image has to start glusterd2 with the arguments that it is given.
func server(c *v1alpha1.GlusterCluster, n *v1alpha1.GlusterNode, hosts map[int]v1alpha1.GlusterDevice) corev1.Container {
	out := corev1.Container{
		Name: PartServer, Image: string(c.Spec.Images.Glusterd2), Args: arguments(c, n),
		Env: []corev1.EnvVar{
			// Without it the server takes another ID whenever it joins or leaves a pool (a035, x048).
			{Name: "GD2_PEER_ID", Value: n.Spec.Peer},
			// There is no udev in the pod: LVM makes the nodes of its devices itself.
			{Name: "DM_DISABLE_UDEV", Value: "1"},
		},
		Ports: []corev1.ContainerPort{{Name: "client", ContainerPort: ClientPort}, {Name: "peer", ContainerPort: PeerPort}},
		// It makes volume groups, and mounts bricks.
		SecurityContext: &corev1.SecurityContext{Privileged: new(true)},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ping", Port: intstr.FromInt32(ClientPort), Scheme: scheme(c)}},
			PeriodSeconds: 5, TimeoutSeconds: 5,
		},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
		}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "state", MountPath: stateDir},
			// The file is there before the first start, so that no server makes a secret of its own (t057).
			{Name: "auth", MountPath: stateDir + "/" + KeyAuth, SubPath: KeyAuth, ReadOnly: true},
			{Name: "run", MountPath: runDir},
			{Name: "log", MountPath: logDir},
			{Name: "etcd", MountPath: etcdDir, ReadOnly: true},
		},
	}
	if c.Spec.GlusterCA != nil {
		out.VolumeMounts = append(out.VolumeMounts, corev1.VolumeMount{Name: "tls", MountPath: tlsDir, ReadOnly: true})
	}
	for i, s := range n.Spec.Storage {
		if s.PVCName != "" {
			out.VolumeDevices = append(out.VolumeDevices, corev1.VolumeDevice{Name: fmt.Sprintf("device-%d", i), DevicePath: Device(n.Namespace, s.PVCName)})
		} else if r, has := hosts[i]; has {
			out.VolumeMounts = append(out.VolumeMounts, corev1.VolumeMount{Name: fmt.Sprintf("device-%d", i), MountPath: Disk(r)})
		}
	}
	return out
}

func scheme(c *v1alpha1.GlusterCluster) corev1.URIScheme {
	if c.Spec.GlusterCA != nil {
		return corev1.URISchemeHTTPS
	}
	return corev1.URISchemeHTTP
}

// arguments of glusterd2. The ID of a cluster is not among them: with it a server that was removed would be a member again as soon as it starts (x012).
func arguments(c *v1alpha1.GlusterCluster, n *v1alpha1.GlusterNode) []string {
	var endpoints []string
	for i := range Members {
		endpoints = append(endpoints, fmt.Sprintf("https://%s:%d", memberHost(c, i), EtcdPort))
	}
	all := []string{
		"--localstatedir=" + stateDir, "--rundir=" + runDir, "--logdir=" + logDir, "--clientaddress=" + ClientAddress(n), "--peeraddress=" + PeerAddress(n),
		"--noembed=true", "--etcdendpoints=" + strings.Join(endpoints, ","),
		"--etcd-client-ca-file=" + etcdDir + "/" + KeyCA, "--etcd-client-cert-file=" + etcdDir + "/" + KeyCertificate, "--etcd-client-key-file=" + etcdDir + "/" + KeyPrivate,
	}
	if c.Spec.GlusterCA != nil {
		all = append(all, "--cert-file="+tlsDir+"/"+KeyCertificate, "--key-file="+tlsDir+"/"+KeyPrivate)
	}
	return all
}

// volumes of a server's pod. What is in the directory for running processes must not outlive them: a file with the number of a process that is another one's by
// now keeps the server from starting (q003).
func volumes(c *v1alpha1.GlusterCluster, n *v1alpha1.GlusterNode, hosts map[int]v1alpha1.GlusterDevice) []corev1.Volume {
	all := []corev1.Volume{
		claimed("state", StateClaim(n.Name)), empty("run"), empty("log"),
		secret("auth", Auth(c.Name), KeyAuth), secret("etcd", EtcdTLS(c.Name), KeyCA, KeyCertificate, KeyPrivate),
	}
	if c.Spec.GlusterCA != nil {
		all = append(all, secret("tls", TLS(c.Name), KeyCertificate, KeyPrivate))
	}
	for i, s := range n.Spec.Storage {
		if s.PVCName != "" {
			all = append(all, claimed(fmt.Sprintf("device-%d", i), s.PVCName))
		} else if r, has := hosts[i]; has {
			all = append(all, hosted(fmt.Sprintf("device-%d", i), string(r.Path)))
		}
	}
	return all
}

func claimed(name, claim string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
}

func empty(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

func secret(name, of string, keys ...string) corev1.Volume {
	source := &corev1.SecretVolumeSource{SecretName: of, DefaultMode: new(int32(0o440))}
	for _, k := range keys {
		source.Items = append(source.Items, corev1.KeyToPath{Key: k, Path: k})
	}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: source}}
}

// affinity is that of the spec, and servers of a pool keep off one another where they can.
func affinity(c *v1alpha1.GlusterCluster, n *v1alpha1.GlusterNode) *corev1.Affinity {
	return &corev1.Affinity{
		NodeAffinity: pinned(n),
		PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100, PodAffinityTerm: apart(selector(c.Name, PartServer)),
		}}},
	}
}

func apart(pods map[string]string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: pods}, TopologyKey: corev1.LabelHostname}
}
