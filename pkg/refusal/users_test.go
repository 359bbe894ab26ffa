package refusal

import "testing"

func TestOnlyMountedAt(t *testing.T) {
	const (
		own   = "a mount of its device node at /dev/gluster/a.b, as process glusterd2 (pid 200) sees it"
		again = "a mount of its device node at /dev/gluster/a.b, as process sh (pid 201) sees it"
	)
	for users, want := range map[string]bool{
		own:                                true,
		own + ", " + again:                 true,
		"":                                 false,
		own + ", process dd (pid 3)":       false,
		"process dd (pid 3), " + own:       false,
		"loop device loop3, " + own:        false,
		own + " and 1 more":                false,
		own + ", " + again + " and 2 more": false,
		own + ", others, maybe: process 3: permission denied":                                                                                                false,
		"a mount of its device node at /dev/gluster/a.b":                                                                                                     false,
		"a mount of its device node at /dev/gluster/aXb, as process glusterd2 (pid 200) sees it":                                                             false,
		"a mount of its device node at /dev/gluster/a.b/c, as process glusterd2 (pid 200) sees it":                                                           false,
		"a mount of its device node at /dev/gluster/a.b, as process a, b (pid 200) sees it":                                                                  false,
		"a mount of its device node at /dev/gluster/a.b, as process a (pid 2) sees it, a mount of its device node at /vol, as process pause (pid 3) sees it": false,
	} {
		if got := OnlyMountedAt("The device is in use by "+users+".", "/dev/gluster/a.b"); got != want {
			t.Errorf("%q: %t", users, got)
		}
	}
	if OnlyMountedAt("The device could not be opened exclusively; something uses it.", "/dev/gluster/a.b") {
		t.Error("an exclusive user is taken for a mount")
	}
}
