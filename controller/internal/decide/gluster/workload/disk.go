package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Disk is the path of a disk of a node of Kubernetes in the server's pod. As with Device, glusterd2 names the volume group by it. It stays the same as long as the record does.
func Disk(r v1alpha1.GlusterDevice) string {
	sum := sha256.Sum256([]byte("disk " + string(r.Node) + " " + string(r.Device)))
	return "/dev/gluster/" + hex.EncodeToString(sum[:8])
}

// Group is the volume group that glusterd2 makes on a device of the server's pod.
func Group(path string) string { return "gluster" + strings.ReplaceAll(path, "/", "-") }

// allocated returns the record of a device that the server has; nil for a claim, and while the server does not have it.
func allocated(n *v1alpha1.GlusterNode, s v1alpha1.GlusterStorage) *v1alpha1.GlusterDevice {
	for i := range n.Spec.Devices {
		if r := &n.Spec.Devices[i]; s.Device != "" && r.Device == s.Device && r.Allocated {
			return r
		}
	}
	return nil
}

// recorded are the annotations of a workload: the records of the disks that its server has, to be copied back should the GlusterNode lose them; nil without one.
func recorded(n *v1alpha1.GlusterNode) map[string]string {
	var all []v1alpha1.GlusterDevice
	for _, s := range n.Spec.Storage {
		if r := allocated(n, s); r != nil {
			all = append(all, *r)
		}
	}
	text, err := json.Marshal(all)
	if len(all) == 0 || err != nil {
		return nil
	}
	return map[string]string{v1alpha1.AnnotationDevices: string(text)}
}

// hosted is a disk of the machine. The kubelet follows the link, and starts no container if it does not lead to a block device. Which one it is, the kubelet does not ask.
func hosted(name, path string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: new(corev1.HostPathBlockDev)}}}
}

// disked are the records of the disks that the pod of a server gets, by their place in the spec; without are those that are left out.
func disked(n *v1alpha1.GlusterNode, without []v1alpha1.DevicePath) map[int]v1alpha1.GlusterDevice {
	all := map[int]v1alpha1.GlusterDevice{}
	for i, s := range n.Spec.Storage {
		if r := allocated(n, s); r != nil && !slices.Contains(without, s.Device) {
			all[i] = *r
		}
	}
	return all
}

// pinned is the affinity of the spec. A server with disks of a node of Kubernetes runs there alone, whatever labels other nodes get.
func pinned(n *v1alpha1.GlusterNode) *corev1.NodeAffinity {
	out := n.Spec.NodeAffinity.DeepCopy()
	for _, s := range n.Spec.Storage {
		r := allocated(n, s)
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

// Loses returns the disks of a machine that a workload has, or has on record, and that its node does not have on record any more; nil for no workload. Without its record a disk that bricks
// are on would be taken off its server, and the copy of the record would go, too.
func Loses(have *appsv1.StatefulSet, n *v1alpha1.GlusterNode) []string {
	if have == nil {
		return nil
	}
	var lost []string
	missing := func(path string) {
		kept := slices.ContainsFunc(n.Spec.Devices, func(r v1alpha1.GlusterDevice) bool { return r.Allocated && string(r.Path) == path })
		if !kept && !slices.Contains(lost, path) {
			lost = append(lost, path)
		}
	}
	for _, path := range Hosted(have) {
		missing(path)
	}
	if text := have.Annotations[v1alpha1.AnnotationDevices]; text != "" {
		var told []v1alpha1.GlusterDevice
		if json.Unmarshal([]byte(text), &told) != nil {
			lost = append(lost, "disks that nobody can read from its annotation")
		}
		for _, r := range told {
			missing(string(r.Path))
		}
	}
	return lost
}

// Hosted are the paths of the disks of a machine that the template of a workload has.
func Hosted(w *appsv1.StatefulSet) []string {
	if w == nil {
		return nil
	}
	var all []string
	for _, v := range w.Spec.Template.Spec.Volumes {
		if v.HostPath != nil {
			all = append(all, v.HostPath.Path)
		}
	}
	return all
}
