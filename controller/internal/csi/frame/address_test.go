package frame_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/csi/frame"
)

// book writes down what it is told.
type book []string

func (b *book) SetAddress(node, address, podUID string) { *b = append(*b, node+" "+address+" "+podUID) }
func (b *book) Remove(node string)                      { *b = append(*b, node+" gone") }
func (b *book) Complete()                               { *b = append(*b, "complete") }

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
			a := &frame.Addresses{Reader: &pods{items: c.pods}, Book: b, Namespaces: []string{"quarry-agents"}, Port: 7443}
			if _, err := a.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "node-1"}}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(book{c.want}, *b); diff != "" {
				t.Error(diff)
			}
		})
	}
	b := &book{}
	a := &frame.Addresses{Reader: &pods{err: errors.New("no")}, Book: b, Namespaces: []string{"quarry-agents"}}
	if _, err := a.Reconcile(t.Context(), ctrl.Request{}); err == nil || len(*b) > 0 {
		t.Errorf("an error of the cache moved an address: %v, %v", err, *b)
	}
}

// perNode lists the pods of one node, or all of them.
type perNode struct {
	client.Reader
	items []corev1.Pod
	err   error
}

func (p *perNode) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	for _, pod := range p.items {
		if o.FieldSelector == nil || o.FieldSelector.Matches(fields.Set{"spec.nodeName": pod.Spec.NodeName}) {
			list.(*corev1.PodList).Items = append(list.(*corev1.PodList).Items, pod)
		}
	}
	return p.err
}

// TestAddresses_introduce: nodes that nobody told of are without an agent only after all of them were told of.
func TestAddresses_introduce(t *testing.T) {
	on := func(node string, edit func(*corev1.Pod)) corev1.Pod {
		p := agentPod("agent-of-"+node, 0, edit)
		p.Spec.NodeName = node
		return p
	}
	pending := func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }
	for name, c := range map[string]struct {
		pods []corev1.Pod
		want book
	}{
		"a cluster without agents": {nil, book{"complete"}},
		"agents, and pods that nobody has scheduled": {
			[]corev1.Pod{on("node-2", pending), on("", pending), on("node-1", nil), on("node-1", pending)},
			book{"node-1 [fd00::1]:7443 agent-of-node-1", "node-2 gone", "complete"},
		},
	} {
		b := &book{}
		a := &frame.Addresses{Reader: &perNode{items: c.pods}, Book: b, Namespaces: []string{"quarry-agents"}, Port: 7443}
		if err := a.Introduce(t.Context()); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(c.want, *b); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	b := &book{}
	a := &frame.Addresses{Reader: &perNode{err: errors.New("no")}, Book: b, Namespaces: []string{"quarry-agents"}}
	if err := a.Introduce(t.Context()); err == nil || len(*b) > 0 {
		t.Errorf("nothing could be read: %v, %v", err, *b)
	}
}

// inNamespace lists the pods of a namespace.
type inNamespace struct {
	client.Reader
	items map[string][]corev1.Pod
}

func (p inNamespace) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	list.(*corev1.PodList).Items = p.items[o.Namespace]
	return nil
}

// TestAddresses_handover: while the agents of a node change their namespace, the one that runs is asked.
func TestAddresses_handover(t *testing.T) {
	now := metav1.Now()
	pending := agentPod("later", 0, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })
	ending := agentPod("earlier", time.Hour, func(p *corev1.Pod) { p.DeletionTimestamp = &now })
	for name, c := range map[string]struct {
		earlier, later corev1.Pod
		want           string
	}{
		"the later one waits": {agentPod("earlier", time.Hour, nil), pending, "node-1 [fd00::1]:7443 earlier"},
		"neither":             {ending, pending, "node-1 gone"},
		"the later one runs":  {ending, agentPod("later", 0, nil), "node-1 [fd00::1]:7443 later"},
	} {
		b := &book{}
		reader := inNamespace{items: map[string][]corev1.Pod{"quarry-system": {c.earlier}, "quarry-agents": {c.later}, "default": {agentPod("x", 0, nil)}}}
		a := &frame.Addresses{Reader: reader, Book: b, Namespaces: []string{"quarry-agents", "quarry-system"}, Port: 7443}
		if _, err := a.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "node-1"}}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(book{c.want}, *b); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
