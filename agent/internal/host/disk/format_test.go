package disk

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// made are images that a real formatter makes; IMG stands for the path.
var made = []struct {
	name, size, command string
	// want are the types that must be found, want[0] with libblkid's UUID.
	want []string
}{
	{"ext2", "", "mkfs.ext2 -q -F -L lbl IMG", []string{"ext2"}},
	{"ext3", "", "mkfs.ext3 -q -F IMG", []string{"ext3"}},
	{"ext4 with a label", "", "mkfs.ext4 -q -F -L lbl IMG", []string{"ext4"}},
	{"journal of ext4 on its own", "", "mke2fs -q -F -O journal_dev IMG", []string{"jbd"}},
	{"xfs", "big", "mkfs.xfs -q -f -L lbl IMG", []string{"xfs"}},
	{"btrfs", "big", "mkfs.btrfs -q -f -L lbl IMG", []string{"btrfs"}},
	{"vfat", "", "mkfs.vfat -n LBL IMG", []string{"vfat"}},
	{"vfat of 32 bits", "", "mkfs.vfat -F 32 IMG", []string{"vfat"}},
	{"ntfs", "", "mkfs.ntfs -q -F -L lbl IMG", []string{"ntfs"}},
	{"exfat", "", "mkfs.exfat IMG", []string{"exfat"}},
	{"f2fs", "big", "mkfs.f2fs -q -f IMG", []string{"f2fs"}},
	{"nilfs2", "big", "mkfs.nilfs2 -q -f IMG", []string{"nilfs2"}},
	{"jfs", "", "mkfs.jfs -q IMG", []string{"jfs"}},
	{"reiserfs", "big", "mkfs.reiserfs -q -ff IMG", []string{"reiserfs"}},
	{"udf", "", "mkudffs IMG", []string{"udf"}},
	{"gfs2", "big", "mkfs.gfs2 -q -O -p lock_nolock IMG", []string{"gfs2"}},
	{"minix", "", "mkfs.minix IMG", []string{"minix"}},
	{"minix, version 3", "", "mkfs.minix -3 IMG", []string{"minix"}},
	{"bfs", "", "mkfs.bfs IMG", []string{"bfs"}},
	{"cramfs", "", "mkfs.cramfs testdata IMG", []string{"cramfs"}},
	{"squashfs", "", "mksquashfs testdata IMG -noappend -quiet", []string{"squashfs"}},
	{"erofs", "", "mkfs.erofs IMG testdata", []string{"erofs"}},
	{"iso9660", "", "genisoimage -quiet -V LBL -o IMG testdata", []string{"iso9660"}},
	{"swap", "", "mkswap -L lbl IMG", []string{"swap"}},
	{"swap with pages of 64 KiB", "", "mkswap -p 65536 IMG", []string{"swap"}},
	{"LUKS1", "", "cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 IMG testdata/key", []string{"crypto_LUKS"}},
	{"LUKS2", "", "cryptsetup luksFormat -q --type luks2 --label lbl --pbkdf pbkdf2 --pbkdf-force-iterations 1000 IMG testdata/key", []string{"crypto_LUKS"}},
	{"dm-verity", "", "veritysetup format --hash-offset 0 testdata/data IMG", []string{"DM_verity_hash"}},
	{"bcache, backing", "", "make-bcache -B IMG", []string{"bcache"}},
	{"bcache, cache", "", "make-bcache -C IMG", []string{"bcache"}},
	{"gpt", "", "sgdisk -n 1:0:0 IMG", []string{"gpt", "PMBR"}},
	{"gpt without partitions", "", "sgdisk -o IMG", []string{"gpt", "PMBR"}},
	{"dos", "", "parted -s IMG mklabel msdos mkpart primary 1MiB 10MiB", []string{"dos"}},
	{"dos without partitions", "", "parted -s IMG mklabel msdos", []string{"dos"}},
	{"sun", "", "parted -s IMG mklabel sun", []string{"sun"}},
	{"bsd", "", "parted -s IMG mklabel bsd", []string{"bsd"}},
	{"mac", "", "parted -s IMG mklabel mac", []string{"mac"}},
	{"sgi", "", "parted -s IMG mklabel dvh", []string{"sgi"}},
	{"amiga", "", "parted -s IMG mklabel amiga", []string{"amiga"}},
}

func TestProbe_formats(t *testing.T) {
	for _, tt := range made {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			size := testSize
			if tt.size == "big" {
				size = 512 * mib
			}
			img := newImage(t, size)
			args := strings.Fields(strings.ReplaceAll(tt.command, "IMG", img))
			tool(t, args[0], args[1:]...)
			got := facts(t, img)
			for _, w := range tt.want {
				if !types(got)[w] {
					t.Errorf("no %s in %+v", w, got.Signatures)
				}
			}
			if got.Clean() {
				t.Error("counts as clean")
			}
			compareWithBlkid(t, img, got)
			if err := New().Wipe(t.Context(), img, "digest", accept); err != nil {
				t.Fatal(err)
			}
			if got := facts(t, img); !got.Clean() {
				t.Errorf("after the wipe: %+v", got)
			}
			if left := wipefs(t, img); len(left) > 0 {
				t.Errorf("after the wipe libblkid finds %+v", left)
			}
		})
	}
}

// finding is one signature as wipefs reports it.
type finding struct{ Offset, Type, UUID, Label string }

func wipefs(t *testing.T, img string) []finding {
	t.Helper()
	path, err := exec.LookPath("wipefs")
	if err != nil {
		t.Skip("wipefs is not installed")
	}
	out, err := exec.Command(path, "-n", "--json", img).Output()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Signatures []finding }
	if len(out) == 0 {
		return nil
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return doc.Signatures
}

// compareWithBlkid wants every signature that libblkid finds among ours, with the same UUID and label where we give any.
func compareWithBlkid(t *testing.T, img string, got Facts) {
	t.Helper()
	for _, f := range wipefs(t, img) {
		found := false
		for _, s := range got.Signatures {
			if s.Type != f.Type {
				continue
			}
			found = true
			if s.UUID != "" && f.UUID != "" && !strings.EqualFold(s.UUID, f.UUID) {
				t.Errorf("%s: UUID %q, libblkid %q", s.Type, s.UUID, f.UUID)
			}
			if s.Label != "" && f.Label != "" && s.Label != f.Label {
				t.Errorf("%s: label %q, libblkid %q", s.Type, s.Label, f.Label)
			}
		}
		if !found {
			t.Errorf("libblkid finds %+v, we %+v", f, got.Signatures)
		}
	}
}
