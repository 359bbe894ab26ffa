package decide

import (
	"testing"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestDevice_is(t *testing.T) {
	d := Device{Path: "/dev/disk/by-id/a", KernelName: "sda", Links: []string{"/dev/disk/by-path/1"}}
	for path, want := range map[string]bool{
		"/dev/disk/by-id/a": true, "/dev/disk/by-path/1": true, "/dev/sda": true, "/dev/sdaa": false, "/dev/sd": false, "": false,
	} {
		if d.Is(path) != want {
			t.Errorf("Is(%q) is not %t", path, want)
		}
	}
	if (Device{}).Is("/dev/") || (Device{}).Is("") {
		t.Error("a device without names is found")
	}
}

func TestDevice_clean(t *testing.T) {
	refused := []v1alpha1.Refusal{{Reason: v1alpha1.RefusalSwap}}
	for name, c := range map[string]struct {
		d    Device
		want bool
	}{
		"nothing speaks against it":         {Device{Digest: "d"}, true},
		"without a digest nothing is known": {Device{}, false},
		"a refusal":                         {Device{Digest: "d", Refusals: refused}, false},
	} {
		if c.d.Clean() != c.want {
			t.Error(name)
		}
	}
}

func TestDevice_takeable(t *testing.T) {
	refused := func(reasons ...string) []v1alpha1.Refusal {
		var out []v1alpha1.Refusal
		for _, r := range reasons {
			out = append(out, v1alpha1.Refusal{Reason: r})
		}
		return out
	}
	for name, c := range map[string]struct {
		d    Device
		want bool
	}{
		"clean":                        {Device{Digest: "d"}, true},
		"settling":                     {Device{Digest: "d", Refusals: refused(v1alpha1.RefusalSettling)}, true},
		"settling, and not known":      {Device{Refusals: refused(v1alpha1.RefusalSettling)}, false},
		"settling, and something else": {Device{Digest: "d", Refusals: refused(v1alpha1.RefusalSettling, v1alpha1.RefusalBusy)}, false},
		"in use":                       {Device{Digest: "d", Refusals: refused(v1alpha1.RefusalBusy)}, false},
	} {
		if c.d.Takeable() != c.want {
			t.Error(name)
		}
	}
}

func TestGroup_holds(t *testing.T) {
	g := Group{PVs: []PV{{Path: "/dev/disk/by-id/a", UUID: "u-a"}, {UUID: "u-missing"}}}
	for name, c := range map[string]struct {
		d    Device
		want bool
	}{
		"by path":                    {Device{Path: "/dev/disk/by-id/a"}, true},
		"by the physical volume":     {Device{Path: "/dev/other", PVUUID: "u-a"}, true},
		"another device":             {Device{Path: "/dev/disk/by-id/b"}, false},
		"a device without any names": {Device{}, false},
	} {
		if g.Holds(c.d) != c.want {
			t.Error(name)
		}
	}
}

func TestNode_lookups(t *testing.T) {
	n := Node{Devices: []Device{{Path: "/dev/disk/by-id/a"}}, Groups: []Group{{Name: "x", OwnerUID: "1"}, {Name: "y", OwnerUID: "2"}}}
	if _, ok := n.Device("/dev/disk/by-id/a"); !ok {
		t.Error("not found")
	}
	if _, ok := n.Device("/dev/disk/by-id/b"); ok {
		t.Error("found")
	}
	if g := n.GroupsOf("2"); len(g) != 1 || g[0].Name != "y" || n.Up() {
		t.Errorf("%+v", g)
	}
}

// TestDevice_Retired: a disk that came into the place of the listed one is not given up.
func TestDevice_Retired(t *testing.T) {
	d := Device{Path: "/dev/disk/by-id/a", KernelName: "sda", Links: []string{"/dev/disk/by-path/1"}, Serial: "S"}
	for by, want := range map[v1alpha1.RetiredDevice]bool{
		{Path: "/dev/disk/by-id/a"}:                true,
		{Path: "/dev/disk/by-path/1", Serial: "S"}: true,
		{Path: "/dev/disk/by-path/1", Serial: "T"}: false,
		{Path: "/dev/disk/by-id/b", Serial: "S"}:   false,
		{Serial: "S"}:                              false,
	} {
		if d.Retired(by) != want {
			t.Errorf("%+v: want %t", by, want)
		}
	}
}
