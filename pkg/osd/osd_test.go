package osd

import "testing"

const (
	cluster = "0d4f0fb1-f7d4-4f0c-9d52-1f5ef2b55d5f"
	path    = "/dev/disk/by-path/pci-1"
)

var disk = Disk{WWN: "0x5000c500a1b2c3d4", Serial: "SERIAL", SizeBytes: 2 << 30}

// TestUUID_isStable: OSDs are recognised by these values for ever. Other programs make the same ones of the same names.
func TestUUID_isStable(t *testing.T) {
	for name, tt := range map[string]struct {
		disk Disk
		path string
		want string
	}{
		"a disk that its hardware tells from others": {disk, path, "3d4b9633-81c6-5dd5-85cb-28015a1e4345"},
		"its path does not count":                    {disk, "/dev/sdz", "3d4b9633-81c6-5dd5-85cb-28015a1e4345"},
		"a disk that nothing but its path does":      {Disk{SizeBytes: 2 << 30, Node: "n1"}, path, "fb9a8c2c-a5ec-52f6-9b41-dd2ff6652f45"},
		"a disk with a serial number alone":          {Disk{Serial: "drive-scsi1", SizeBytes: 2 << 30, Node: "n1"}, path, "975456f7-1315-5fcf-8fb1-d1695c17804a"},
		"a disk with a WWN alone":                    {Disk{WWN: disk.WWN, SizeBytes: 2 << 30, Node: "n1"}, path, "26138e7a-bd1d-5acc-9a8f-6cae14c4de08"},
	} {
		got, err := UUID(cluster, tt.disk, tt.path)
		if err != nil || got != tt.want || !ValidUUID(got) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got := version5("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "www.example.com"); got != "2ed6657d-e927-568b-95e1-2665a8aea6a2" {
		t.Errorf("the example of RFC 9562: %s", got)
	}
}

func TestUUID_differs(t *testing.T) {
	seen := map[string]string{}
	for name, d := range map[string]Disk{
		"the disk": disk, "another WWN": {"x", disk.Serial, disk.SizeBytes, ""}, "another serial number": {disk.WWN, "x", disk.SizeBytes, ""},
		"another size": {disk.WWN, disk.Serial, 3 << 30, ""}, "WWN and serial number swapped": {disk.Serial, disk.WWN, disk.SizeBytes, ""},
		"a slot of a node": {"", "", disk.SizeBytes, "n1"}, "the same slot of another node": {"", "", disk.SizeBytes, "n2"},
		"a serial number alone": {"", disk.Serial, disk.SizeBytes, "n1"}, "the same one on another node": {"", disk.Serial, disk.SizeBytes, "n2"}, "a WWN alone": {disk.WWN, "", disk.SizeBytes, "n1"},
	} {
		uuid, err := UUID(cluster, d, path)
		if err != nil {
			t.Fatal(err)
		}
		if other, known := seen[uuid]; known {
			t.Errorf("%s and %s have one UUID", name, other)
		}
		seen[uuid] = name
	}
	other, err := UUID("0d4f0fb1-f7d4-4f0c-9d52-1f5ef2b55d50", disk, path)
	if err != nil || seen[other] != "" {
		t.Errorf("another Cluster: %s, %v", other, err)
	}
}

func TestUUID_refuses(t *testing.T) {
	for _, uid := range []string{"", "x", cluster + "0", "0D4F0FB1-F7D4-4F0C-9D52-1F5EF2B55D5F", "00000000-0000-0000-0000-000000000000"} {
		if got, err := UUID(uid, disk, path); err == nil {
			t.Errorf("UID %q: %s", uid, got)
		}
	}
	if got, err := UUID(cluster, Disk{WWN: "x"}, path); err == nil {
		t.Errorf("a disk without a size: %s", got)
	}
	if got, err := UUID(cluster, Disk{SizeBytes: 2 << 30}, path); err == nil {
		t.Errorf("a slot of no node: %s", got)
	}
	if got, err := UUID(cluster, Disk{Serial: "x", SizeBytes: 2 << 30}, path); err == nil {
		t.Errorf("a serial number alone on no node: %s", got)
	}
}

func TestIs(t *testing.T) {
	slot := Disk{SizeBytes: 2 << 30, Node: "n1"}
	byPath, err := UUID(cluster, slot, path)
	if err != nil {
		t.Fatal(err)
	}
	if !Is(byPath, cluster, slot, "/dev/sda", path) {
		t.Error("another link of the disk does not count")
	}
	if Is(byPath, cluster, slot, "/dev/sda") || Is(byPath, cluster, Disk{SizeBytes: 2 << 30, Node: "n2"}, path) || Is(byPath, cluster, disk, path) || Is("", "", Disk{}, path) || Is(byPath, cluster, disk) {
		t.Error("another disk counts")
	}

	// An earlier version made this one. It left the node out.
	const earlier = "9064d23c-9acd-5456-96c3-d202afa73da3"
	for _, node := range []string{"n1", "n2"} {
		alone := Disk{Serial: "drive-scsi1", SizeBytes: 2 << 30, Node: node}
		now, err := UUID(cluster, alone, path)
		if err != nil || now == earlier || !Is(now, cluster, alone, path) || !Is(earlier, cluster, alone, path) {
			t.Errorf("%s: %s, %v", node, now, err)
		}
	}
}
