package filesystem

import (
	"errors"
	"slices"
	"testing"
)

func TestParseMkfsOptions(t *testing.T) {
	for fsType, options := range map[string][]string{
		Ext4:  {"-i 65536", "-m 0.5", "-O ^has_journal,bigalloc", "-E stride=16,stripe_width=64", "-T largefile4", "-J size=64", "-b 4096"},
		XFS:   {"-m reflink=0,rmapbt=1", "-d su=64k,sw=4", "-l size=64m", "-i size=1024", "-n size=8k", "-b size=4096"},
		Btrfs: {"-M", "-m dup", "-d single", "-n 16k", "--csum xxhash", "-O ^no-holes,quota"},
	} {
		parsed, err := ParseMkfsOptions(fsType, options)
		if err != nil || len(parsed) != len(options) {
			t.Errorf("%s: %v, %v", fsType, parsed, err)
		}
		if back := SplitOptions(JoinOptions(options)); !slices.Equal(back, options) {
			t.Errorf("%s: %q", fsType, back)
		}
	}
	if back := SplitOptions(JoinOptions(nil)); back != nil {
		t.Errorf("%q", back)
	}
}

func TestParseMkfsOptions_refuses(t *testing.T) {
	for fsType, options := range map[string][]string{
		Ext4: {
			"", "-F", "-n", "-c", "-L x", "-U random", "-S", "-t ext2", "-E discard", "-E offset=1024", "-E root_owner=0:0", "-J device=/dev/sda", "-O journal_dev",
			"-O encrypt", "-i", "-i x", "-i 1 -F", "-i 1,", "-O a", "/dev/sda", "-i  1", "-m 100%", "-e panic",
		},
		XFS:    {"-f", "-K", "-L x", "-m uuid=x", "-m crc=0", "-l logdev=/dev/sda", "-r rtdev=/dev/sda", "-d name=/dev/sda", "-d file=1", "-p proto", "-c options=/etc/passwd", "-s size=512"},
		Btrfs:  {"-f", "-K", "-U x", "-L x", "-r /etc", "--rootdir /etc", "-b 1g", "-d raid1", "-O zoned", "-O raid-stripe-tree", "-V", "-M x"},
		"vfat": {"-i 65536"},
	} {
		for _, o := range options {
			if parsed, err := ParseMkfsOptions(fsType, []string{o}); !errors.Is(err, ErrOption) {
				t.Errorf("%s %q: %v, %v", fsType, o, parsed, err)
			}
		}
	}
}

func TestCheckClassOptions(t *testing.T) {
	for _, c := range []struct {
		fsType, option string
		ok             bool
	}{
		{Ext4, "noatime", true},
		{Ext4, "data=ordered", true},
		{XFS, "allocsize=64k", true},
		{Btrfs, "compress=zstd:3", true},
		{Ext4, "ro", false},
		{Ext4, "noload", false},
		{XFS, "norecovery", false},
		{Ext4, "suid", false},
		{Ext4, "dev", false},
		{Ext4, "journal_path=/dev/sda", false},
		{XFS, "logdev=/dev/sda", false},
		{Btrfs, "device=/dev/sda", false},
		{XFS, "data=ordered", false},
		{Ext4, "noatime,suid", false},
		{Ext4, "", false},
		{Ext4, "commit=", false},
	} {
		if err := CheckClassOptions(c.fsType, []string{c.option}); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrOption) {
			t.Errorf("%s %q: %v", c.fsType, c.option, err)
		}
	}
}
