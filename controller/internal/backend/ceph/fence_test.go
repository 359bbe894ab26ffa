package ceph

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/cephtest"
	"quarry.storage/quarry/controller/internal/decide"
	decideceph "quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestUnblockClient_killed: that clients are let in is on record before Ceph is asked for it. A process that ends before any of its writes leaves them blocked, or let in for ever: nobody blocks them
// again, and no person is asked once more.
func TestUnblockClient_killed(t *testing.T) {
	killed := errors.New("killed")
	for number, begun := range map[int]bool{1: false, 2: true} {
		f := newFence(t)
		offered := f.plan()
		if offered.Loses == "" {
			t.Fatalf("nobody is asked: %+v", offered)
		}
		f.step.Ceph = offered
		if err := before(f.b, number, func() error { return killed }).unblockClient(t.Context(), f.step); !errors.Is(err, killed) {
			t.Fatalf("write %d: %v", number, err)
		}
		left := f.plan()
		if asks := left.Loses != ""; asks == begun || (len(f.model.Blocked) == 0) != begun {
			t.Fatalf("killed before write %d: %+v, blocked %q", number, left, f.model.Blocked)
		}
		f.step.Ceph = left
		if err := f.b.unblockClient(t.Context(), f.step); err != nil || len(f.records()) > 0 || len(f.model.Blocked) > 0 {
			t.Errorf("killed before write %d, and repeated: %+v, blocked %q, %v", number, f.records(), f.model.Blocked, err)
		}
		if err := f.b.unblockClient(t.Context(), f.step); err == nil {
			t.Error("a record that is gone is taken off once more")
		}
	}
}

// fence is a Cluster with a record about a node that is gone, and its address on the list of a model of Ceph.
type fence struct {
	t     *testing.T
	b     *Backend
	c     *v1alpha1.Cluster
	step  view.Step
	model *cephtest.Cluster
}

func newFence(t *testing.T) *fence {
	t.Helper()
	b, c, _, s := keyed(t, nil)
	f := &fence{t, b, c, s, cephtest.New(t, fsid)}
	b.Runner = func(string) ceph.Runner { return f.model }
	f.model.Blocked = []string{"10.0.0.9:0/0"}
	text, err := noted.BlockedText(c, []decideceph.Blocked{{Node: "gone", Address: "10.0.0.9", Boot: "one"}})
	c.Annotations = map[string]string{v1alpha1.AnnotationCephBlocked: text}
	if err := errors.Join(err, b.Client.Update(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
	return f
}

// records are those of the Cluster now.
func (f *fence) records() []decideceph.Blocked {
	f.t.Helper()
	err := f.b.Client.Get(f.t.Context(), client.ObjectKeyFromObject(f.c), f.c)
	out, unread := noted.Blocked(f.c)
	if err := errors.Join(err, unread); err != nil {
		f.t.Fatal(err)
	}
	return out
}

// plan is the one step that is left. It lets the clients in.
func (f *fence) plan() decideceph.Step {
	f.t.Helper()
	c, err := f.b.client(fsid)
	if err != nil {
		f.t.Fatal(err)
	}
	listed, err := f.b.blocked(f.t.Context(), c)
	if err != nil {
		f.t.Fatal(err)
	}
	steps := decideceph.PlanFence(decideceph.Fence{Records: f.records()}, decideceph.Facts{Quorum: &decideceph.Quorum{}, Blocked: listed}).Steps
	if len(steps) != 1 || steps[0].Do != decideceph.UnblockClient {
		f.t.Fatalf("%+v", steps)
	}
	return steps[0]
}

// TestClientOf: a UUID that many machines have says nothing of which one a node is, so that it lets nobody in again.
func TestClientOf(t *testing.T) {
	for uuid, want := range map[string]string{
		"4c4c4544-0039-5910-8031-b7c04f433232": "4c4c4544-0039-5910-8031-b7c04f433232",
		"03000200-0400-0500-0006-000700080009": "",
		"00000000-0000-0000-0000-000000000000": "",
		"Not Settable":                         "",
		"":                                     "",
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		n.Status.NodeInfo.SystemUUID = uuid
		if got := clientOf(n, decide.Everyone{Nodes: map[string]string{"n1": uuid}}); got.Machine != decide.Spelled(want) || got.Node != "n1" {
			t.Errorf("%q: %+v, want machine %q", uuid, got, want)
		}
	}
}

// TestClientOf_twin: a UUID that another node has or had is no proof, however it is written, and neither is one where nobody knows what the others have.
func TestClientOf_twin(t *testing.T) {
	const uuid, turned, other = "4c4c4544-0039-5910-8031-b7c04f433232", "44454C4C-3900-1059-8031-B7C04F433232", "4c4c4544-0039-5910-8031-b7c04f433233"
	member := func(node, machine string) *v1alpha1.Member {
		m := &v1alpha1.Member{}
		m.Spec.Node, m.Spec.Reservation = v1alpha1.HostName(node), &v1alpha1.MemberReservation{Machine: machine}
		return m
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	n.Status.NodeInfo.SystemUUID = uuid
	if decide.Spelled(turned) != decide.Spelled(uuid) {
		t.Fatal("one machine has two spellings")
	}
	for name, tt := range map[string]struct {
		all  decide.Everyone
		want string
	}{
		"alone":                   {decide.Everyone{Nodes: map[string]string{"n1": uuid, "n2": other}, Members: []*v1alpha1.Member{member("n1", uuid), member("n3", other)}}, uuid},
		"another Node has it":     {decide.Everyone{Nodes: map[string]string{"n1": uuid, "n2": uuid}}, ""},
		"written otherwise":       {decide.Everyone{Nodes: map[string]string{"n1": uuid, "n2": turned}}, ""},
		"a record of another one": {decide.Everyone{Nodes: map[string]string{"n1": uuid}, Members: []*v1alpha1.Member{member("n3", turned)}}, ""},
		"nobody knows":            {decide.Everyone{}, ""},
	} {
		if got := clientOf(n, tt.all); got.Machine != decide.Spelled(tt.want) {
			t.Errorf("%s: %+v, want machine %q", name, got, tt.want)
		}
	}
}
