package nfs

import (
	"testing"

	"quarry.storage/quarry/controller/internal/decide/backend"
)

func TestHasVolumes(t *testing.T) {
	const own, earlier = "6d1f8f3e-0000-4000-8000-000000000001", "6d1f8f3e-0000-4000-8000-000000000002"
	n := share("a", 0)
	n.UID = own
	for handle, want := range map[string]bool{
		own + "/pvc-1": true,
		// The records of an Nfs that came back with another UID are not there yet.
		earlier + "/pvc-1": false, "pvc-1": false, own: false, "": false,
	} {
		w := backend.World{Volumes: map[string][]backend.Volume{"n1": {{Name: "pv", Handle: handle}}}}
		if got := HasVolumes(n, w); got != want {
			t.Errorf("%q: %t", handle, got)
		}
	}
	if HasVolumes(n, backend.World{}) {
		t.Error("without PersistentVolumes")
	}
}
