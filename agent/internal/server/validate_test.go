package server

import (
	"errors"
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
)

func TestValidIdentity(t *testing.T) {
	good := plan.Identity{Path: "/dev/disk/by-id/x", SizeBytes: 1, Digest: "d"}
	if err := validIdentity(good, true); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*plan.Identity){
		"path":    func(id *plan.Identity) { id.Path = "/dev/../x" },
		"size":    func(id *plan.Identity) { id.SizeBytes = 0 },
		"digest":  func(id *plan.Identity) { id.Digest = "" },
		"control": func(id *plan.Identity) { id.Serial = "a\nb" },
		"long":    func(id *plan.Identity) { id.WWN = string(make([]byte, 1000)) },
	} {
		id := good
		change(&id)
		if err := validIdentity(id, true); !errors.Is(err, plan.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
