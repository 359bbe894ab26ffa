package blueprint

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestUpdate(t *testing.T) {
	number := func(n int32) *intstr.IntOrString { v := intstr.FromInt32(n); return &v }
	percent := func(s string) *intstr.IntOrString { v := intstr.FromString(s); return &v }
	ten, two := int32(10), int32(2)
	for name, c := range map[string]struct {
		options            *v1alpha1.RollingUpdateOptions
		surge, unavailable int
		partition          int
	}{
		"nothing said":                    {nil, 1, 0, 0},
		"an empty strategy":               {&v1alpha1.RollingUpdateOptions{}, 1, 0, 0},
		"two may be unavailable":          {&v1alpha1.RollingUpdateOptions{MaxUnavailable: number(2)}, 0, 2, 0},
		"two more":                        {&v1alpha1.RollingUpdateOptions{MaxSurge: number(2)}, 2, 0, 0},
		"a quarter of ten, rounded up":    {&v1alpha1.RollingUpdateOptions{MaxSurge: percent("25%")}, 3, 0, 0},
		"a quarter of ten, rounded down":  {&v1alpha1.RollingUpdateOptions{MaxUnavailable: percent("25%")}, 0, 2, 0},
		"a little of ten is one":          {&v1alpha1.RollingUpdateOptions{MaxUnavailable: percent("1%")}, 0, 1, 0},
		"two keep the template of before": {&v1alpha1.RollingUpdateOptions{Partition: &two}, 1, 0, 2},
	} {
		example := example()
		example.Spec.Replicas = &ten
		example.Spec.UpdateStrategy.RollingUpdate = c.options
		b, faults := Of(example)
		var in replica.Input
		b.Update(&in)
		if len(faults) > 0 || in.Surge != c.surge || in.Unavailable != c.unavailable || in.Partition != c.partition {
			t.Errorf("%s: %+v, %v", name, in, faults)
		}
	}
}

func TestUpdate_synced(t *testing.T) {
	c := example()
	b, _ := Of(c)
	var in replica.Input
	if b.Update(&in); in.Declared || b.SyncedWhen() != "" {
		t.Error("something is declared")
	}
	c.Spec.SyncedWhen = &v1alpha1.SyncedWhen{ConditionType: "example.org/synced"}
	if b.Update(&in); !in.Declared || b.SyncedWhen() != "example.org/synced" {
		t.Error("nothing is declared")
	}
}

// TestPod_tolerations: Kubernetes evicts no pod before the grace of the StatefulCluster, unless the template says when.
func TestPod_tolerations(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want int
	}{
		"none":                       {`{"tolerations":[]}`, 2},
		"of another taint":           {`{"tolerations":[{"key":"x","operator":"Exists"}]}`, 3},
		"for a while":                {`{"tolerations":[{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":30}]}`, 2},
		"only for scheduling":        {`{"tolerations":[{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoSchedule"}]}`, 3},
		"of everything":              {`{"tolerations":[{"operator":"Exists"}]}`, 1},
		"of everything, for a while": {`{"tolerations":[{"operator":"Exists","effect":"NoExecute","tolerationSeconds":30}]}`, 1},
	} {
		cluster := example()
		cluster.Spec.Template.Spec.Raw = []byte(c.spec)
		b, _ := Of(cluster)
		if got := b.Pod("00ff").Spec.Tolerations; len(got) != c.want {
			t.Errorf("%s: %+v", name, got)
		}
		if again := b.Pod("00fe").Spec.Tolerations; len(again) != c.want {
			t.Errorf("%s: the second pod has %+v", name, again)
		}
	}
}

// TestPod_withoutClaims: what has no claims has its record on the pod.
func TestPod_withoutClaims(t *testing.T) {
	c := example()
	c.Spec.VolumeClaimTemplates = nil
	b, _ := Of(c)
	if p := b.Pod("00ff"); p.Annotations[v1alpha1.AnnotationReplicaState] != v1alpha1.ReplicaNew || len(b.Naming().Templates) != 0 {
		t.Errorf("%v", p.Annotations)
	}
	if _, ok := c.Spec.Template.Metadata.Annotations[v1alpha1.AnnotationReplicaState]; ok {
		t.Error("the template is written to")
	}
	var none []*corev1.PersistentVolumeClaim
	if got := b.Claims("00ff"); len(got) != len(none) {
		t.Errorf("%+v", got)
	}
}
