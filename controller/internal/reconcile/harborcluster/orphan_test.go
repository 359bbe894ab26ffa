package harborcluster

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// dealWith does what Kubernetes' garbage collector does with the dependents of a HarborCluster that has a mark of it: it takes the owner off all of them, or
// deletes them, and takes its mark off when it is done. Of a HarborCluster that is gone it deletes what is left.
func (s *suite) dealWith(owner *v1alpha1.HarborCluster) {
	s.t.Helper()
	orphan := slices.Contains(owner.Finalizers, metav1.FinalizerOrphanDependents)
	foreground := slices.Contains(owner.Finalizers, metav1.FinalizerDeleteDependents)
	if !orphan && !foreground && !s.gone() {
		return
	}
	for _, k := range append(slices.Clone(childKinds), v1alpha1.GroupVersion.WithKind("HarborWitness")) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k)
		must(s.t, s.client.List(s.t.Context(), list, client.InNamespace(s.namespace)))
		for _, o := range list.Items {
			rest, owned := harbor.Disowned(owner, &o)
			switch {
			case !owned:
			case orphan:
				o.SetOwnerReferences(rest)
				must(s.t, s.client.Update(s.t.Context(), &o))
			default:
				must(s.t, s.client.Delete(s.t.Context(), &o, client.PropagationPolicy(metav1.DeletePropagationBackground)))
			}
		}
	}
	if !s.gone() && (orphan || !s.blocked(owner)) {
		c := s.get()
		c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool {
			return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
		})
		must(s.t, s.client.Update(s.t.Context(), c))
	}
}

// blocked reports whether a dependent is left that blocks the deletion of its owner, which keeps Kubernetes' mark for a deletion in the foreground.
func (s *suite) blocked(owner *v1alpha1.HarborCluster) bool {
	w := s.witness()
	return w != nil && slices.ContainsFunc(w.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.UID == owner.UID && r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
	})
}

// witness returns the witness; nil if there is none.
func (s *suite) witness() *v1alpha1.HarborWitness {
	s.t.Helper()
	w := &v1alpha1.HarborWitness{}
	err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: s.namespace, Name: "sample"}, w)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(s.t, err)
	return w
}

// unwitnessed removes the witness by force, as nobody but a person would.
func (s *suite) unwitnessed() {
	s.t.Helper()
	w := s.witness()
	must(s.t, s.client.Delete(s.t.Context(), w))
	w = s.witness()
	w.Finalizers = nil
	must(s.t, s.client.Update(s.t.Context(), w))
}

// deleted deletes the HarborCluster, and lets Kubernetes be quicker than the controller, or not.
func (s *suite) deleted(policy metav1.DeletionPropagation, quicker bool) {
	s.t.Helper()
	s.ask(client.PropagationPolicy(policy))
	owner := s.get()
	if quicker {
		s.dealWith(owner)
	}
	for range 8 {
		_, err := s.try()
		must(s.t, err)
		if s.gone() {
			break
		}
		s.volumes()
		s.removeRedis()
	}
	s.dealWith(owner)
}

// onlyDatabase leaves no child with an owner but the witness, while Harbor does not exist.
func onlyDatabase(c *v1alpha1.HarborCluster) {
	externalCache(c)
	externalStorage(c)
}

func TestDeletion_orphansKeepTheirData(t *testing.T) {
	for name, quicker := range map[string]bool{"the mark is there": false, "Kubernetes was quicker": true} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.healthy(deletes)
			s.deleted(metav1.DeletePropagationOrphan, quicker)
			s.withoutOwners()
			if s.child(harbor.HarborKind, "sample-harbor") == nil {
				t.Error("Harbor is removed")
			}
			if !s.gone() {
				t.Errorf("it is held: %+v", s.get().Finalizers)
			}
		})
		t.Run(name+", and no other child has an owner", func(t *testing.T) {
			s := newSuite(t)
			s.secret("redis", "redis-password")
			s.secret("s3", "secret")
			s.add(deletes, onlyDatabase)
			s.reconcile()
			s.claim("pgdata-"+s.database()+"-0", map[string]string{"cluster-name": s.database()})
			s.deleted(metav1.DeletePropagationOrphan, quicker)
			if s.child(harbor.PostgresqlKind, s.database()) == nil || len(s.volumes()) != 1 || !s.gone() {
				t.Errorf("the database is gone, or its volumes, or it is held: %v", s.volumes())
			}
		})
	}
}

// Whatever is on record, Kubernetes' word that it orphans counts.
func TestDeletion_orphansCountAfterARemovalIsOnRecord(t *testing.T) {
	for name, quicker := range map[string]bool{"the mark is there": false, "Kubernetes was quicker": true} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.healthy(deletes)
			c := s.get()
			c.Status.Removal = &v1alpha1.HarborRemoval{Kinds: []string{"postgresql", "Tenant", "RedisFailover"}}
			must(t, s.client.Status().Update(t.Context(), c))
			s.deleted(metav1.DeletePropagationOrphan, quicker)
			s.withoutOwners()
		})
	}
}

// A completed Job, and a child of a part that is external by now, get no owner again: that says nothing of a later deletion.
func TestDeletion_deletesWhatWasOrphanedBefore(t *testing.T) {
	s := newSuite(t)
	s.healthy(deletes)
	first := s.witness()
	s.deleted(metav1.DeletePropagationOrphan, true)
	if w := s.witness(); w != nil {
		t.Errorf("the witness is left: %+v", w)
	}
	s.secret("redis", "redis-password")
	s.add(deletes, externalCache)
	s.reconcile()
	if again := s.witness(); again.GetUID() == first.GetUID() || s.get().Status.Witness != again.GetUID() {
		t.Errorf("the witness of before is taken: %v", again)
	}
	s.deleted(metav1.DeletePropagationBackground, false)
	if holders, secrets := s.data(); !s.gone() || len(holders)+len(secrets) > 0 {
		t.Errorf("left: %v, %v", holders, secrets)
	}
}

// asTheMessageSays does what the message of a deletion without the witness says, first to keep all, and then to remove all.
func (s *suite) asTheMessageSays() {
	s.t.Helper()
	s.expect(v1alpha1.HarborHealthy, "Ready", "Unknown", "Deleting", "Set spec.deletionPolicy to Retain, and it ends and keeps all")
	s.expect(v1alpha1.HarborHealthy, "Ready", "Unknown", "Deleting",
		"with spec.deletionPolicy Delete, wait until its conditions DatabaseReady, CacheReady and StorageReady are True, and delete it")
	s.claim("sample-rfr-sample-redis-0", map[string]string{"app.kubernetes.io/name": "sample-redis", "app.kubernetes.io/part-of": "redis-failover"})
	s.edit(func(c *v1alpha1.HarborCluster) { c.Spec.DeletionPolicy = v1alpha1.HarborRetain })
	owner := s.get()
	_, err := s.try()
	must(s.t, err)
	s.withoutOwners()
	if !s.gone() {
		s.t.Fatalf("it is held: %+v", s.get().Status.Conditions)
	}
	s.dealWith(owner)
	s.removeRedis()
	s.add(deletes)
	ready := func() bool {
		return !slices.ContainsFunc([]string{"DatabaseReady", "CacheReady", "StorageReady"}, func(of string) bool {
			return !meta.IsStatusConditionTrue(s.get().Status.Conditions, of)
		})
	}
	for range 12 {
		if s.reconcile(); ready() {
			break
		}
		s.operators.step()
	}
	if !ready() {
		s.t.Fatalf("not ready: %+v", s.get().Status.Conditions)
	}
	s.deleted(metav1.DeletePropagationBackground, false)
	if holders, secrets := s.data(); !s.gone() || len(holders)+len(secrets)+len(s.volumes()) > 0 {
		s.t.Errorf("gone: %v; left: %v, %v, %v", s.gone(), holders, secrets, s.volumes())
	}
}

// Kubernetes deletes the witness with everything that has an owner, but the witness stays, and its mark with it: also when nobody saw how it began.
func TestDeletion_deleteInTheForeground(t *testing.T) {
	for name, quicker := range map[string]bool{"the mark was seen at once": false, "nobody saw how it began": true} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.healthy(deletes)
			s.deleted(metav1.DeletePropagationForeground, quicker)
			holders, secrets := s.data()
			if !s.gone() || len(holders)+len(secrets) > 0 || s.witness() != nil {
				t.Errorf("gone: %v; left: %v, %v, %v", s.gone(), holders, secrets, s.witness())
			}
		})
	}
}

// A HarborCluster that an earlier version vouched for is deleted before a pass of this version. In the foreground Kubernetes removes the Secret first, as it always did: a person is asked.
func TestDeletion_ofAnEarlierVersion(t *testing.T) {
	for name, tt := range map[string]struct {
		policy        metav1.DeletionPropagation
		gone, removed bool
	}{
		"in the background": {metav1.DeletePropagationBackground, true, true},
		"orphaned":          {metav1.DeletePropagationOrphan, true, false},
		"in the foreground": {metav1.DeletePropagationForeground, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.healthy(deletes)
			s.earlier()
			s.deleted(tt.policy, true)
			if holders, _ := s.data(); s.gone() != tt.gone || tt.removed != (len(holders) == 0) {
				t.Errorf("gone: %v; left: %v", s.gone(), holders)
			}
			if !tt.gone {
				s.expect(v1alpha1.HarborHealthy, "Ready", "Unknown", "Deleting", "nothing is removed")
			}
		})
	}
	t.Run("this version takes over", func(t *testing.T) {
		s := newSuite(t)
		s.healthy(deletes)
		s.earlier()
		s.reconcile()
		if w := s.witness(); w == nil || s.get().Status.Witness != w.UID || s.child(harbor.SecretKind, "sample-witness") != nil {
			t.Errorf("the witness is %+v, and %s is on record", w, s.get().Status.Witness)
		}
	})
}

// For some seconds after its definition was made Kubernetes' garbage collector does not know the kind of the witness, and leaves it its owner in a deletion with --cascade=orphan.
func TestDeletion_ofANewKind(t *testing.T) {
	s := newSuite(t)
	s.healthy(deletes)
	s.r.Settled = time.Hour
	s.deleted(metav1.DeletePropagationBackground, false)
	s.withoutOwners()
	s.expect(v1alpha1.HarborHealthy, "Ready", "Unknown", "Deleting", "or Kubernetes did not know its kind yet: nothing is removed")
	s.edit(func(c *v1alpha1.HarborCluster) { c.Spec.DeletionPolicy = v1alpha1.HarborRetain })
	_, err := s.try()
	must(t, err)
	if !s.gone() {
		t.Error("it is held")
	}
}

// earlier puts a Secret into the place of the witness, as earlier versions did.
func (s *suite) earlier() {
	s.t.Helper()
	s.unwitnessed()
	c := s.get()
	w := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: "sample-witness", Labels: map[string]string{v1alpha1.LabelHarborCluster: c.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, v1alpha1.GroupVersion.WithKind("HarborCluster"))},
	}}
	must(s.t, s.client.Create(s.t.Context(), w))
	c.Status.Witness = w.UID
	must(s.t, s.client.Status().Update(s.t.Context(), c))
}

// A process may end between the last write to a HarborCluster and the removal of its witness. The next one removes it, and it keeps no namespace.
func TestDeletion_witnessOfNobody(t *testing.T) {
	for name, policy := range map[string]metav1.DeletionPropagation{
		"orphaned": metav1.DeletePropagationOrphan, "in the background": metav1.DeletePropagationBackground, "in the foreground": metav1.DeletePropagationForeground,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.healthy()
			s.ask(client.PropagationPolicy(policy))
			s.dealWith(s.get())
			s.intercept(interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if _, ok := o.(*v1alpha1.HarborWitness); ok {
					return context.Canceled
				}
				return c.Delete(ctx, o, opts...)
			}})
			if _, err := s.try(); err == nil {
				t.Error("the process did not end")
			}
			if s.witness() == nil {
				t.Fatal("the witness went first")
			}
			s.plain()
			_, err := s.try()
			must(t, err)
			if w := s.witness(); w != nil {
				t.Errorf("it is left: %+v", w)
			}
			if policy == metav1.DeletePropagationForeground {
				s.dealWith(s.get())
			}
			if !s.gone() {
				t.Errorf("it is held: %v", s.get().Finalizers)
			}
		})
	}
}

func TestDeletion_withoutTheWitnessNothingIsRemoved(t *testing.T) {
	for name, change := range map[string]func(s *suite, witness *v1alpha1.HarborWitness){
		"it is gone": func(*suite, *v1alpha1.HarborWitness) {},
		"another one is in its place": func(s *suite, witness *v1alpha1.HarborWitness) {
			witness.UID, witness.ResourceVersion = "", ""
			must(s.t, s.client.Create(s.t.Context(), witness))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.healthy(deletes)
			witness := s.witness()
			s.unwitnessed()
			change(s, witness)
			s.deleted(metav1.DeletePropagationBackground, false)
			s.withoutOwners()
			s.expect(v1alpha1.HarborHealthy, "Ready", "Unknown", "Deleting", "HarborWitness sample is not there as it was made, or Kubernetes did not know its kind yet: nothing is removed")
			s.asTheMessageSays()
		})
	}
	t.Run("the next pass makes it again", func(t *testing.T) {
		s := newSuite(t)
		s.healthy(deletes)
		s.unwitnessed()
		s.reconcile()
		s.deleted(metav1.DeletePropagationBackground, false)
		if holders, secrets := s.data(); !s.gone() || len(holders)+len(secrets) > 0 {
			t.Errorf("left: %v, %v", holders, secrets)
		}
	})
}

// A pass that read the HarborCluster before it was deleted gives the witness no owner back.
func TestDeletion_latePassDoesNotVouch(t *testing.T) {
	for name, change := range map[string]func(*suite){
		"orphaned": func(*suite) {},
		"and without any": func(s *suite) {
			s.unwitnessed()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.healthy(deletes)
			before := s.get()
			s.ask(client.PropagationPolicy(metav1.DeletePropagationOrphan))
			s.dealWith(s.get())
			change(s)
			if err := s.r.settle(t.Context(), newScope(before)); !apierrors.IsConflict(err) {
				t.Errorf("got %v", err)
			}
			for range 4 {
				_, err := s.try()
				must(t, err)
			}
			s.withoutOwners()
		})
	}
}
