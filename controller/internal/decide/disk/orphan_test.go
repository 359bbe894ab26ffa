package disk

import (
	"slices"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/pvuuid"
)

func TestDescribe(t *testing.T) {
	for want, d := range map[string]decide.Device{
		"/dev/x (WDC S1, 1Gi)": {Path: "/dev/x", Model: "WDC", Serial: "S1", SizeBytes: 1 << 30},
		"/dev/x (S1, 1Gi)":     {Path: "/dev/x", Serial: "S1", SizeBytes: 1 << 30},
		"/dev/x (1Gi)":         {Path: "/dev/x", SizeBytes: 1 << 30},
	} {
		if got := Describe(d); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestOrphan(t *testing.T) {
	d := decide.Device{Path: "/dev/disk/by-id/a", Serial: "S1", SizeBytes: 1 << 30, Digest: "d"}
	uuid := func(path string) string {
		return pvuuid.First("uid", pvuuid.Disk{Serial: "S1", SizeBytes: 1 << 30}, path)
	}
	d.PVUUID = uuid(d.Path)
	if !Orphan(d, "uid") || Orphan(d, "other") {
		t.Errorf("%s", d.PVUUID)
	}
	for name, edit := range map[string]func(*decide.Device){
		"in a group":             func(d *decide.Device) { d.VolumeGroup = "vg" },
		"owned":                  func(d *decide.Device) { d.OwnerUID = "uid" },
		"another disk":           func(d *decide.Device) { d.Serial = "S2" },
		"content that is unread": func(d *decide.Device) { d.Digest = "" },
		"no physical volume":     func(d *decide.Device) { d.PVUUID = "" },
	} {
		x := d
		edit(&x)
		if Orphan(x, "uid") {
			t.Errorf("%s counts as left behind", name)
		}
	}
	d.KernelName, d.Links = "cciss!c0d0", []string{"/dev/disk/by-path/p"}
	for _, name := range []string{"/dev/cciss/c0d0", "/dev/disk/by-path/p"} {
		d.PVUUID = uuid(name)
		if !Orphan(d, "uid") {
			t.Errorf("not known by %s", name)
		}
	}
	// Agents before this one knew the path only.
	d.PVUUID = pvuuid.Complete(pvuuid.Stem("uid", pvuuid.Disk{Serial: "S1", SizeBytes: 1 << 30}, "/dev/sdz"))
	if !Orphan(d, "uid") || Orphan(d, "other") {
		t.Error("a disk is not known by its serial number")
	}
}

func TestFuture_isWhatTheAgentGives(t *testing.T) {
	d := decide.Device{
		Path: "/dev/disk/by-id/a", KernelName: "sda", Links: []string{"/dev/disk/by-path/p"}, WWN: "w", Serial: "S1", SizeBytes: 1 << 30, Digest: "d",
	}
	disk := pvuuid.Disk{WWN: "w", Serial: "S1", SizeBytes: 1 << 30}
	stem := pvuuid.Stem("uid", disk, d.Path)
	if got := Future(d, "uid"); got != stem {
		t.Errorf("a clean device gets %s", got)
	}
	d.PVUUID = pvuuid.Complete(stem)
	if got := Future(d, "uid"); got != d.PVUUID {
		t.Errorf("what an interrupted call has made is not taken as it is: %s", got)
	}
	if got := Future(d, "other"); got == d.PVUUID {
		t.Error("the physical volume of another owner is taken as it is")
	}
	want := []string{stem}
	for _, name := range []string{d.Path, "/dev/sda", "/dev/disk/by-path/p"} {
		want = append(want, pvuuid.First("uid", disk, name))
	}
	if slices.Sort(want); !slices.Equal(Futures(d, "uid"), want) {
		t.Errorf("%v, want %v", Futures(d, "uid"), want)
	}
	if d.VolumeGroup = "vg"; !Made(d, d.PVUUID, "uid") || Made(d, d.PVUUID, "other") || Made(d, "", "uid") {
		t.Error("a physical volume in a group is not known by its device")
	}
}

func TestIdentity(t *testing.T) {
	for want, d := range map[string]decide.Device{"w": {WWN: "w", Serial: "s"}, "s": {Serial: "s"}, "": {}} {
		if got := Identity(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
