package blueprint

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const twoContainers = `{"initContainers":[{"name":"first","image":"init:1"}],
  "containers":[{"name":"main","image":"image:1"},{"name":"side","image":"side:1"}]}`

// TestBase: what Kubernetes lets change in a pod that runs makes no other base; everything else does.
func TestBase(t *testing.T) {
	of := func(edit func(*v1alpha1.PodTemplate)) string {
		c := example()
		c.Spec.Template.Spec.Raw = []byte(twoContainers)
		edit(&c.Spec.Template)
		b, _ := Of(c)
		if c.Spec.Template.Metadata.Annotations["note"] == "" {
			t.Error("the template is written to")
		}
		return b.Base
	}
	replaced := func(from, to string) func(*v1alpha1.PodTemplate) {
		return func(p *v1alpha1.PodTemplate) { p.Spec.Raw = []byte(strings.ReplaceAll(twoContainers, from, to)) }
	}
	was := of(func(*v1alpha1.PodTemplate) {})
	for name, c := range map[string]struct {
		edit func(*v1alpha1.PodTemplate)
		same bool
	}{
		"another image":                    {replaced("image:1", "image:2"), true},
		"another value of an annotation":   {func(p *v1alpha1.PodTemplate) { p.Metadata.Annotations["note"] = "changed" }, true},
		"another image of what runs first": {replaced("init:1", "init:2"), false},
		"another name of a container":      {replaced("side", "aside"), false},
		"an annotation more":               {func(p *v1alpha1.PodTemplate) { p.Metadata.Annotations["x"] = "y" }, false},
		"another label":                    {func(p *v1alpha1.PodTemplate) { p.Metadata.Labels["x"] = "y" }, false},
		"no JSON":                          {replaced("{", "["), false},
	} {
		if got := of(c.edit) == was; got != c.same {
			t.Errorf("%s: the same is %t", name, got)
		}
	}
}

func TestInPlace(t *testing.T) {
	c := example()
	c.Spec.Template.Spec.Raw = []byte(twoContainers)
	before, _ := Of(c)
	p := before.Pod("00ff")
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", ContainerID: "c://1"}, {Name: "side", ContainerID: "c://2"}}
	if at, still := Updating(p); !at.IsZero() || still {
		t.Errorf("changed at %s, %t", at, still)
	}
	c.Spec.Template.Spec.Raw = []byte(strings.ReplaceAll(twoContainers, "image:1", "image:2"))
	c.Spec.Template.Metadata.Annotations["note"] = "changed"
	after, _ := Of(c)
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	after.InPlace(p, now)
	want := after.Pod("00ff")
	want.Status = p.Status
	want.Annotations[v1alpha1.AnnotationUpdated] = "2030-01-02T03:04:05Z main=c://1"
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	if at, still := Updating(p); !at.Equal(now) || !still {
		t.Errorf("the container of before runs: changed at %s, %t", at, still)
	}
	p.Status.ContainerStatuses[0].ContainerID = "c://3"
	if _, still := Updating(p); still {
		t.Error("the container of before has ended")
	}
	p.Labels[appsv1.ControllerRevisionHashLabelKey] = "x"
	c.Spec.Template.Metadata.Annotations["note"] = "again"
	onlyNotes, _ := Of(c)
	onlyNotes.InPlace(p, now.Add(time.Hour))
	if at, still := Updating(p); !at.Equal(now) || still || p.Annotations["note"] != "again" || p.Labels[appsv1.ControllerRevisionHashLabelKey] != onlyNotes.Revision {
		t.Errorf("no container ends for an annotation: %s, %t, %v", at, still, p.Annotations)
	}
	p.Annotations[v1alpha1.AnnotationUpdated] = "yesterday main=c://3"
	if at, still := Updating(p); !at.IsZero() || still {
		t.Errorf("what cannot be read: %s, %t", at, still)
	}
}
