package statefulcluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// isTaken demands that pods run on, unrestarted, as those of the StatefulCluster of now, and that their claims are its own with the data on record.
func (s *suite) isTaken(pods ...corev1.Pod) {
	s.t.Helper()
	c := s.get()
	for _, was := range pods {
		is := &corev1.Pod{}
		if err := s.client.Get(context.Background(), client.ObjectKeyFromObject(&was), is); err != nil {
			s.t.Fatal(err)
		}
		if is.UID != was.UID || !metav1.IsControlledBy(is, c) || len(is.OwnerReferences) != 1 || !is.DeletionTimestamp.IsZero() {
			s.t.Errorf("pod %s: %+v", was.Name, is.ObjectMeta)
		}
		for _, claim := range s.claims() {
			if claim.Labels[v1alpha1.LabelIdentity] != is.Labels[v1alpha1.LabelIdentity] {
				continue
			}
			if claim.Labels[v1alpha1.LabelStatefulClusterUID] != string(c.UID) || claim.Annotations[v1alpha1.AnnotationAdopted] != string(c.UID) ||
				claim.Annotations[v1alpha1.AnnotationReplicaState] != v1alpha1.ReplicaFilled || claim.Annotations[v1alpha1.AnnotationOrphaned] != "" ||
				!metav1.IsControlledBy(&claim, c) {
				s.t.Errorf("claim %s: %+v", claim.Name, claim.ObjectMeta)
			}
		}
	}
}

// TestReconcile_takesOverPods: pods that --cascade=orphan left run on as replicas of the next StatefulCluster of the name. Nothing is made or restarted, and what they have goes by
// the policy of now.
func TestReconcile_takesOverPods(t *testing.T) {
	s, pods, _ := abandoned(t, 2, nil)
	revisions := s.history()
	s.add(2, nil)
	c := s.settle("both are taken over", isReady)
	s.mustPass()
	s.isTaken(pods...)
	if s.names() != "1 2" || len(s.claims()) != 2 || c.Status.ReadyReplicas != 2 || c.Status.UpdatedReplicas != 2 {
		t.Errorf("pods %s, %d claims, %+v", s.names(), len(s.claims()), c.Status)
	}
	if told := strings.Join(s.told(), "\n"); strings.Count(told, v1alpha1.ReasonReplicaAdopted) != 2 || strings.Count(told, v1alpha1.ReasonReplicaCreated) != 2 {
		t.Errorf("two were made before, and two adopted: %s", told)
	}
	if now := s.history(); len(now) != 1 || now[0].UID != revisions[0].UID || !metav1.IsControlledBy(&now[0], c) {
		t.Errorf("revisions %+v", now)
	}
	s.edit(func(c *v1alpha1.StatefulCluster) {
		c.Spec.Replicas = ptr.To[int32](1)
		c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenScaled: v1alpha1.DeleteClaims}
	})
	s.settle("one", isReady)
	s.mustPass()
	left := map[string]string{"1": "Filled deleted", "2": "deleted Filled"}[s.names()]
	if got := s.claim(1) + " " + s.claim(2); got != left || left == "" {
		t.Errorf("pods %s, claims %s", s.names(), got)
	}
}

// TestReconcile_takesOverPodsOfAnotherTemplate: they roll like any other, on the claims that they have, and their template stays on record until then.
func TestReconcile_takesOverPodsOfAnotherTemplate(t *testing.T) {
	s, pods, claims := abandoned(t, 2, nil)
	edit := func(c *v1alpha1.StatefulCluster) {
		c.Spec.Template.Metadata.Labels["tier"] = "new"
		c.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdateOptions{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
		c.Spec.RevisionHistoryLimit = ptr.To[int32](0)
	}
	s.add(2, edit)
	s.mustPass()
	s.isTaken(pods...)
	s.mustPass()
	if s.names() != "2" && s.names() != "1" || len(s.history()) != 2 {
		t.Fatalf("one ends first: pods %s, %d revisions", s.names(), len(s.history()))
	}
	c := s.settle("both have the template of now", func(c *v1alpha1.StatefulCluster) string {
		if c.Status.UpdatedReplicas != 2 {
			return fmt.Sprintf("%d", c.Status.UpdatedReplicas)
		}
		return isReady(c)
	})
	s.mustPass()
	if s.names() != "1 2" || len(s.claims()) != len(claims) || len(s.history()) != 1 {
		t.Errorf("pods %s, %d claims, %d revisions", s.names(), len(s.claims()), len(s.history()))
	}
	for i, p := range s.pods() {
		if p.UID == pods[i].UID || p.Labels["tier"] != "new" || !metav1.IsControlledBy(&p, c) {
			t.Errorf("%+v", p.ObjectMeta)
		}
	}
}

// TestReconcile_takesOverWhatMatches: others are told and not touched, and nothing begins empty in the place of one that runs, even beside a majority.
func TestReconcile_takesOverWhatMatches(t *testing.T) {
	s, pods, _ := abandoned(t, 3, nil)
	s.unmatch(&pods[2])
	foreign := pods[2].ResourceVersion
	s.add(3, nil)
	waits := says(v1alpha1.ConditionReady, v1alpha1.ReasonReplicasUnknown, "2 of 3 replicas", pods[2].Name+" (it has no label controller-revision-hash)")
	s.settle("the third is told", waits)
	s.wait(2 * time.Minute)
	s.isTaken(pods[:2]...)
	if now := s.pods(); len(now) != 3 || now[2].ResourceVersion != foreign || len(s.claims()) != 3 || waits(s.get()) != "" {
		t.Errorf("pods %s, %d claims: %s", s.names(), len(s.claims()), waits(s.get()))
	}
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](2) })
	if c := s.settle("two are enough", isReady); !strings.Contains(meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady).Message, pods[2].Name) {
		t.Errorf("it is told of no more: %+v", c.Status.Conditions)
	}
	// Its label is back.
	pods[2].Labels[appsv1.ControllerRevisionHashLabelKey] = pods[0].Labels[appsv1.ControllerRevisionHashLabelKey]
	if err := s.client.Update(context.Background(), &pods[2]); err != nil {
		t.Fatal(err)
	}
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](3) })
	s.settle("it is taken over, too", isReady)
	s.mustPass()
	s.isTaken(pods...)
}

// TestReconcile_takesOverEndedPods: a pod that ended while nobody controlled it is made again on its claims.
func TestReconcile_takesOverEndedPods(t *testing.T) {
	s, pods, _ := abandoned(t, 2, nil)
	pods[0].Status.Phase = corev1.PodFailed
	if err := s.client.Status().Update(context.Background(), &pods[0]); err != nil {
		t.Fatal(err)
	}
	s.add(2, nil)
	s.held[pods[0].Name] = true
	s.settle("it is made again", func(*v1alpha1.StatefulCluster) string {
		if now := s.pods(); len(now) != 2 || now[0].UID == pods[0].UID {
			if len(now) == 2 && !now[0].DeletionTimestamp.IsZero() {
				s.end(now[0])
			}
			return s.names()
		}
		return ""
	})
	s.held[pods[0].Name] = false
	s.settle("both serve", isReady)
	s.isTaken(pods[1])
	if s.names() != "1 2" || len(s.claims()) != 2 || s.claim(1) != v1alpha1.ReplicaFilled {
		t.Errorf("pods %s, %d claims, %s", s.names(), len(s.claims()), s.claim(1))
	}
}

// TestReconcile_takesOverPodsWithoutClaims: the record of such a replica is on its pod.
func TestReconcile_takesOverPodsWithoutClaims(t *testing.T) {
	bare := func(c *v1alpha1.StatefulCluster) { c.Spec.VolumeClaimTemplates = nil }
	s, pods, _ := abandoned(t, 2, bare)
	for i := range pods {
		pods[i].Annotations[v1alpha1.AnnotationReplicaState] = v1alpha1.ReplicaNew
		if err := s.client.Update(context.Background(), &pods[i]); err != nil {
			t.Fatal(err)
		}
	}
	s.add(2, bare)
	s.mustPass()
	s.isTaken(pods...)
	for _, p := range s.pods() {
		if p.Annotations[v1alpha1.AnnotationReplicaState] != v1alpha1.ReplicaServed {
			t.Errorf("%s: %v", p.Name, p.Annotations)
		}
	}
	s.settle("both are taken over", isReady)
	if s.names() != "1 2" {
		t.Errorf("pods %s", s.names())
	}
}

// TestReconcile_takeOverIsKilled: the controller ends at each write of it, before or after that has an effect, and goes on. No pod and no claim is made meanwhile.
func TestReconcile_takeOverIsKilled(t *testing.T) {
	two := func(c *v1alpha1.StatefulCluster) { withLog(c) }
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			count := 0
			t.Run(fmt.Sprintf("write %d, after it %t", n, after), func(t *testing.T) {
				s, pods, _ := abandoned(t, 2, two)
				s.r.Client = interceptor.NewClient(s.client, interceptor.Funcs{
					Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
						if how := (&client.CreateOptions{}).ApplyOptions(opts); len(how.DryRun) == 0 {
							t.Errorf("%T %s is made", o, o.GetName())
						}
						return c.Create(ctx, o, opts...)
					},
					Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
						if count++; count != n {
							return c.Patch(ctx, o, p, opts...)
						}
						if after {
							if err := c.Patch(ctx, o, p, opts...); err != nil {
								return err
							}
						}
						return errFault
					},
				})
				s.add(2, two)
				for range 5 {
					if err := s.pass(); err != nil && !strings.Contains(err.Error(), errFault.Error()) {
						t.Fatal(err)
					}
				}
				s.settle("both are taken over", isReady)
				s.mustPass()
				s.isTaken(pods...)
				if len(s.claims()) != 4 || len(s.pods()) != 2 {
					t.Errorf("%d claims, pods %s", len(s.claims()), s.names())
				}
			})
			if count < n || t.Failed() {
				if n < 6 {
					t.Errorf("only %d writes", n)
				}
				break
			}
		}
	}
}

// TestReconcile_takeOverIsRefused: somebody refuses the change of one pod. The claims are taken by then: no pod is made beside the one that runs, others are adopted, and
// when the pod ends the replica comes back on its claims.
func TestReconcile_takeOverIsRefused(t *testing.T) {
	s, pods, _ := abandoned(t, 2, nil)
	s.r.Client = interceptor.NewClient(s.client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, is := o.(*corev1.Pod); is && o.GetName() == pods[0].Name {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, o.GetName(), nil)
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	s.add(2, nil)
	s.wait(time.Minute)
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonAdoptionRefused, "1 of 2 replicas", pods[0].Name+" (adopt pod")(s.get()); complaint != "" {
		t.Error(complaint)
	}
	s.isTaken(pods[1])
	if now := s.pods(); len(now) != 2 || len(now[0].OwnerReferences) != 0 || now[0].UID != pods[0].UID || len(s.claims()) != 2 {
		t.Errorf("pods %s, %d claims", s.names(), len(s.claims()))
	}
	if s.claim(1) != v1alpha1.ReplicaFilled {
		t.Errorf("its record is %s", s.claim(1))
	}
	s.end(pods[0])
	s.settle("it is back on its claims", isReady)
	if s.names() != "1 2" || len(s.claims()) != 2 {
		t.Errorf("pods %s, %d claims", s.names(), len(s.claims()))
	}
}

// TestReconcile_takeOverLooksTwice: a pod that is being deleted by now is not adopted, whatever the cache says, and neither is any by a StatefulCluster that is.
func TestReconcile_takeOverLooksTwice(t *testing.T) {
	for name, change := range map[string]func(s *suite, pod *corev1.Pod){
		"the pod is being deleted": func(s *suite, pod *corev1.Pod) {
			if err := s.client.Delete(context.Background(), pod); err != nil {
				s.t.Fatal(err)
			}
		},
		"somebody else controls it": func(s *suite, pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "theirs", UID: "theirs", Controller: new(true)}}
			if err := s.client.Update(context.Background(), pod); err != nil {
				s.t.Fatal(err)
			}
		},
		"the StatefulCluster is deleted": func(s *suite, _ *corev1.Pod) {
			c := s.get()
			c.Finalizers = []string{metav1.FinalizerOrphanDependents}
			if err := s.client.Update(context.Background(), c); err != nil {
				s.t.Fatal(err)
			}
			if err := s.client.Delete(context.Background(), c); err != nil {
				s.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, pods, claims := abandoned(t, 1, nil)
			pods[0].Finalizers = []string{"example.org/slow"}
			if err := s.client.Update(context.Background(), &pods[0]); err != nil {
				t.Fatal(err)
			}
			c := s.add(1, nil)
			stale := &lateReader{WithWatch: s.client, pods: s.pods(), claims: s.claims()}
			change(s, &pods[0])
			s.r.Workloads = stale
			old := interceptor.NewClient(s.client, interceptor.Funcs{
				Get: func(ctx context.Context, from client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if into, is := o.(*v1alpha1.StatefulCluster); is {
						c.DeepCopyInto(into)
						return nil
					}
					return from.Get(ctx, key, o, opts...)
				},
			})
			s.r.Client = old
			for range 3 {
				_ = s.pass()
			}
			p := &corev1.Pod{}
			if err := s.client.Get(context.Background(), client.ObjectKeyFromObject(&pods[0]), p); err != nil {
				t.Fatal(err)
			}
			now := &corev1.PersistentVolumeClaim{}
			if err := s.client.Get(context.Background(), client.ObjectKeyFromObject(&claims[0]), now); err != nil {
				t.Fatal(err)
			}
			if metav1.IsControlledBy(p, c) || now.Labels[v1alpha1.LabelStatefulClusterUID] != claims[0].Labels[v1alpha1.LabelStatefulClusterUID] {
				t.Errorf("adopted: %+v, claim %+v", p.OwnerReferences, now.ObjectMeta)
			}
			p.Finalizers = nil
			if err := s.client.Update(context.Background(), p); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// lateReader is a cache that knows of pods and claims as they were.
type lateReader struct {
	client.WithWatch
	pods   []corev1.Pod
	claims []corev1.PersistentVolumeClaim
}

func (l *lateReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	switch into := list.(type) {
	case *corev1.PodList:
		into.Items = l.pods
	case *corev1.PersistentVolumeClaimList:
		into.Items = l.claims
	default:
		return l.WithWatch.List(ctx, list, opts...)
	}
	return nil
}
