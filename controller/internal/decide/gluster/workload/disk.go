package workload

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Disk is the path of a disk of a node of Kubernetes in the server's pod. As with Device, glusterd2 names the volume group by it. It stays the same as long as the record does.
func Disk(r v1alpha1.GlusterDevice) string {
	sum := sha256.Sum256([]byte("disk " + string(r.Node) + " " + string(r.Device)))
	return "/dev/gluster/" + hex.EncodeToString(sum[:8])
}

// given returns the record of a device that the server has; nil for a claim, and while the server does not have it.
func given(n *v1alpha1.GlusterNode, s v1alpha1.GlusterStorage) *v1alpha1.GlusterDevice {
	for i := range n.Spec.Devices {
		if r := &n.Spec.Devices[i]; s.Device != "" && r.Device == s.Device && r.Given {
			return r
		}
	}
	return nil
}

// hosted is a disk of the machine. The kubelet starts no container if no block device has the name.
func hosted(name, path string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: new(corev1.HostPathBlockDev)}}}
}

// pinned is the affinity of the spec. A server with disks of a node of Kubernetes runs there alone, whatever labels other nodes get.
func pinned(n *v1alpha1.GlusterNode) *corev1.NodeAffinity {
	out := n.Spec.NodeAffinity.DeepCopy()
	for _, s := range n.Spec.Storage {
		r := given(n, s)
		if r == nil || out == nil || out.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			continue
		}
		terms := out.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		for i := range terms {
			terms[i].MatchFields = append(terms[i].MatchFields, corev1.NodeSelectorRequirement{
				Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{string(r.Node)},
			})
		}
		return out
	}
	return out
}

// Loses returns the disks that the pods of a workload have, and those of another one of the same node would not; nil for no workload. Without its record a disk that bricks are on
// would be taken off its server.
func Loses(have, want *corev1.PodSpec) []string {
	if have == nil {
		return nil
	}
	kept := map[string]bool{}
	for _, path := range disks(want) {
		kept[path] = true
	}
	var lost []string
	for _, path := range disks(have) {
		if !kept[path] {
			lost = append(lost, path)
		}
	}
	return lost
}

func disks(p *corev1.PodSpec) []string {
	var all []string
	for _, v := range p.Volumes {
		if v.HostPath != nil {
			all = append(all, v.HostPath.Path)
		}
	}
	return all
}
