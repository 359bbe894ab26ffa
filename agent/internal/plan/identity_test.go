package plan

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/pkg/pvuuid"
)

func TestDigest_isStable(t *testing.T) {
	d := signed("ext4", "photos", "u")
	const want = "v1:"
	got := Digest(d)
	if got[:3] != want || len(got) != 3+64 {
		t.Fatalf("digest %q", got)
	}
	// The format is stored in approvals and wipe marks: this value never changes for version 1.
	if golden := "v1:b987d94156c0b8449e7d17051c8b54eb29874e8defdad9d47604e5e9fa255a4d"; got != golden {
		t.Errorf("digest %q, want %q", got, golden)
	}
	same := d
	same.KernelName, same.Path, same.Links, same.Use = "sdz", "/dev/sdz", nil, Used
	if Digest(same) != got {
		t.Error("the digest changed with a name")
	}
	same.Signatures = []Signature{{Type: "ext4", Offset: 1080, Label: "photos", UUID: "u"}}
	if Digest(same) != got {
		t.Error("the digest is not a function of the facts")
	}
}

func TestDigest_changesWithEveryFact(t *testing.T) {
	seen := map[string]string{Digest(cleanDisk("sdb")): "nothing"}
	for name, change := range map[string]func(*Device){
		"wwn":        func(d *Device) { d.WWN = "x" },
		"serial":     func(d *Device) { d.Serial = "x" },
		"model":      func(d *Device) { d.Model = "x" },
		"size":       func(d *Device) { d.SizeBytes++ },
		"sector":     func(d *Device) { d.LogicalSectorBytes = 4096 },
		"signature":  func(d *Device) { d.Signatures = []Signature{{Type: "xfs"}} },
		"offset":     func(d *Device) { d.Signatures = []Signature{{Type: "xfs", Offset: 1}} },
		"uuid":       func(d *Device) { d.Signatures = []Signature{{Type: "xfs", UUID: "u"}} },
		"label":      func(d *Device) { d.Signatures = []Signature{{Type: "xfs", Label: "u"}} },
		"pv":         func(d *Device) { d.PVUUID = "u" },
		"content":    func(d *Device) { d.ContentDigest = "x" },
		"labels":     func(d *Device) { d.LabelDigest = "x" },
		"partitions": func(d *Device) { d.Partitions = []string{"sdb1"} },
		"wipe":       func(d *Device) { d.Wipe = &WipeMark{Digest: "v1:mark"} },
	} {
		digest := Digest(with(change))
		if other, twice := seen[digest]; twice {
			t.Errorf("the digest is the same with another %s and %s", name, other)
		}
		seen[digest] = name
	}
}

func TestDigest_emptyWhenUnknown(t *testing.T) {
	for name, d := range map[string]Device{
		"unreadable": with(func(d *Device) { d.Unreadable = []string{"x"} }),
		"no size":    with(func(d *Device) { d.SizeBytes = 0 }),
		"no content": with(func(d *Device) { d.ContentDigest = "" }),
	} {
		if got := Digest(d); got != "" {
			t.Errorf("%s: digest %q", name, got)
		}
	}
	for name, use := range map[string]func(*Device){
		"mounted":           func(d *Device) { d.Mounts = []string{"/"} },
		"held":              func(d *Device) { d.Holders = []string{"dm-0"} },
		"a physical volume": func(d *Device) { d.PVUUID = "u" },
	} {
		read, unread := with(use), with(use)
		unread.ContentDigest = ""
		read.LabelDigest = "x"
		if got := Digest(read); got == "" || got != Digest(unread) {
			t.Errorf("%s: the digest %q depends on content that moves", name, got)
		}
	}
}

// TestDigest_coversTheGroup: who approved the wipe of a physical volume in no group did not approve the wipe of a group that was made on it since.
func TestDigest_coversTheGroup(t *testing.T) {
	alone := orphan("sda", "somebody")
	grouped, other := alone, alone
	grouped.PVGroup, other.PVGroup = "vg-1", "vg-2"
	if Digest(alone) == Digest(grouped) || Digest(grouped) == Digest(other) {
		t.Error("the digest does not tell the groups of a physical volume apart")
	}
	token := Token{device: IdentityOf(alone), ground: Consent}
	if err := token.Verify(grouped); !errors.Is(err, ErrMismatch) {
		t.Errorf("the consent to the wipe of an orphan covers a group: %v", err)
	}
}

func TestMatch(t *testing.T) {
	d := cleanDisk("sdb")
	if err := Match(d, IdentityOf(d)); err != nil {
		t.Fatalf("the same device: %v", err)
	}
	other := Identity{Path: d.Path, WWN: "w", Serial: "s", SizeBytes: 1, Digest: "d"}
	err := Match(d, other)
	var mismatch *MismatchError
	if !errors.As(err, &mismatch) || !errors.Is(err, ErrMismatch) {
		t.Fatalf("error %v", err)
	}
	want := []string{
		`wwn is "0x5000sdb", not "w"`, `serial is "SERIAL-sdb", not "s"`, "size is 107374182400 bytes, not 1",
		"digest is " + Digest(d) + ", not d",
	}
	if diff := cmp.Diff(want, mismatch.Differences); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	id := IdentityOf(d)
	id.Digest = ""
	if err := Match(d, id); !errors.Is(err, ErrMismatch) {
		t.Errorf("without a digest: %v", err)
	}
	d.Unreadable = []string{"x"}
	if err := Match(d, other); !errors.Is(err, ErrMismatch) {
		t.Errorf("unreadable: %v", err)
	}
}

func TestStem(t *testing.T) {
	id := Identity{Path: "/dev/disk/by-id/x", WWN: "w", Serial: "s", SizeBytes: 5, Digest: "ignored"}
	if got := stem("uid", id); got != pvuuid.Stem("uid", pvuuid.Disk{WWN: "w", Serial: "s", SizeBytes: 5}, id.Path) {
		t.Errorf("stem %q", got)
	}
}

func TestFind(t *testing.T) {
	s := Snapshot{Devices: []Device{cleanDisk("sda"), cleanDisk("cciss!c0d0")}}
	for path, want := range map[string]string{
		"/dev/sda": "sda", "/dev/disk/by-id/ata-sda": "sda", "/dev/disk/by-path/pci-sda": "sda", "/dev/cciss/c0d0": "cciss!c0d0",
	} {
		if d, ok := s.Find(path); !ok || d.KernelName != want {
			t.Errorf("%s: %q", path, d.KernelName)
		}
	}
	if _, ok := s.Find("/dev/sdq"); ok {
		t.Error("found a device that is not there")
	}
}
