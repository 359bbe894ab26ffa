package filesystem

import (
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	if names := Names(); names[0] != Default || !slices.Contains(names, XFS) || !slices.Contains(names, Btrfs) || len(names) != 3 {
		t.Errorf("%v", names)
	}
}

func TestLeast(t *testing.T) {
	if Least(Ext4) != 0 || Least(XFS) != 300<<20 || Least(Btrfs) != 109<<20 || Least("vfat") != 0 {
		t.Errorf("%d, %d, %d", Least(Ext4), Least(XFS), Least(Btrfs))
	}
}
