package statefulcluster

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestAdmission_badSpecs(t *testing.T) {
	c := apitest.Client(t)
	type spec = v1alpha1.StatefulClusterSpec
	for name, tc := range map[string]struct {
		edit func(*spec)
		want string
	}{
		"a good one":                               {func(*spec) {}, ""},
		"a selector that does not match":           {func(s *spec) { s.Selector.MatchLabels["app"] = "other" }, "selector does not match template.metadata.labels"},
		"a selector for a label that is not there": {func(s *spec) { s.Selector.MatchLabels["x"] = "y" }, "selector does not match template.metadata.labels"},
		"a template without labels":                {func(s *spec) { s.Template.Metadata.Labels = nil }, "selector does not match template.metadata.labels"},
		"an empty selector":                        {func(s *spec) { s.Selector.MatchLabels = nil }, "the selector must not be empty"},
		"negative replicas":                        {func(s *spec) { s.Replicas = ptr.To[int32](-1) }, "spec.replicas"},
		"two claim templates of one name": {func(s *spec) {
			s.VolumeClaimTemplates = append(s.VolumeClaimTemplates, s.VolumeClaimTemplates[0])
		}, "the names of claim templates must differ"},
		"a claim template without a name":    {func(s *spec) { s.VolumeClaimTemplates[0].Metadata.Name = "" }, "spec.volumeClaimTemplates[0].metadata.name"},
		"a claim template of a strange name": {func(s *spec) { s.VolumeClaimTemplates[0].Metadata.Name = "A_b" }, "spec.volumeClaimTemplates[0].metadata.name"},
		"another strategy":                   {func(s *spec) { s.UpdateStrategy.Type = "Recreate" }, "spec.updateStrategy.type"},
		"another policy":                     {func(s *spec) { s.PodManagementPolicy = "Random" }, "spec.podManagementPolicy"},
		"another retention": {func(s *spec) {
			s.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenDeleted: "Archive"}
		}, "whenDeleted"},
		"a negative minReadySeconds": {func(s *spec) { s.MinReadySeconds = -1 }, "spec.minReadySeconds"},
		"a negative maxUnavailable": {func(s *spec) {
			s.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdateOptions{MaxUnavailable: ptr.To(intstr.FromInt32(-1))}
		}, "maxUnavailable must be"},
		"a percentage is possible": {func(s *spec) {
			s.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdateOptions{MaxUnavailable: ptr.To(intstr.FromString("20%"))}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := example("default", 1)
			tc.edit(&o.Spec)
			err := c.Create(context.Background(), o)
			if err == nil {
				_ = c.Delete(context.Background(), o)
			}
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestAdmission_names(t *testing.T) {
	c := apitest.Client(t)
	for _, name := range []string{strings.Repeat("a", 47), "a.b"} {
		o := example("default", 1)
		o.Name = name
		if err := c.Create(context.Background(), o); err == nil || !strings.Contains(err.Error(), "at most 46 characters") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAdmission_changes(t *testing.T) {
	c := apitest.Client(t)
	type spec = v1alpha1.StatefulClusterSpec
	for name, tc := range map[string]struct {
		edit func(*spec)
		want string
	}{
		"another selector": {func(s *spec) {
			s.Selector.MatchLabels["x"] = "y"
			s.Template.Metadata.Labels["x"] = "y"
		}, "selector cannot be changed"},
		"another service":          {func(s *spec) { s.ServiceName = "other" }, "serviceName cannot be changed"},
		"no service":               {func(s *spec) { s.ServiceName = "" }, "serviceName cannot be changed"},
		"another name of a claim":  {func(s *spec) { s.VolumeClaimTemplates[0].Metadata.Name = "other" }, "no claim template can be removed"},
		"another class of a claim": {func(s *spec) { s.VolumeClaimTemplates[0].Spec = rawOf(map[string]any{"storageClassName": "slow"}) }, ""},
		"one claim more": {func(s *spec) {
			s.VolumeClaimTemplates = append([]v1alpha1.ClaimTemplate{{Metadata: v1alpha1.ClaimMetadata{Name: "log"}, Spec: s.VolumeClaimTemplates[0].Spec}}, s.VolumeClaimTemplates...)
		}, ""},
		"no claims any more":              {func(s *spec) { s.VolumeClaimTemplates = nil }, "no claim template can be removed"},
		"another template":                {func(s *spec) { s.Template.Spec = templateWith("image:2") }, ""},
		"another number of replicas":      {func(s *spec) { s.Replicas = ptr.To[int32](7) }, ""},
		"another retention of the claims": {func(s *spec) { s.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenScaled: "Delete"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := example("default", 1)
			if err := c.Create(context.Background(), o); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Delete(context.Background(), o) })
			tc.edit(&o.Spec)
			err := c.Update(context.Background(), o)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestAdmission_carriedOver: a manifest of a StatefulSet is taken as it is, with what its tools write into it.
func TestAdmission_carriedOver(t *testing.T) {
	s := newSuite(t, "n1")
	c := s.add(1, func(c *v1alpha1.StatefulCluster) {
		c.Spec.PodManagementPolicy = "Parallel"
		c.Spec.RevisionHistoryLimit = ptr.To[int32](10)
		c.Spec.Ordinals = &v1alpha1.Ordinals{Start: 1}
		c.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdateOptions{Partition: ptr.To[int32](0)}
	})
	s.settle("the replica", isReady)
	complaint := says(v1alpha1.ConditionAllFieldsUsed, v1alpha1.ReasonFieldsWithoutUse,
		"spec.ordinals", "spec.podManagementPolicy")(s.get())
	if complaint != "" {
		t.Error(complaint)
	}
	if told := strings.Join(s.told(), "\n"); strings.Count(told, v1alpha1.ReasonFieldsWithoutUse) != 1 {
		t.Errorf("events of %s:\n%s", c.Name, told)
	}
}

// TestReconcile_badSpecs: what admission cannot know is said in a condition that names the field. Nothing is made, and nothing is removed.
func TestReconcile_badSpecs(t *testing.T) {
	pod := func(fields map[string]any) func(*v1alpha1.StatefulCluster) {
		return func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec = rawOf(fields) }
	}
	container := map[string]any{"name": "main", "image": "image:1"}
	for name, tc := range map[string]struct {
		edit      func(*v1alpha1.StatefulCluster)
		condition string
		words     []string
	}{
		"a field that does not exist": {
			pod(map[string]any{"contaners": []any{container}}), v1alpha1.ConditionSpecValid, []string{"spec.template.spec", `unknown field "contaners"`},
		},
		"a field of another type": {
			pod(map[string]any{"containers": "main"}), v1alpha1.ConditionSpecValid, []string{"spec.template.spec", "containers cannot be a string"},
		},
		"no containers": {pod(map[string]any{}), v1alpha1.ConditionReplicasReady, []string{"spec.containers", "Required value"}},
		"a mount without a volume": {
			pod(map[string]any{"containers": []any{map[string]any{
				"name": "main", "image": "x", "volumeMounts": []any{map[string]any{"name": "nowhere", "mountPath": "/x"}},
			}}}), v1alpha1.ConditionReplicasReady, []string{"spec.containers[0].volumeMounts[0].name", "nowhere"},
		},
		"containers that are not started again": {
			pod(map[string]any{"containers": []any{container}, "restartPolicy": "Never"}), v1alpha1.ConditionSpecValid, []string{"spec.template.spec.restartPolicy"},
		},
		"a grace that is no duration": {
			func(c *v1alpha1.StatefulCluster) {
				c.Annotations = map[string]string{v1alpha1.AnnotationStartUpGrace: "soon"}
			},
			v1alpha1.ConditionSpecValid,
			[]string{v1alpha1.AnnotationStartUpGrace, `"soon"`},
		},
		"a selector that is not understood": {func(c *v1alpha1.StatefulCluster) {
			c.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}
		}, v1alpha1.ConditionSpecValid, []string{"spec.selector", "Like"}},
		"a selector whose expression does not match": {func(c *v1alpha1.StatefulCluster) {
			c.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist}}
		}, v1alpha1.ConditionSpecValid, []string{"spec.selector", "does not match"}},
		"a claim of a strange size": {func(c *v1alpha1.StatefulCluster) {
			c.Spec.VolumeClaimTemplates[0].Spec = rawOf(map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "1e1.5"}}})
		}, v1alpha1.ConditionSpecValid, []string{"spec.volumeClaimTemplates[0].spec"}},
		"a claim without access modes": {func(c *v1alpha1.StatefulCluster) {
			c.Spec.VolumeClaimTemplates[0].Spec = rawOf(corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			}})
		}, v1alpha1.ConditionReplicasReady, []string{"spec.accessModes"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "n1")
			s.add(2, tc.edit)
			s.mustPass()
			s.mustPass()
			c := s.get()
			is := meta.FindStatusCondition(c.Status.Conditions, tc.condition)
			if is == nil || is.Status != metav1.ConditionFalse {
				t.Fatalf("%+v", c.Status.Conditions)
			}
			for _, w := range tc.words {
				if !strings.Contains(is.Message, w) {
					t.Errorf("the message lacks %q: %s", w, is.Message)
				}
			}
			if ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady); ready.Status != metav1.ConditionFalse {
				t.Errorf("%+v", ready)
			}
			if len(s.pods()) != 0 || len(s.claims()) != 0 {
				t.Errorf("%d pods and %d claims were made", len(s.pods()), len(s.claims()))
			}
			if after := s.get(); after.ResourceVersion != c.ResourceVersion {
				t.Error("written, and nothing changed")
			}
		})
	}
}

// TestReconcile_becomesInvalid: replicas that run go on, and it heals by itself.
func TestReconcile_becomesInvalid(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(2, nil)
	s.settle("two replicas", isReady)
	s.edit(func(c *v1alpha1.StatefulCluster) {
		c.Spec.Template.Spec = rawOf(map[string]any{"nonsense": true})
		c.Spec.Replicas = ptr.To[int32](1)
	})
	for range 3 {
		s.mustPass()
	}
	c := s.get()
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonInvalidSpec, "spec.template.spec", "nonsense")(c); complaint != "" || s.names() != "1 2" {
		t.Errorf("%s; pods %s", complaint, s.names())
	}
	if c.Status.ReadyReplicas != 2 {
		t.Errorf("%+v", c.Status)
	}
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec = templateWith("image:1") })
	s.settle("one replica", isReady)
	if s.names() != "1" && s.names() != "2" {
		t.Errorf("pods %s", s.names())
	}
}

// TestReconcile_becomesInvalid_retain: that the claims stay when the StatefulCluster is deleted holds even if another part of the spec has a fault.
// Nothing else becomes of them.
func TestReconcile_becomesInvalid_retain(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(2, nil)
	s.settle("two replicas", isReady)
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](1) })
	s.settle("one replica", isReady)
	s.edit(func(c *v1alpha1.StatefulCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "soon"}
		c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenDeleted: "Retain", WhenScaled: "Delete"}
	})
	s.mustPass()
	if s.owners(1) != "" || s.owners(2) != "" {
		t.Errorf("owned by %q and %q", s.owners(1), s.owners(2))
	}
	if s.claim(1) == "deleted" || s.claim(2) == "deleted" {
		t.Errorf("a claim is deleted by a spec that is not valid: %s, %s", s.claim(1), s.claim(2))
	}
}

// TestReconcile_changeThatIsRefused: a template that the API server does not take costs no replica.
func TestReconcile_changeThatIsRefused(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(2, nil)
	s.settle("two replicas", isReady)
	s.edit(func(c *v1alpha1.StatefulCluster) {
		c.Spec.Template.Spec = rawOf(map[string]any{"containers": []any{map[string]any{"name": "Main", "image": "image:2"}}})
	})
	for range 3 {
		s.mustPass()
	}
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonCreateFailed, "spec.containers[0].name")(s.get()); complaint != "" || s.names() != "1 2" {
		t.Errorf("%s; pods %s", complaint, s.names())
	}
	if len(s.claims()) != 2 || s.result.RequeueAfter != refusedPause {
		t.Errorf("%d claims, again after %v", len(s.claims()), s.result.RequeueAfter)
	}
}
