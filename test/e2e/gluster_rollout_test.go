//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	// limitRoll is how long all pods may take to be replaced: each has to be ready for a minute, and the volume has to be healed.
	limitRoll = 25 * time.Minute
	// slowHeal is how long the volume takes to be healed meanwhile: longer than every pod has to be ready.
	slowHeal = "90s"
)

// rolls gives the pool other images. Nothing is replaced before the volume heals itself; then etcd's pods are, and then those of the servers, one at a time. While the
// server of a brick is away a client writes, and no other pod goes before the volume is healed.
func (j *glusterJourney) rolls(t *testing.T) {
	r := &roll{glusterJourney: j, t: t, began: time.Now(), left: glusterPods(t), gone: map[types.UID]bool{}, back: map[types.UID]bool{}, owed: map[string]bool{}}
	for _, n := range withBrick(t.Context(), t, true) {
		r.owed[n.Name+"-0"] = true
	}
	pods := glusterMembers + len(glusterZones)
	if len(r.left) != pods || len(r.owed) != 2 {
		t.Fatalf("pods %v, of which these serve bricks: %v", r.left, r.owed)
	}
	patch := client.MergeFrom(j.c.DeepCopy())
	j.c.Spec.Images = v1alpha1.GlusterImages{Glusterd2: glusterNext, Etcd: v1alpha1.GlusterImage(etcdImage("2"))}
	if err := kube.Patch(t.Context(), j.c, patch); err != nil {
		t.Fatal(err)
	}
	eventually(t, limitPod, "it is told that the volume does not heal itself", func(ctx context.Context) error {
		if told := r.told(ctx); !strings.Contains(told, "cluster/replicate.self-heal-daemon on") {
			return errors.New(told)
		}
		return nil
	})
	if err := ask(t.Context(), "heals/v", nil); err != nil {
		t.Fatal(err)
	}
	healTime(t, slowHeal)
	eventually(t, limitRoll, "all pods have the other images", r.look)
	healTime(t, "5s")
	for i, name := range r.order {
		if etcd := strings.HasPrefix(name, "pool-etcd-"); etcd != (i < glusterMembers) {
			t.Errorf("the order was %v", r.order)
			break
		}
	}
	if len(r.order) != pods || len(r.owed) > 0 || !r.waited {
		t.Errorf("replaced were %v; while these were away nobody wrote: %v; healing was waited for: %t", r.order, r.owed, r.waited)
	}
	eventually(t, limitPool, "the pool runs", poolRuns(j.c))
}

// roll is what is seen while pods are replaced.
type roll struct {
	*glusterJourney
	t     *testing.T
	began time.Time
	// left are the pods of before by name, gone those that were asked to end, in their order.
	left  map[string]corev1.Pod
	gone  map[types.UID]bool
	order []string
	// back are the pods in their places that were ready once.
	back map[types.UID]bool
	// owed are the servers with a brick of which a client has to write while they are away.
	owed map[string]bool
	last string
	// waited: a pod was said to wait until the volume is healed.
	waited bool
}

// look looks once, and has nothing to say when all pods are new.
func (r *roll) look(ctx context.Context) error {
	if told := r.told(ctx); told != r.last {
		r.last = told
		r.waited = r.waited || strings.Contains(told, "files to heal")
		r.t.Logf("after %.0f s: %s", time.Since(r.began).Seconds(), told)
	}
	now, err := listGlusterPods(ctx)
	if err != nil {
		return err
	}
	old, away := r.compare(ctx, now)
	if len(away) > 1 {
		r.t.Errorf("after %.0f s these pods are away together: %v", time.Since(r.began).Seconds(), away)
	}
	if len(away) == 1 && r.owed[away[0]] {
		r.write(r.t, fmt.Sprintf("while-%s-%d", away[0], len(r.files)))
		if has, err := volumeHas(ctx, "v"); err == nil && lacking(has) > 0 {
			delete(r.owed, away[0])
		}
	}
	if len(old) > 0 || len(away) > 0 || !r.current() {
		return fmt.Errorf("of before are %v, away is %v: %s", old, away, r.last)
	}
	for name, p := range now {
		if image := p.Spec.Containers[0].Image; image != glusterNext && image != etcdImage("2") {
			r.t.Errorf("the pod %s has the image %s", name, image)
		}
	}
	return nil
}

// compare returns which pods of before are still there, and which were asked to end and have no successor yet that was ready. One that is not ready for another reason is not replaced. It notes each that was
// asked to end.
func (r *roll) compare(ctx context.Context, now map[string]corev1.Pod) (old, away []string) {
	for name, before := range r.left {
		p, there := now[name]
		same := there && p.UID == before.UID
		if there && !same && ready(p) {
			r.back[p.UID] = true
		}
		if !there || p.DeletionTimestamp != nil || !same && !r.back[p.UID] {
			away = append(away, name)
		}
		if same {
			old = append(old, name)
		}
		if ends := !same || p.DeletionTimestamp != nil; ends && !r.gone[before.UID] {
			r.gone[before.UID] = true
			r.order = append(r.order, name)
			r.replaced(ctx, name)
		}
	}
	slices.Sort(old)
	return old, away
}

// replaced holds that the volume was whole when a pod was asked to end.
func (r *roll) replaced(ctx context.Context, name string) {
	r.t.Logf("after %.0f s: %s is replaced", time.Since(r.began).Seconds(), name)
	if has, err := volumeHas(ctx, "v"); err != nil || lacking(has) > 0 {
		r.t.Errorf("%s was asked to end, and the volume has %+v; %v", name, has, err)
	}
}

// told is what PodsCurrent says.
func (r *roll) told(ctx context.Context) string {
	if err := kube.Get(ctx, client.ObjectKeyFromObject(r.c), r.c); err != nil {
		return r.last
	}
	if c := meta.FindStatusCondition(r.c.Status.Conditions, v1alpha1.ConditionPodsCurrent); c != nil {
		return c.Message
	}
	return ""
}

// current reports whether the condition says that all pods are as the spec has them.
func (r *roll) current() bool {
	c := meta.FindStatusCondition(r.c.Status.Conditions, v1alpha1.ConditionPodsCurrent)
	return c != nil && c.ObservedGeneration == r.c.Generation && meta.IsStatusConditionTrue(r.c.Status.Conditions, v1alpha1.ConditionPodsCurrent)
}

// healTime sets how long the model takes to heal.
func healTime(t *testing.T, d string) {
	t.Helper()
	if _, err := answered(t.Context(), hub(core.CoreV1().RESTClient().Post(), "heal-time", d)); err != nil {
		t.Fatal(err)
	}
}

// glusterPods are the pods of etcd and of the servers by name.
func glusterPods(t *testing.T) map[string]corev1.Pod {
	t.Helper()
	all, err := listGlusterPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func listGlusterPods(ctx context.Context) (map[string]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := kube.List(ctx, pods, client.InNamespace(glusterNamespace), client.HasLabels{v1alpha1.LabelGlusterPart})
	all := map[string]corev1.Pod{}
	for _, p := range pods.Items {
		all[p.Name] = p
	}
	return all, err
}

func ready(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}
