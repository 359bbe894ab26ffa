package ceph

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		if got := clientOf(n); got.Machine != want || got.Node != "n1" {
			t.Errorf("%q: %+v, want machine %q", uuid, got, want)
		}
	}
}
