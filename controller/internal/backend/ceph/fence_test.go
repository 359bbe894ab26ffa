package ceph

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

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
