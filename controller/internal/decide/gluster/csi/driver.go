// Package csi has what runs of the CSI drivers of Gluster for a GlusterCluster. The drivers are those of the Gluster project, in images that the spec names;
// the sidecars are those of Kubernetes. It is pure: it makes the objects, and whoever calls it applies them.
package csi

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Sidecars are the images of these.
type Sidecars struct{ Provisioner, Attacher, Registrar string }

// names are those that the drivers have in Kubernetes.
var names = map[v1alpha1.GlusterDriver]string{v1alpha1.GlusterFuse: "org.gluster.glusterfs", v1alpha1.GlusterBlock: "org.gluster.glustervirtblock"}

// Known are all drivers.
var Known = []v1alpha1.GlusterDriver{v1alpha1.GlusterFuse, v1alpha1.GlusterBlock}

// Name is the name of a driver in Kubernetes. There is one driver of a name in a Kubernetes cluster.
func Name(d v1alpha1.GlusterDriver) string { return names[d] }

// AnnotationNamespace is on a CSIDriver: the namespace of the GlusterCluster that it was made for.
const AnnotationNamespace = v1alpha1.Group + "/gluster-namespace"

// Account is the name of the service account of a cluster's drivers. A person binds the ClusterRole quarry-gluster-driver to it: the controller gives nobody
// rights that it does not have.
func Account(cluster string) string { return cluster + "-gluster-driver" }

// workloadName is the name of the workloads of a driver.
func workloadName(cluster string, d v1alpha1.GlusterDriver) string { return cluster + "-" + string(d) }

// Driver tells Kubernetes of the driver.
func Driver(c *v1alpha1.GlusterCluster, d v1alpha1.GlusterDriver) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIDriver"},
		ObjectMeta: metav1.ObjectMeta{Name: Name(d), Labels: labels(c.Name, d), Annotations: map[string]string{AnnotationNamespace: c.Namespace}},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: new(true), PodInfoOnMount: new(true)},
	}
}

// Holder says which GlusterCluster a CSIDriver is of; empty when it is none of ours.
func Holder(d *storagev1.CSIDriver) (namespace, cluster string) {
	return d.Annotations[AnnotationNamespace], d.Labels[v1alpha1.LabelGlusterCluster]
}

// Refused says why no driver of a cluster can work, and what to do; empty when they can.
func Refused(c *v1alpha1.GlusterCluster) string {
	if c.Spec.GlusterCA == nil || len(c.Spec.Drivers) == 0 {
		return ""
	}
	return "spec.glusterCA and spec.drivers do not go together: the drivers do not know the authority of the servers, and none is deployed. " +
		"Empty spec.drivers, or make the GlusterCluster anew without glusterCA."
}

// Workloads are the objects of one driver in the namespace of the cluster.
func Workloads(c *v1alpha1.GlusterCluster, d v1alpha1.GlusterDriver, s Sidecars) []workload.Object {
	return []workload.Object{
		&corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: Account(c.Name), Labels: labels(c.Name, "")},
		},
		controller(c, d, s), nodes(c, d, s),
	}
}

// Empty are the objects of one driver with nothing but their names, to look whether they exist. The account is of all of them.
func Empty(c *v1alpha1.GlusterCluster, d v1alpha1.GlusterDriver) []workload.Object {
	meta := metav1.ObjectMeta{Namespace: c.Namespace, Name: workloadName(c.Name, d)}
	return []workload.Object{&appsv1.Deployment{ObjectMeta: meta}, &appsv1.DaemonSet{ObjectMeta: meta}}
}

func labels(cluster string, d v1alpha1.GlusterDriver) map[string]string {
	all := map[string]string{"app.kubernetes.io/part-of": "quarry", v1alpha1.LabelGlusterCluster: cluster, v1alpha1.LabelGlusterPart: "driver"}
	if d != "" {
		all[v1alpha1.LabelGlusterPart] = string(d)
	}
	return all
}

// controller makes volumes and attaches them.
func controller(c *v1alpha1.GlusterCluster, d v1alpha1.GlusterDriver, s Sidecars) *appsv1.Deployment {
	all := podLabels(c, d, "controller")
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: workloadName(c.Name, d), Labels: labels(c.Name, d)},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: all},
			// Two of them would both make a volume for one claim: the sidecars are of a time without an election.
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: all}, Spec: corev1.PodSpec{
				ServiceAccountName: Account(c.Name),
				Containers: []corev1.Container{
					sidecar("csi-provisioner", s.Provisioner), sidecar("csi-attacher", s.Attacher), own(c, d, d == v1alpha1.GlusterBlock),
				},
				Volumes: []corev1.Volume{{Name: "socket", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			}},
		},
	}
}

// nodes mount volumes, on every node of Kubernetes. Nobody but a person replaces their pods: mounts of gluster-fuse are processes in them, and end with them.
func nodes(c *v1alpha1.GlusterCluster, d v1alpha1.GlusterDriver, s Sidecars) *appsv1.DaemonSet {
	all := podLabels(c, d, "node")
	dir := "/var/lib/kubelet/plugins/" + Name(d)
	registrar := sidecar("csi-node-driver-registrar", s.Registrar)
	registrar.Args = append(registrar.Args, "--kubelet-registration-path="+dir+"/csi.sock")
	registrar.VolumeMounts = append(registrar.VolumeMounts, corev1.VolumeMount{Name: "registration", MountPath: "/registration"})
	mounts := own(c, d, true)
	mounts.VolumeMounts = append(mounts.VolumeMounts, corev1.VolumeMount{Name: "kubelet", MountPath: "/var/lib/kubelet", MountPropagation: new(corev1.MountPropagationBidirectional)})
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: workloadName(c.Name, d), Labels: labels(c.Name, d)},
		Spec: appsv1.DaemonSetSpec{
			Selector:       &metav1.LabelSelector{MatchLabels: all},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: all}, Spec: corev1.PodSpec{
				ServiceAccountName: Account(c.Name), HostNetwork: true, DNSPolicy: corev1.DNSClusterFirstWithHostNet,
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Containers:  []corev1.Container{registrar, mounts},
				Volumes: []corev1.Volume{
					host("socket", dir, corev1.HostPathDirectoryOrCreate), host("registration", "/var/lib/kubelet/plugins_registry", corev1.HostPathDirectory),
					host("kubelet", "/var/lib/kubelet", corev1.HostPathDirectory),
				},
			}},
		},
	}
}

// Stale says how many nodes have a pod of an earlier template, and what a person does about it; empty if none has.
func Stale(d v1alpha1.GlusterDriver, set *appsv1.DaemonSet) string {
	n := set.Status.DesiredNumberScheduled - set.Status.UpdatedNumberScheduled
	if n <= 0 || set.Status.ObservedGeneration < set.Generation {
		return ""
	}
	return fmt.Sprintf("Driver %s has pods of an earlier template on %d nodes (DaemonSet %s). Its mounts end with its pod: drain one node after the other, and delete the pod there.", d, n, set.Name)
}

func podLabels(c *v1alpha1.GlusterCluster, d v1alpha1.GlusterDriver, role string) map[string]string {
	all := labels(c.Name, d)
	all["app.kubernetes.io/component"] = role
	return all
}

func host(name, path string, kind corev1.HostPathType) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}}
}

func sidecar(name, image string) corev1.Container {
	return corev1.Container{
		Name: name, Image: image, Args: []string{"--csi-address=/csi/csi.sock"}, VolumeMounts: []corev1.VolumeMount{{Name: "socket", MountPath: "/csi"}},
	}
}

// own is the container of the driver. It is told where a server of the pool is, and its secret.
func own(c *v1alpha1.GlusterCluster, d v1alpha1.GlusterDriver, privileged bool) corev1.Container {
	out := corev1.Container{
		Name: string(d), Image: string(c.Spec.Images.Drivers[string(d)]),
		Args: []string{
			"--nodeid=$(NODE_ID)", "--endpoint=unix://csi/csi.sock", "--resttimeout=120", "--restuser=glustercli", "--restsecret=$(REST_SECRET)",
			fmt.Sprintf("--resturl=http://%s.%s.svc:%d", workload.ClientService(c.Name), c.Namespace, workload.ClientPort),
		},
		Env: []corev1.EnvVar{
			{Name: "NODE_ID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
			{Name: "REST_SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: workload.Auth(c.Name)}, Key: workload.KeyAuth,
			}}},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "socket", MountPath: "/csi"}},
	}
	if privileged {
		out.SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	}
	return out
}
