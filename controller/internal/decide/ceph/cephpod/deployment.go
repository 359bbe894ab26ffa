package cephpod

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// Labels of everything that is made for a daemon.
func (p Plan) Labels(kind, id string) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name": "ceph-" + kind, "app.kubernetes.io/managed-by": "quarry", v1alpha1.LabelOf(v1alpha1.KindCluster): p.Cluster,
		cephname.LabelFSID: p.FSID, cephname.LabelDaemon: kind, cephname.LabelID: id,
	}
}

// Deployment of a daemon. It has one pod, bound to its node: when the node is away the pod waits for it, and none is made elsewhere.
func (p Plan) Deployment(d Daemon) *appsv1.Deployment {
	if d.Image != "" {
		p.Image = d.Image
	}
	labels := p.Labels(d.Kind, d.ID)
	spec := p.pod(d)
	out := &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Name: cephname.Workload(p.Cluster, d.Kind, d.ID), Namespace: cephname.Namespace, Labels: labels,
			Annotations: map[string]string{AnnotationTemplate: digest(spec), cephname.AnnotationNode: d.Node, cephname.AnnotationOSD: d.UUID},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), RevisionHistoryLimit: new(int32(0)), Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{cephname.LabelFSID: p.FSID, cephname.LabelDaemon: d.Kind, cephname.LabelID: d.ID}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{cephname.AnnotationNode: d.Node, cephname.AnnotationOSD: d.UUID}},
				Spec:       spec,
			},
		},
	}
	return out
}

// Template returns the digest of what a Deployment was made of.
func Template(d *appsv1.Deployment) string { return d.Annotations[AnnotationTemplate] }

func (p Plan) pod(d Daemon) corev1.PodSpec {
	main := p.main(d)
	main.VolumeMounts = mounts(d)
	switch d.Kind {
	case cephname.DaemonMonitor:
		// Commands are run beside the monitor.
		main.VolumeMounts = append(main.VolumeMounts, privileged()...)
	case cephname.DaemonTools:
	default:
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: "/etc/ceph", ReadOnly: true})
	}
	spec := corev1.PodSpec{
		HostNetwork: d.Kind != cephname.DaemonTools, DNSPolicy: corev1.DNSClusterFirstWithHostNet, EnableServiceLinks: new(false),
		AutomountServiceAccountToken: new(false), PriorityClassName: "system-node-critical", TerminationGracePeriodSeconds: new(int64(60)),
		InitContainers: p.begin(d), Containers: []corev1.Container{main}, Volumes: p.volumes(d),
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{d.Node},
			}}}},
		}}},
		Tolerations: tolerations(),
	}
	if d.Kind == cephname.DaemonTools {
		spec.DNSPolicy, spec.PriorityClassName, spec.TerminationGracePeriodSeconds = corev1.DNSDefault, "", new(int64(5))
	}
	return spec
}

// tolerations keep a daemon where it is: its data are there. A node that is out of service loses its pods all the same, since it is off.
func tolerations() []corev1.Toleration {
	var out []corev1.Toleration
	for _, key := range []string{
		corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable, corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure,
	} {
		out = append(out, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return out
}

// privileged are the configuration with the key of the administrator, and the keys of the monitors. Whole directories are mounted: a single file would never change.
func privileged() []corev1.VolumeMount {
	return []corev1.VolumeMount{{Name: "admin", MountPath: "/etc/ceph", ReadOnly: true}, {Name: "keys", MountPath: "/etc/ceph-keys", ReadOnly: true}}
}

// mounts that both containers of a daemon have.
func mounts(d Daemon) []corev1.VolumeMount {
	if d.Kind == cephname.DaemonTools {
		return []corev1.VolumeMount{{Name: "dev", MountPath: "/dev"}}
	}
	out := []corev1.VolumeMount{{Name: "sockets", MountPath: sockets}}
	switch d.Kind {
	case cephname.DaemonMonitor:
		return append(out, corev1.VolumeMount{Name: "data", MountPath: dataOf + "mon/ceph-" + d.ID})
	case cephname.DaemonOSD:
		out = append(out, corev1.VolumeMount{Name: "dev", MountPath: "/dev"})
	}
	return append(out, corev1.VolumeMount{Name: "own", MountPath: own}, corev1.VolumeMount{Name: "data", MountPath: dataOf + d.Kind + "/ceph-" + d.ID})
}

func (p Plan) volumes(d Daemon) []corev1.Volume {
	directory, there := corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory
	dev := corev1.Volume{Name: "dev", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/dev", Type: &there}}}
	if d.Kind == cephname.DaemonTools {
		return []corev1.Volume{dev}
	}
	memory := func(name string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}
	}
	keys := corev1.LocalObjectReference{Name: cephname.Keys(p.Cluster)}
	config := corev1.LocalObjectReference{Name: cephname.Config(p.Cluster)}
	file := []corev1.KeyToPath{{Key: cephname.KeyConfig, Path: cephname.KeyConfig}}
	out := []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: config, Items: file}}},
		{Name: "admin", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: new(int32(0o400)), Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: config, Items: file}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: keys, Items: []corev1.KeyToPath{{Key: cephname.KeyAdmin, Path: "ceph.client.admin.keyring"}}}},
		}}}},
		{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: keys.Name, DefaultMode: new(int32(0o400)), Items: []corev1.KeyToPath{{Key: cephname.KeyMonitor, Path: cephname.KeyMonitor}},
		}}},
		memory("sockets"), memory("scratch"),
	}
	switch d.Kind {
	case cephname.DaemonMonitor:
		return append(out, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: DataPath(p.FSID, d.ID), Type: &directory,
		}}})
	case cephname.DaemonOSD:
		out = append(out, dev)
	}
	if d.Encrypted {
		out = append(out, corev1.Volume{Name: "disk", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: p.DiskSecret(d.UUID, d.Secret), DefaultMode: new(int32(0o400)), Items: []corev1.KeyToPath{{Key: cephname.KeyDisk, Path: "key"}},
		}}})
	}
	return append(out, memory("own"), memory("data"))
}

// Sweep is the pod that removes the data of a monitor from its node, once it is out of the map and stopped. The directory of the Ceph cluster goes with the last one. It needs no program of Ceph: where an image is given it runs that one.
func (p Plan) Sweep(d Daemon) *corev1.Pod {
	if d.Image != "" {
		p.Image = d.Image
	}
	spec := p.pod(Daemon{Kind: cephname.DaemonTools, ID: d.ID, Node: d.Node})
	directory := corev1.HostPathDirectoryOrCreate
	spec.RestartPolicy = corev1.RestartPolicyOnFailure
	spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: hostData, Type: &directory}}}}
	c := &spec.Containers[0]
	c.Name, c.VolumeMounts = cephname.DaemonSweep, []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	c.Command = []string{"/bin/sh", "-c", `set -eu; rm -rf "/data/$FSID/mon.$ID"; rmdir "/data/$FSID" 2>/dev/null || true; sync`}
	c.Env = []corev1.EnvVar{{Name: "FSID", Value: p.FSID}, {Name: "ID", Value: d.ID}}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: cephname.Workload(p.Cluster, cephname.DaemonSweep, d.ID), Namespace: cephname.Namespace, Labels: p.Labels(cephname.DaemonSweep, d.ID),
			Annotations: map[string]string{cephname.AnnotationNode: d.Node},
		},
		Spec: spec,
	}
}
