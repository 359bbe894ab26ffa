package sharedvolume

import (
	"errors"
	"strings"
	"testing"
)

const uid = "0f3b2c1d-1111-2222-3333-444455556666"

func TestParse_reads(t *testing.T) {
	for _, handle := range []string{uid + "/pvc-" + uid, uid + "/a", uid + "/vol-my-volume-1-x0ed186635ae081ed8d0a", uid + "/" + strings.Repeat("a", 64)} {
		id, err := Parse(handle)
		if err != nil || id.String() != handle {
			t.Errorf("%q: %v, %v", handle, id, err)
		}
		if len(handle) > MaxHandle {
			t.Errorf("%q is longer than a handle may be", handle)
		}
	}
}

// hostile are handles that reach for something outside, or that two readers could read differently.
var hostile = []string{
	"", "/", "//", uid, uid + "/", "/pvc-1", uid + "//a", uid + "/../a", uid + "/..", uid + "/.", "../" + uid + "/a", uid + "/a/b", uid + "/a/../b",
	uid + "/a\x00b", uid + "/a\n", uid + "\n/a", uid + "/A", uid + "/a.b", uid + "/-a", uid + "/a-", uid + "/a b", uid + "/ä",
	uid + "/.quarry", uid + "/a;reboot", uid + "/$(reboot)", uid + "/" + strings.Repeat("a", 65), strings.ToUpper(uid) + "/a",
	"0f3b2c1d/a", "00000000-0000-0000-0000-00000000000/a", "{" + uid + "}/a", " " + uid + "/a", uid + " /a", "server#path#../../etc#a#",
	"nfs-server.default.svc.cluster.local#share#../../../etc##", uid + "%2f../a", uid + "\\a", strings.Repeat(uid, 4) + "/a",
}

func TestParse_refusesHostileHandles(t *testing.T) {
	for _, handle := range hostile {
		if id, err := Parse(handle); !errors.Is(err, ErrNotOurs) {
			t.Errorf("%q is read as %+v, %v", handle, id, err)
		}
	}
}

func TestName_makesHandles(t *testing.T) {
	for _, co := range []string{"pvc-" + uid, "", "../../etc", "a/b", "A B", strings.Repeat("x", 200), "ä", "a\x00", ".quarry"} {
		name := Name(co)
		if _, err := New(uid, name); err != nil {
			t.Errorf("Name(%q) = %q: %v", co, name, err)
		}
		if name != Name(co) {
			t.Errorf("Name(%q) changes", co)
		}
	}
	if Name("pvc-"+uid) != "pvc-"+uid {
		t.Error("a name of Kubernetes is changed")
	}
}

func FuzzParse(f *testing.F) {
	for _, h := range hostile {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, handle string) {
		id, err := Parse(handle)
		if err != nil {
			return
		}
		if id.String() != handle || strings.Count(handle, "/") != 1 || strings.ContainsAny(handle, ".\x00\n ") {
			t.Errorf("%q is read as %+v", handle, id)
		}
	})
}
