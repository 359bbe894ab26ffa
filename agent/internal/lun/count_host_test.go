//go:build hostroot

package lun_test

import (
	"testing"

	"quarry.storage/quarry/pkg/sharedlun"
	"quarry.storage/quarry/test/lio"
)

// TestRealLunCount: a target that shows no LUN, and one that shows two, are told as they are.
func TestRealLunCount(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*lio.Target)
		want   int
	}{
		"none": {func(x *lio.Target) { x.DropLun(0) }, 0},
		"two":  {func(x *lio.Target) { x.AddLun(1, "second") }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			target := lio.New(t, realIQN)
			c.change(target)
			n := realNode(t, "quarry-a")
			at := sharedlun.Target{IQN: realIQN, Portals: lio.Portals[:1]}
			seen, err := n.Login(t.Context(), at, nil, nil)
			must(t, err)
			if len(seen.Luns) != c.want || len(seen.Sessions) != 1 || seen.Sessions[0].State != sharedlun.SessionUp {
				t.Errorf("%+v", seen)
			}
			// udev looks at what is new, which is a use like any other.
			lio.Run(t, "udevadm", "settle")
			must(t, n.Logout(t.Context(), at))
		})
	}
}
