package driver

import (
	"slices"
	"strconv"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
)

// sidecar is one container of the Kubernetes project beside a driver.
type sidecar struct {
	name string
	args []string
}

// Arguments that several sidecars have.
var (
	patience = []string{"--timeout=60s", "--retry-interval-max=1m"}
	// A detachment waits for a node that is silent, to be fenced by a person's word, and a pod waits for the detachment: neither waits for a minute
	// more. Attachments that fail are few, since Kubernetes begins none before the one elsewhere has ended.
	attaching = []string{"--timeout=60s", "--retry-interval-max=10s"}
	requests  = []string{"--kube-api-qps=50", "--kube-api-burst=100"}
)

// sidecarsOf returns the sidecars that a driver needs, in the order of their containers.
func sidecarsOf(d backend.Driver) []sidecar {
	all := []sidecar{provisioner(d)}
	if d.Attach {
		all = append(all, sidecar{Attacher, slices.Concat(attaching, requests)})
	}
	all = append(all, sidecar{Resizer, slices.Concat(patience, requests)})
	if d.Snapshots {
		all = append(all, sidecar{Snapshotter, slices.Concat(patience, []string{"--extra-create-metadata"})})
	}
	return all
}

// provisioner makes and deletes the volumes of every driver. Where the scheduler looks at capacity, it asks the CSI controller for that
// often: the CSI controller reads it from memory, and only what changed is written. So the scheduler knows of an expansion or a new disk
// seconds later.
func provisioner(d backend.Driver) sidecar {
	var args []string
	if d.Topology {
		args = append(args, "--feature-gates=Topology=true", "--strict-topology", "--immediate-topology=false")
	}
	args = append(args, "--extra-create-metadata")
	if published(d) {
		args = append(args, "--enable-capacity", "--capacity-ownerref-level=2", "--capacity-poll-interval=5s", "--capacity-threads=4",
			"--kube-api-capacity-qps=20", "--kube-api-capacity-burst=40")
	}
	return sidecar{Provisioner, slices.Concat(args, requests, patience)}
}

// sidecar returns the container of a sidecar. Each of them elects a leader of its own: the pod that leads in one of them need not lead in
// the others.
func (r *Reconciler) sidecar(s sidecar) *corev1ac.ContainerApplyConfiguration {
	common := []string{
		"--csi-address=" + socket, "--leader-election", "--leader-election-namespace=" + r.Namespace, "--v=" + strconv.Itoa(r.Verbosity+1),
	}
	return r.container(s.name, slices.Concat(common, s.args)...).WithEnv(
		// The owner of the objects that publish capacity is found from the pod.
		corev1ac.EnvVar().WithName("NAMESPACE").WithValueFrom(field("metadata.namespace")),
		corev1ac.EnvVar().WithName("POD_NAME").WithValueFrom(field("metadata.name")),
	)
}
