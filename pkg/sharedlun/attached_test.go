package sharedlun

import (
	"errors"
	"testing"
)

func TestAttached(t *testing.T) {
	a := Attached{UUID: "8AD8Uh-gR3m-AUdI-S0r1-Eqzm-EZDO-qI0cBB", Ref: Ref{
		Lun: Identity{WWID: "naa.6001405", Serial: "s", SizeBytes: 5 << 30}, OwnerUID: "6d1f8f3e-0000-4000-8000-000000000001",
		UUID: "EJOuKj-cD6h-GGXp-49EQ-tSM8-Xxrl-JtVpvn",
	}}
	if got, err := ParseAttached(a.Map()); err != nil || got != a {
		t.Errorf("%+v, %v", got, err)
	}
	for key := range a.Map() {
		m := a.Map()
		delete(m, key)
		if got, err := ParseAttached(m); !errors.Is(err, ErrInvalid) {
			t.Errorf("without %s: %+v, %v", key, got, err)
		}
	}
}
