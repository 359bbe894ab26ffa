package driver

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	storagev1ac "k8s.io/client-go/applyconfigurations/storage/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	// serviceAccount of the Deployments; deploy/rbac/csi-driver.yaml says what it may do.
	serviceAccount = "quarry-csi"
	labelApp       = "app.kubernetes.io/name"
	socketDir      = "/csi"
	socket         = socketDir + "/csi.sock"
	// healthPort is where the CSI controller answers probes.
	healthPort = 8081
	// nobody is the user that all containers run as.
	nobody = 65532
)

// applied is one object to apply.
type applied struct {
	name   string
	config runtime.ApplyConfiguration
}

// csiDriver says how Kubernetes is to use the driver: local volumes are not attached, and the scheduler looks at capacity. The node
// service refuses the mount option that seLinuxMount would make the kubelet send.
func csiDriver(driver string) applied {
	return applied{driver, storagev1ac.CSIDriver(driver).WithLabels(map[string]string{v1alpha1.LabelDriver: driver}).
		WithSpec(storagev1ac.CSIDriverSpec().
			WithAttachRequired(false).WithPodInfoOnMount(false).WithStorageCapacity(true).WithSELinuxMount(false).
			WithFSGroupPolicy(storagev1.FileFSGroupPolicy).WithRequiresRepublish(false).
			WithVolumeLifecycleModes(storagev1.VolumeLifecyclePersistent))}
}

// deployment is the CSI controller beside its sidecars. One pod does the work; it keeps no state.
func (r *Reconciler) deployment(driver string) applied {
	name := deployments[driver]
	labels := map[string]string{labelApp: name, "app.kubernetes.io/part-of": "quarry", v1alpha1.LabelDriver: driver}
	containers := []*corev1ac.ContainerApplyConfiguration{r.own(driver)}
	for _, s := range sidecars {
		containers = append(containers, r.sidecar(s.name, s.args))
	}
	pod := corev1ac.PodSpec().
		WithServiceAccountName(serviceAccount).WithPriorityClassName("system-cluster-critical").
		WithSecurityContext(corev1ac.PodSecurityContext().WithRunAsNonRoot(true).WithRunAsUser(nobody).WithRunAsGroup(nobody).
			WithFSGroup(nobody).WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithVolumes(corev1ac.Volume().WithName("socket").WithEmptyDir(corev1ac.EmptyDirVolumeSource())).
		WithContainers(containers...)
	return applied{name, appsv1ac.Deployment(name, r.Namespace).WithLabels(labels).WithSpec(appsv1ac.DeploymentSpec().
		WithReplicas(1).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{labelApp: name})).
		WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(pod)))}
}

// own is our container.
func (r *Reconciler) own(driver string) *corev1ac.ContainerApplyConfiguration {
	return r.container(Driver, "csi", "--driver="+driver, "--csi-address="+socket, "--v="+strconv.Itoa(r.Verbosity)).
		WithEnv(
			corev1ac.EnvVar().WithName("POD_NAMESPACE").WithValueFrom(field("metadata.namespace")),
			corev1ac.EnvVar().WithName("POD_NAME").WithValueFrom(field("metadata.name")),
		).
		WithPorts(corev1ac.ContainerPort().WithName("health").WithContainerPort(healthPort)).
		WithLivenessProbe(probe("/healthz").WithInitialDelaySeconds(10).WithPeriodSeconds(10)).
		WithReadinessProbe(probe("/readyz").WithPeriodSeconds(2))
}

func probe(path string) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromString("health")))
}

// sidecars with their arguments. The provisioner asks for capacity often, because the CSI controller answers from memory and only what
// changed is written: the scheduler knows of an expansion or a new disk seconds later. The pod that leads in one container leads in none of the others by itself; each elects its own.
var sidecars = []struct {
	name string
	args []string
}{
	{Provisioner, []string{
		"--feature-gates=Topology=true", "--strict-topology", "--immediate-topology=false", "--extra-create-metadata",
		"--enable-capacity", "--capacity-ownerref-level=2", "--capacity-poll-interval=5s", "--capacity-threads=4",
		"--kube-api-capacity-qps=20", "--kube-api-capacity-burst=40", "--kube-api-qps=50", "--kube-api-burst=100",
		"--timeout=60s", "--retry-interval-max=1m",
	}},
	{Resizer, []string{"--timeout=60s", "--retry-interval-max=1m", "--kube-api-qps=50", "--kube-api-burst=100"}},
	{Snapshotter, []string{"--timeout=60s", "--retry-interval-max=1m", "--extra-create-metadata"}},
}

func (r *Reconciler) sidecar(name string, args []string) *corev1ac.ContainerApplyConfiguration {
	common := []string{
		"--csi-address=" + socket, "--leader-election", "--leader-election-namespace=" + r.Namespace, "--v=" + strconv.Itoa(r.Verbosity+1),
	}
	return r.container(name, append(common, args...)...).WithEnv(
		// The owner of the objects that publish capacity is found from the pod.
		corev1ac.EnvVar().WithName("NAMESPACE").WithValueFrom(field("metadata.namespace")),
		corev1ac.EnvVar().WithName("POD_NAME").WithValueFrom(field("metadata.name")),
	)
}

func (r *Reconciler) container(name string, args ...string) *corev1ac.ContainerApplyConfiguration {
	return corev1ac.Container().WithName(name).WithImage(r.Images[name]).WithImagePullPolicy(corev1.PullIfNotPresent).
		WithArgs(args...).
		WithVolumeMounts(corev1ac.VolumeMount().WithName("socket").WithMountPath(socketDir)).
		WithSecurityContext(corev1ac.SecurityContext().WithAllowPrivilegeEscalation(false).WithReadOnlyRootFilesystem(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))).
		WithResources(corev1ac.ResourceRequirements().WithRequests(corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
		}))
}

func field(path string) *corev1ac.EnvVarSourceApplyConfiguration {
	return corev1ac.EnvVarSource().WithFieldRef(corev1ac.ObjectFieldSelector().WithFieldPath(path))
}
