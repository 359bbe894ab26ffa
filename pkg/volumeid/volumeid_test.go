package volumeid

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const uid = "0f3b2c1d-1111-2222-3333-444455556666"

func TestName(t *testing.T) {
	for name, c := range map[string]struct{ co, want string }{
		"a Kubernetes name stays":                   {"pvc-" + uid, "pvc-" + uid},
		"another name is hashed and stays readable": {"My Volume/1", "vol-my-volume-1-x0ed186635ae081ed8d0a"},
		"an empty readable part":                    {"äöü;$(reboot)", ""},
		"a name that looks hashed is hashed":        {"vol-x00000000000000000000", ""},
		"an option":                                 {"--force", ""},
		"a name that LVM reserves":                  {"pvmove0", ""},
		"a long name":                               {strings.Repeat("a", 128), ""},
		"a Kubernetes name with upper case":         {"pvc-" + strings.ToUpper(uid), ""},
		"a Kubernetes name and a line end":          {"pvc-" + uid + "\n", ""},
		"a name of hyphens":                         {"------------------------------------", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Name(c.co)
			if c.want != "" && got != c.want {
				t.Errorf("Name(%q) = %q, want %q", c.co, got, c.want)
			}
			if c.want == "" && got == c.co {
				t.Errorf("Name(%q) is unchanged", c.co)
			}
			if got != Name(c.co) {
				t.Error("Name is not deterministic")
			}
			if id, err := New("node", "group", got); err != nil || id.IsSnapshot() {
				t.Errorf("Name(%q) = %q is no volume name: %v", c.co, got, err)
			}
			snap := Snapshot(c.co)
			if id, err := New("node", "group", snap); err != nil || !id.IsSnapshot() {
				t.Errorf("Snapshot(%q) = %q is no snapshot name: %v", c.co, snap, err)
			}
		})
	}
}

func TestSnapshot_keepsKubernetesNames(t *testing.T) {
	if got, want := Snapshot("snapshot-"+uid), "snap-"+uid; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestName_differsWhereNamesDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, co := range []string{"a", "A", "a ", "a-", "a_", "-a", "pvc-" + uid, "pvc-" + uid + "-", "pvc_" + uid, Name("a")} {
		n := Name(co)
		if other, ok := seen[n]; ok {
			t.Errorf("%q and %q are both %q", co, other, n)
		}
		seen[n] = co
	}
}

func TestParse_readsWhatStringMakes(t *testing.T) {
	for _, want := range []ID{
		{"node-1.example.org", "quarry-fast", "pvc-" + uid},
		{"n", "vg_0", Name("volume")},
		{"n", "vg.0", Snapshot("snapshot-" + uid)},
	} {
		got, err := Parse(want.String())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestParse_refusesWhatIsNotOurs(t *testing.T) {
	good := "pvc-" + uid
	for name, handle := range map[string]string{
		"empty":                       "",
		"no slash":                    good,
		"one slash":                   "node/" + good,
		"three slashes":               "node/vg/x/" + good,
		"empty node":                  "/vg/" + good,
		"empty group":                 "node//" + good,
		"empty name":                  "node/vg/",
		"option as node":              "-n/vg/" + good,
		"option as group":             "node/--force/" + good,
		"option as name":              "node/vg/--force",
		"parent directory":            "node/../" + good,
		"dot":                         "node/./" + good,
		"name of another driver":      "node/vg/root",
		"hidden volume":               "node/vg/" + good + "_tdata",
		"line end":                    "node/vg/" + good + "\n",
		"space":                       "node/vg /" + good,
		"shell":                       "node/vg/$(reboot)",
		"tag":                         "node/@tag/" + good,
		"NUL":                         "node/vg\x00/" + good,
		"upper case node":             "Node/vg/" + good,
		"very long group":             "node/" + strings.Repeat("g", 128) + "/" + good,
		"very long node":              strings.Repeat("n", 254) + "/vg/" + good,
		"very long name":              "node/vg/vol-" + strings.Repeat("a", 64) + "-x00000000000000000000",
		"a handle that is a megabyte": strings.Repeat("/", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			if id, err := Parse(handle); !errors.Is(err, ErrNotOurs) {
				t.Errorf("got %v, %v", id, err)
			} else if len(err.Error()) > 2000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("node/vg/pvc-" + uid)
	f.Fuzz(func(t *testing.T, handle string) {
		if id, err := Parse(handle); err == nil && id.String() != handle {
			t.Errorf("%q became %q", handle, id)
		}
	})
}
