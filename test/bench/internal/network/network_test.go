package network

import (
	"net"
	"testing"
)

func TestTo(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	w, err := To([]string{"127.0.0.1:3260", "127.0.0.2:3260"})
	if err != nil || len(w.links) != 1 || w.links[0] != lo.Index {
		t.Errorf("the way to this machine: %+v, %v", w, err)
	}
	for name, portals := range map[string][]string{
		"no portal": nil, "no port": {"127.0.0.1"}, "a name": {"san.example:3260"}, "one of two that is wrong": {"127.0.0.1:3260", "127.0.0.1"},
	} {
		if w, err := To(portals); err == nil {
			t.Errorf("%s: %+v", name, w)
		}
	}
}

// TestWay_delayNothing: an interface that delays nothing is left alone, which everybody may do.
func TestWay_delayNothing(t *testing.T) {
	w, err := To([]string{"127.0.0.1:3260"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Delay(0); err != nil {
		t.Error(err)
	}
}
