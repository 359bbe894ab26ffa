package pvuuid_test

import (
	"regexp"
	"testing"

	"quarry.storage/quarry/pkg/pvuuid"
)

var disk = pvuuid.Disk{WWN: "w", Serial: "s", SizeBytes: 5}

const path = "/dev/disk/by-id/x"

func TestFirst(t *testing.T) {
	// Physical volumes on disks carry it: this value never changes.
	if got, golden := pvuuid.First("uid", disk, path), "ifsb7F-bMM0-DvJR-X3Pg-5eAn-M7jU-9oEvKk"; got != golden {
		t.Errorf("uuid %q, want %q", got, golden)
	}
}

func TestStem(t *testing.T) {
	unnamed := pvuuid.Disk{SizeBytes: 5}
	got := pvuuid.Stem("uid", disk, path)
	// Physical volumes on disks carry it: this value never changes.
	if golden := "glgmWf-a51S-mgDM-zIzn-mg"; got != golden {
		t.Errorf("stem %q, want %q", got, golden)
	}
	if other := pvuuid.Stem("uid", disk, "/dev/y"); other != got {
		t.Errorf("a disk with a serial number has another stem under another path: %s, %s", got, other)
	}
	seen := map[string]string{got: "the disk"}
	for name, stem := range map[string]string{
		"owner":                    pvuuid.Stem("other", disk, path),
		"wwn":                      pvuuid.Stem("uid", pvuuid.Disk{WWN: "x", Serial: "s", SizeBytes: 5}, path),
		"serial":                   pvuuid.Stem("uid", pvuuid.Disk{WWN: "w", Serial: "x", SizeBytes: 5}, path),
		"size":                     pvuuid.Stem("uid", pvuuid.Disk{WWN: "w", Serial: "s", SizeBytes: 6}, path),
		"path":                     pvuuid.Stem("uid", unnamed, path),
		"path of an unnamed disk":  pvuuid.Stem("uid", unnamed, "/dev/y"),
		"serial in place of a WWN": pvuuid.Stem("uid", pvuuid.Disk{Serial: "w", SizeBytes: 5}, path),
	} {
		if seen[stem] != "" {
			t.Errorf("another %s gives the stem of %s", name, seen[stem])
		}
		seen[stem] = name
	}
}

func TestComplete(t *testing.T) {
	stem := pvuuid.Stem("uid", disk, path)
	one, two := pvuuid.Complete(stem), pvuuid.Complete(stem)
	for _, uuid := range []string{one, two} {
		if !regexp.MustCompile(`^[0-9a-zA-Z]{6}(-[0-9a-zA-Z]{4}){5}-[0-9a-zA-Z]{6}$`).MatchString(uuid) || !pvuuid.Fits(uuid, stem) {
			t.Errorf("%q is no UUID that begins with %s", uuid, stem)
		}
	}
	if one == two {
		t.Errorf("two disks of one slot get one UUID, %s", one)
	}
	if got := pvuuid.Complete(one); got != one {
		t.Errorf("a whole UUID becomes %s", got)
	}
}

func TestFits(t *testing.T) {
	uuid := pvuuid.Complete(pvuuid.Stem("uid", disk, path))
	for name, c := range map[string]struct {
		uuid, expected string
		want           bool
	}{
		"the stem":              {uuid, uuid[:24], true},
		"the UUID itself":       {uuid, uuid, true},
		"less than a stem":      {uuid, uuid[:23], false},
		"more than a stem":      {uuid, uuid[:25], false},
		"nothing was expected":  {uuid, "", false},
		"nothing is there":      {"", "", false},
		"the stem of another":   {uuid, pvuuid.Stem("other", disk, path), false},
		"the UUID of another":   {uuid, pvuuid.Complete(uuid[:24]), false},
		"a stem is not a UUID":  {uuid[:24], uuid, false},
		"the first kind, whole": {pvuuid.First("uid", disk, path), pvuuid.First("uid", disk, path), true},
	} {
		if got := pvuuid.Fits(c.uuid, c.expected); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestIs(t *testing.T) {
	uuid := pvuuid.Complete(pvuuid.Stem("uid", disk, path))
	unnamed := pvuuid.Disk{SizeBytes: 5}
	for name, c := range map[string]struct {
		uuid, owner string
		disk        pvuuid.Disk
		paths       []string
		want        bool
	}{
		"by the path":                     {uuid, "uid", disk, []string{path}, true},
		"by any path":                     {uuid, "uid", disk, []string{"/dev/sda"}, true},
		"unnamed, by the path":            {pvuuid.Complete(pvuuid.Stem("uid", unnamed, path)), "uid", unnamed, []string{"/dev/sda", path}, true},
		"unnamed, by another path":        {pvuuid.Complete(pvuuid.Stem("uid", unnamed, path)), "uid", unnamed, []string{"/dev/sda"}, false},
		"of the first kind, by the path":  {pvuuid.First("uid", disk, path), "uid", disk, []string{"/dev/sda", path}, true},
		"of the first kind, another path": {pvuuid.First("uid", disk, path), "uid", disk, []string{"/dev/sda"}, false},
		"another disk":                    {uuid, "uid", unnamed, []string{path}, false},
		"no path":                         {uuid, "uid", disk, nil, false},
		"of somebody else":                {uuid, "other", disk, []string{path}, false},
		"no uuid":                         {"", "uid", disk, []string{path}, false},
		"somebody's choice":               {"foreign", "uid", disk, []string{path}, false},
	} {
		if got := pvuuid.Is(c.uuid, c.owner, c.disk, c.paths...); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestKernel(t *testing.T) {
	for name, want := range map[string]string{"sda": "/dev/sda", "cciss!c0d0": "/dev/cciss/c0d0"} {
		if got := pvuuid.Kernel(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
