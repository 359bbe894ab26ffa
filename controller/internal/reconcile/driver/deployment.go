package driver

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	// serviceAccount of the Deployments; deploy/rbac/csi-driver.yaml says what it may do.
	serviceAccount = "quarry-csi"
	labelApp       = "app.kubernetes.io/name"
	socketDir      = "/csi"
	socket         = socketDir + "/csi.sock"
	// healthPort is where the CSI controller serves its probes.
	healthPort = 8081
	// unprivileged is the user that all containers run as.
	unprivileged = 65532
)

func (r *Reconciler) emptyDeployment(d backend.Driver) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: d.Deployment}}
}

// deployment is the CSI controller beside its sidecars. One pod does the work; it keeps no state.
func (r *Reconciler) deployment(d backend.Driver) *appsv1ac.DeploymentApplyConfiguration {
	name := d.Deployment
	labels := map[string]string{labelApp: name, "app.kubernetes.io/part-of": "quarry", v1alpha1.LabelDriver: d.Name}
	containers := []*corev1ac.ContainerApplyConfiguration{r.own(d)}
	for _, s := range sidecarsOf(d) {
		containers = append(containers, r.sidecar(s))
	}
	pod := corev1ac.PodSpec().
		WithServiceAccountName(serviceAccount).WithPriorityClassName("system-cluster-critical").
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).WithRunAsUser(unprivileged).WithRunAsGroup(unprivileged).WithFSGroup(unprivileged).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithTolerations(leaves(corev1.TaintNodeNotReady), leaves(corev1.TaintNodeUnreachable)).
		WithVolumes(corev1ac.Volume().WithName("socket").WithEmptyDir(corev1ac.EmptyDirVolumeSource())).
		WithContainers(containers...)
	spec := appsv1ac.DeploymentSpec().
		WithReplicas(1).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{labelApp: name})).
		WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(pod))
	if d.Attach {
		// Each of two processes would take the other one for dead, and its turn at a shared LUN from it, until the rollout is over.
		spec.WithStrategy(appsv1ac.DeploymentStrategy().WithType(appsv1.RecreateDeploymentStrategyType))
	}
	return appsv1ac.Deployment(name, r.Namespace).WithLabels(labels).WithSpec(spec)
}

// own is our container.
func (r *Reconciler) own(d backend.Driver) *corev1ac.ContainerApplyConfiguration {
	return r.container(Driver, "csi", "--driver="+d.Name, "--csi-address="+socket, "--agent-namespace="+r.AgentNamespace,
		"--v="+strconv.Itoa(r.Verbosity)).
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
