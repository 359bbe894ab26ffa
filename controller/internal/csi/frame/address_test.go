package frame_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/csi/frame"
)

// book writes down what it is told.
type book []string

func (b *book) SetAddress(node, address, podUID string) { *b = append(*b, node+" "+address+" "+podUID) }
func (b *book) Remove(node string)                      { *b = append(*b, node+" gone") }

// pods lists always the same.
type pods struct {
	client.Reader
	items []corev1.Pod
	err   error
}

func (p *pods) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*corev1.PodList).Items = p.items
	return p.err
}

func agentPod(uid string, age time.Duration, edit func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), CreationTimestamp: metav1.NewTime(time.Unix(10000, 0).Add(-age))}}
	p.Status.Phase, p.Status.PodIP = corev1.PodRunning, "fd00::1"
	if edit != nil {
		edit(&p)
	}
	return p
}

func TestAddresses_newestPodThatRuns(t *testing.T) {
	now := metav1.Now()
	old := agentPod("old", time.Hour, nil)
	for name, c := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"none": {nil, "node-1 gone"},
		"two":  {[]corev1.Pod{agentPod("new", 0, nil), old}, "node-1 [fd00::1]:7443 new"},
		"one that ends": {
			[]corev1.Pod{old, agentPod("new", 0, func(p *corev1.Pod) { p.DeletionTimestamp = &now })}, "node-1 [fd00::1]:7443 old",
		},
		"one that starts": {
			[]corev1.Pod{old, agentPod("new", 0, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })}, "node-1 [fd00::1]:7443 old",
		},
		"one without an address": {[]corev1.Pod{agentPod("new", 0, func(p *corev1.Pod) { p.Status.PodIP = "" })}, "node-1 gone"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &book{}
			a := &frame.Addresses{Reader: &pods{items: c.pods}, Book: b, Namespace: "quarry-system", Port: 7443}
			if _, err := a.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "node-1"}}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(book{c.want}, *b); diff != "" {
				t.Error(diff)
			}
		})
	}
	b := &book{}
	a := &frame.Addresses{Reader: &pods{err: errors.New("no")}, Book: b}
	if _, err := a.Reconcile(t.Context(), ctrl.Request{}); err == nil || len(*b) > 0 {
		t.Errorf("an error of the cache moved an address: %v, %v", err, *b)
	}
}
