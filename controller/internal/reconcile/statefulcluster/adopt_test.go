package statefulcluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// hasVolumes gives every claim a volume on the node n1.
func (s *suite) hasVolumes() {
	s.t.Helper()
	for _, c := range s.claims() {
		if c.Spec.VolumeName == "" {
			s.bind(c.Name, "n1")
			if err := s.client.Get(context.Background(), client.ObjectKeyFromObject(&c), &c); err != nil {
				s.t.Fatal(err)
			}
		}
		c.Status.Phase = corev1.ClaimBound
		if err := s.client.Status().Update(context.Background(), &c); err != nil {
			s.t.Fatal(err)
		}
	}
}

// deleteAll deletes the StatefulCluster and its pods, as with whenDeleted: Retain.
func (s *suite) deleteAll() {
	s.t.Helper()
	if err := s.client.Delete(context.Background(), s.get()); err != nil {
		s.t.Fatal(err)
	}
	for _, p := range s.pods() {
		if err := s.client.Delete(context.Background(), &p, client.GracePeriodSeconds(0)); err != nil {
			s.t.Fatal(err)
		}
	}
}

func retained(c *v1alpha1.StatefulCluster) {
	c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenDeleted: v1alpha1.RetainClaims}
}

// adopting names the claims of identities.
func adopting(templates string, identities ...int) func(*v1alpha1.StatefulCluster) {
	return func(c *v1alpha1.StatefulCluster) {
		retained(c)
		for _, i := range identities {
			for _, t := range strings.Fields(templates) {
				c.Spec.Adopt = append(c.Spec.Adopt, fmt.Sprintf("db-%s-%016x", t, i))
			}
		}
	}
}

// withLog adds a second claim template.
func withLog(c *v1alpha1.StatefulCluster) {
	log := *c.Spec.VolumeClaimTemplates[0].DeepCopy()
	log.Metadata.Name = "log"
	c.Spec.VolumeClaimTemplates = append(c.Spec.VolumeClaimTemplates, log)
}

// TestReconcile_adoptsOfADeletedOne: the replicas come back under their names and on their claims, and nothing begins empty.
func TestReconcile_adoptsOfADeletedOne(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(2, retained)
	s.settle("two replicas", isReady)
	s.hasVolumes()
	s.deleteAll()
	c := s.add(2, adopting("data", 1, 2))
	s.mustPass()
	if len(s.pods()) != 0 || s.claim(1) != v1alpha1.ReplicaServed || s.claim(2) != v1alpha1.ReplicaFilled {
		t.Fatalf("the first is adopted, and nothing else: pods %s, claims %s and %s", s.names(), s.claim(1), s.claim(2))
	}
	s.settle("both are back", isReady)
	s.mustPass()
	if s.names() != "1 2" || len(s.claims()) != 2 {
		t.Errorf("pods %s, %d claims", s.names(), len(s.claims()))
	}
	for _, claim := range s.claims() {
		if claim.Labels[v1alpha1.LabelStatefulClusterUID] != string(c.UID) || claim.Annotations[v1alpha1.AnnotationAdopted] != string(c.UID) ||
			claim.Annotations[v1alpha1.AnnotationReplicaState] != v1alpha1.ReplicaFilled {
			t.Errorf("%s: %v, %v", claim.Name, claim.Labels, claim.Annotations)
		}
	}
	if told := strings.Join(s.told(), "\n"); strings.Count(told, v1alpha1.ReasonReplicaAdopted) != 2 {
		t.Error(told)
	}
}

// TestReconcile_adoptsWhatWasGivenUp: once, when a replica is missing; that it was given up does not count any more, nor when.
func TestReconcile_adoptsWhatWasGivenUp(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(2, nil)
	s.settle("two replicas", isReady)
	s.hasVolumes()
	scale := func(n int32, what string) {
		s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To(n) })
		s.settle(what, isReady)
		s.mustPass()
	}
	scale(1, "one replica")
	left := s.names()
	gone := map[string]int{"1": 2, "2": 1}[left]
	s.edit(adopting("data", gone))
	s.settle("one replica still", isReady)
	if s.names() != left || s.claim(gone) != v1alpha1.ReplicaScaled {
		t.Fatalf("none is missing: pods %s, claim %s", s.names(), s.claim(gone))
	}
	scale(2, "the one that was given up")
	if s.names() != "1 2" || s.claim(gone) != v1alpha1.ReplicaFilled || len(s.claims()) != 2 {
		t.Fatalf("pods %s, claim %s", s.names(), s.claim(gone))
	}
	for _, claim := range s.claims() {
		if at := claim.Annotations[v1alpha1.AnnotationGivenUp]; at != "" {
			t.Errorf("%s was given up at %s", claim.Name, at)
		}
	}
	s.setPod(fmt.Sprintf("db-%016x", gone), corev1.ConditionFalse)
	scale(1, "one replica again")
	scale(2, "a new one")
	if s.names() != left+" 3" || s.claim(gone) != v1alpha1.ReplicaScaled {
		t.Errorf("it is adopted once: pods %s, claim %s", s.names(), s.claim(gone))
	}
}

// TestReconcile_adoptionWaits: while another pod uses the claim, nothing begins empty in its place.
func TestReconcile_adoptionWaits(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(2, nil)
	s.settle("two replicas", isReady)
	s.hasVolumes()
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](1) })
	s.settle("one replica", isReady)
	gone := map[string]int{"1": 2, "2": 1}[s.names()]
	backup := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "backup"}}
	backup.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	backup.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("db-data-%016x", gone)},
	}}}
	s.create(backup)
	s.edit(adopting("data", gone))
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](2) })
	refused := says(v1alpha1.ConditionReady, v1alpha1.ReasonAdoptionRefused, "pod backup uses it")
	s.settle("it is told", refused)
	if len(s.claims()) != 2 || s.claim(gone) != v1alpha1.ReplicaScaled {
		t.Errorf("%d claims, %s", len(s.claims()), s.claim(gone))
	}
	if err := s.client.Delete(context.Background(), backup, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.now = s.now.Add(blockedPause)
	s.settle("both are there", isReady)
	if s.names() != "1 2" {
		t.Errorf("pods %s", s.names())
	}
}

// TestReconcile_adoptsNothing: a name that is wrong stops what would begin empty while no replica has the data, and nothing afterwards.
func TestReconcile_adoptsNothing(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(1, adopting("data", 7))
	s.settle("it is told", says(v1alpha1.ConditionReady, v1alpha1.ReasonAdoptionRefused, "db-data-0000000000000007", "there is no claim"))
	if len(s.pods())+len(s.claims()) != 0 {
		t.Errorf("pods %s, %d claims", s.names(), len(s.claims()))
	}
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Adopt = nil })
	s.settle("one that begins empty", isReady)
	s.told()
	s.edit(adopting("data", 7))
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](2) })
	s.settle("another one", isReady)
	if told := strings.Join(s.told(), "\n"); !strings.Contains(told, v1alpha1.ReasonAdoptionRefused) {
		t.Error(told)
	}
}

// TestReconcile_adoptsHalf: when the controller ends between two claims of a replica, the next one goes on. What is on record of the other claim does not
// give the replica up again.
func TestReconcile_adoptsHalf(t *testing.T) {
	for name, deleted := range map[string]bool{"of a deleted one": true, "of its own": false} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "n1")
			s.add(2, func(c *v1alpha1.StatefulCluster) {
				retained(c)
				withLog(c)
				c.Spec.PersistentVolumeClaimRetentionPolicy.WhenReplaced = v1alpha1.DeleteClaims
			})
			s.settle("two replicas", isReady)
			s.hasVolumes()
			s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](1) })
			s.settle("one replica", isReady)
			gone, want := map[string]int{"1": 2, "2": 1}[s.names()], "1 2"
			if deleted {
				s.deleteAll()
				want = fmt.Sprint(gone)
				s.add(1, func(c *v1alpha1.StatefulCluster) { withLog(c); adopting("data log", gone)(c) })
			} else {
				s.edit(adopting("data log", gone))
				s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](2) })
			}
			s.failsAtSecondClaim()
			s.settle("it is back", isReady)
			s.mustPass()
			if s.names() != want || len(s.claims()) != 4 {
				t.Errorf("pods %s, %d claims", s.names(), len(s.claims()))
			}
			uid := string(s.get().UID)
			for _, c := range s.claims() {
				mine := strings.HasSuffix(c.Name, fmt.Sprintf("%016x", gone))
				if mine && (c.Annotations[v1alpha1.AnnotationAdopted] != uid || c.Labels[v1alpha1.LabelStatefulClusterUID] != uid || c.Annotations[v1alpha1.AnnotationReplicaState] != v1alpha1.ReplicaFilled) {
					t.Errorf("%s: %v, %v", c.Name, c.Labels, c.Annotations)
				}
			}
		})
	}
}

// failsAtSecondClaim passes while the second claim that is to be adopted cannot be written.
func (s *suite) failsAtSecondClaim() {
	s.t.Helper()
	adopted := 0
	s.r.Client = interceptor.NewClient(s.client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if o.GetAnnotations()[v1alpha1.AnnotationAdopted] != "" {
				if adopted++; adopted > 1 {
					return errFault
				}
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	for range 5 {
		if s.pass() != nil && adopted > 1 {
			break
		}
		s.now = s.now.Add(time.Second)
	}
	s.r.Client = s.client
	half := 0
	for _, c := range s.claims() {
		if c.Annotations[v1alpha1.AnnotationAdopted] != "" {
			half++
		}
	}
	if half != 1 {
		s.t.Fatalf("%d claims are adopted", half)
	}
}

// TestReconcile_adoptedMeanwhile: a controller that is late, and still means to delete a claim, leaves it if it was adopted since it looked.
func TestReconcile_adoptedMeanwhile(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(2, func(c *v1alpha1.StatefulCluster) {
		c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenScaled: v1alpha1.DeleteClaims}
	})
	s.settle("two replicas", isReady)
	s.hasVolumes()
	late := 0
	s.r.Client = interceptor.NewClient(s.client, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if claim, is := o.DeepCopyObject().(*corev1.PersistentVolumeClaim); is && late == 0 {
				late++
				claim.Annotations[v1alpha1.AnnotationReplicaState], claim.Annotations[v1alpha1.AnnotationAdopted] = v1alpha1.ReplicaServed, string(s.get().UID)
				if err := c.Update(ctx, claim); err != nil {
					return err
				}
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](1) })
	for range 20 {
		if _ = s.pass(); late > 0 {
			break
		}
		s.kubelet()
		s.now = s.now.Add(time.Second)
	}
	kept := 0
	for _, c := range s.claims() {
		if c.Annotations[v1alpha1.AnnotationAdopted] != "" && c.DeletionTimestamp.IsZero() {
			kept++
		}
	}
	if late != 1 || kept != 1 {
		t.Errorf("%d deletions came late, %d adopted claims are kept", late, kept)
	}
}
