package sharedgroup

import (
	"errors"
	"testing"

	"quarry.storage/quarry/pkg/sharedlun"
)

// TestOrders: orders are remembered as long as their volumes are on the LUN, by a report that can know of them.
func TestOrders(t *testing.T) {
	s := New(t.Context(), Config{})
	defer s.Close()
	order := func(group, volume string, sequence uint64, unmap bool) {
		t.Helper()
		if err := s.newest(key(group, volume), sequence, unmap); err != nil {
			t.Fatal(err)
		}
	}
	order("g", "kept", 5, true)
	order("g", "removed", 5, true)
	order("g", "made since", 9, false)
	order("other", "removed", 5, true)
	order("g2", "removed", 5, true)
	s.prune(sharedlun.Group{UUID: "g", Sequence: 8, Volumes: []sharedlun.Volume{{UUID: "kept"}}})
	for k, want := range map[string]bool{"g/kept": true, "g/removed": false, "g/made since": true, "other/removed": true, "g2/removed": true} {
		if _, is := s.orders[k]; is != want {
			t.Errorf("the order about %s is remembered: %t", k, is)
		}
	}
	if err := s.newest("g/kept", 5, false); !errors.Is(err, sharedlun.ErrMoved) {
		t.Errorf("a late order to map: %v", err)
	}
}
