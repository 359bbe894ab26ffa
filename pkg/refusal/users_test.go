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
		if got := OnlyMountedAt(InUse([]string{users}), "/dev/gluster/a.b"); got != want {
			t.Errorf("%q: %t", users, got)
		}
	}
	if OnlyMountedAt(InUse(nil), "/dev/gluster/a.b") {
		t.Error("an exclusive user is taken for a mount")
	}
}

// What the one side writes the other one reads.
func TestInUse(t *testing.T) {
	const path = "/dev/gluster/a.b"
	own, sh := NodeMountedAt(path, "glusterd2 (pid 200)"), NodeMountedAt(path, "sh (pid 201)")
	for _, c := range []struct {
		users []string
		text  string
		own   bool
	}{
		{nil, NotExclusive, false},
		{[]string{own}, "The device is in use by a mount of its device node at /dev/gluster/a.b, as process glusterd2 (pid 200) sees it.", true},
		{[]string{own, sh, own}, "", true},
		{[]string{own, sh, own, sh}, "", false},
		{[]string{own, "process dd (pid 3)"}, "", false},
		{[]string{NodeMountedAt(path, "")}, "The device is in use by a mount of its device node at /dev/gluster/a.b.", false},
		{[]string{NodeMountedAt("/vol", "pause (pid 3)")}, "", false},
	} {
		got := InUse(c.users)
		if c.text != "" && got != c.text || OnlyMountedAt(got, path) != c.own {
			t.Errorf("%q of %v; the own mounts alone: %t", got, c.users, OnlyMountedAt(got, path))
		}
	}
}
