package decide

import (
	"testing"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/pvuuid"
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

func TestDevice_describe(t *testing.T) {
	for want, d := range map[string]Device{
		"/dev/x (WDC S1, 1Gi)": {Path: "/dev/x", Model: "WDC", Serial: "S1", SizeBytes: 1 << 30},
		"/dev/x (S1, 1Gi)":     {Path: "/dev/x", Serial: "S1", SizeBytes: 1 << 30},
		"/dev/x (1Gi)":         {Path: "/dev/x", SizeBytes: 1 << 30},
	} {
		if got := d.Describe(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDevice_orphan(t *testing.T) {
	d := Device{Path: "/dev/disk/by-id/a", Serial: "S1", SizeBytes: 1 << 30, Digest: "d"}
	uuid := func(path string) string { return pvuuid.Of("uid", pvuuid.Disk{Serial: "S1", SizeBytes: 1 << 30}, path) }
	d.PVUUID = uuid(d.Path)
	if !d.Orphan("uid") || d.Orphan("other") {
		t.Errorf("%s", d.PVUUID)
	}
	for name, edit := range map[string]func(*Device){
		"in a group":             func(d *Device) { d.VolumeGroup = "vg" },
		"owned":                  func(d *Device) { d.OwnerUID = "uid" },
		"another disk":           func(d *Device) { d.Serial = "S2" },
		"content that is unread": func(d *Device) { d.Digest = "" },
		"no physical volume":     func(d *Device) { d.PVUUID = "" },
	} {
		x := d
		edit(&x)
		if x.Orphan("uid") {
			t.Errorf("%s counts as left behind", name)
		}
	}
	d.KernelName, d.Links = "cciss!c0d0", []string{"/dev/disk/by-path/p"}
	for _, name := range []string{"/dev/cciss/c0d0", "/dev/disk/by-path/p"} {
		d.PVUUID = uuid(name)
		if !d.Orphan("uid") {
			t.Errorf("not known by %s", name)
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

func TestDigestOf_order(t *testing.T) {
	a, b := Step{Host: "a"}, Step{Host: "b"}
	if DigestOf([]Step{a, b}) == DigestOf([]Step{b, a}) || DigestOf(nil) == DigestOf([]Step{a}) {
		t.Error("different plans have one digest")
	}
	if s := a.API(); s.Host != "a" || s.Digest != a.Digest() {
		t.Errorf("%+v", s)
	}
}
