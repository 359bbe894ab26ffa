package pvuuid_test

import (
	"regexp"
	"testing"

	"quarry.storage/quarry/pkg/pvuuid"
)

var disk = pvuuid.Disk{WWN: "w", Serial: "s", SizeBytes: 5}

const path = "/dev/disk/by-id/x"

func TestOf(t *testing.T) {
	got := pvuuid.Of("uid", disk, path)
	if !regexp.MustCompile(`^[0-9a-zA-Z]{6}(-[0-9a-zA-Z]{4}){5}-[0-9a-zA-Z]{6}$`).MatchString(got) {
		t.Fatalf("uuid %q", got)
	}
	// Physical volumes on disks carry it: this value never changes.
	if golden := "ifsb7F-bMM0-DvJR-X3Pg-5eAn-M7jU-9oEvKk"; got != golden {
		t.Errorf("uuid %q, want %q", got, golden)
	}
	for name, other := range map[string]string{
		"owner":  pvuuid.Of("other", disk, path),
		"path":   pvuuid.Of("uid", disk, "/dev/y"),
		"wwn":    pvuuid.Of("uid", pvuuid.Disk{WWN: "x", Serial: "s", SizeBytes: 5}, path),
		"serial": pvuuid.Of("uid", pvuuid.Disk{WWN: "w", Serial: "x", SizeBytes: 5}, path),
		"size":   pvuuid.Of("uid", pvuuid.Disk{WWN: "w", Serial: "s", SizeBytes: 6}, path),
	} {
		if other == got {
			t.Errorf("another %s gives the same uuid", name)
		}
	}
}

func TestIs(t *testing.T) {
	uuid := pvuuid.Of("uid", disk, path)
	for name, c := range map[string]struct {
		uuid, owner string
		paths       []string
		want        bool
	}{
		"by the path":       {uuid, "uid", []string{path}, true},
		"by another link":   {uuid, "uid", []string{"/dev/sda", path}, true},
		"no such link":      {uuid, "uid", []string{"/dev/sda"}, false},
		"no path":           {uuid, "uid", nil, false},
		"of somebody else":  {uuid, "other", []string{path}, false},
		"no uuid":           {"", "uid", []string{path}, false},
		"somebody's choice": {"foreign", "uid", []string{path}, false},
	} {
		if got := pvuuid.Is(c.uuid, c.owner, disk, c.paths...); got != c.want {
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
