package blueprint

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// base is the revision of a template without what can be changed in place: the images of its containers, but for those that run before the others, and
// the values of its annotations.
func base(t *v1alpha1.PodTemplate) string {
	bare := v1alpha1.PodTemplate{Metadata: *t.Metadata.DeepCopy()}
	for key := range bare.Metadata.Annotations {
		bare.Metadata.Annotations[key] = ""
	}
	bare.Spec = runtime.RawExtension{Raw: t.Spec.Raw}
	spec := map[string]any{}
	if json.Unmarshal(t.Spec.Raw, &spec) == nil {
		containers, _ := spec["containers"].([]any)
		for _, c := range containers {
			if fields, ok := c.(map[string]any); ok {
				delete(fields, "image")
			}
		}
		// What was just read can be written.
		bare.Spec.Raw, _ = json.Marshal(spec)
	}
	return revision(&bare)
}

// InPlace changes a pod that was made from a template of the same base to the template of now. Until the containers whose image changes were ended
// the pod says which they are: what it says about being ready is of them.
func (b *Blueprint) InPlace(p *corev1.Pod, now time.Time) {
	var ends []string
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		want := slices.IndexFunc(b.pod.Containers, func(w corev1.Container) bool { return w.Name == c.Name })
		if want < 0 || b.pod.Containers[want].Image == c.Image {
			continue
		}
		c.Image = b.pod.Containers[want].Image
		for _, s := range p.Status.ContainerStatuses {
			if s.Name == c.Name && s.ContainerID != "" {
				ends = append(ends, s.Name+"="+s.ContainerID)
			}
		}
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	maps.Copy(p.Annotations, b.owner.Spec.Template.Metadata.Annotations)
	if len(ends) > 0 {
		p.Annotations[v1alpha1.AnnotationUpdated] = now.UTC().Format(time.RFC3339) + " " + strings.Join(ends, " ")
	}
	p.Labels[appsv1.ControllerRevisionHashLabelKey] = b.Revision
}

// Updating reads what InPlace noted: when a pod was changed last, and whether a container of before still runs. Zero when it never was.
func Updating(p *corev1.Pod) (at time.Time, still bool) {
	words := strings.Fields(p.Annotations[v1alpha1.AnnotationUpdated])
	if len(words) == 0 {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, words[0])
	if err != nil {
		return time.Time{}, false
	}
	for _, s := range p.Status.ContainerStatuses {
		still = still || slices.Contains(words[1:], s.Name+"="+s.ContainerID)
	}
	return at, still
}
