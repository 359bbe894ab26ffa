//go:build hostroot

package csi_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/agenttest/turn"
)

// writeFile makes a file of 2 MiB, whose content its name tells, and returns once it is on the disk.
func writeFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(contentOf(path))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func contentOf(path string) []byte {
	line := fmt.Appendf(nil, "this is in %s\n", filepath.Base(path))
	return bytes.Repeat(line, 2*mib/len(line))
}

// syncDir returns once the names in a directory are on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// fillPool writes files into the volume until the pool has no more room. It returns those that were on the disk before.
func (p thinPool) fillPool(dir string) (synced []string) {
	p.t.Helper()
	for i := range 200 {
		path := filepath.Join(dir, fmt.Sprintf("file-%d", i))
		err := errors.Join(writeFile(path), syncDir(dir))
		switch {
		case err == nil:
			synced = append(synced, path)
			continue
		case !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EIO) && !errors.Is(err, unix.EROFS):
			p.t.Fatalf("after %d files: %v", len(synced), err)
		}
		if used := p.used(); used < 99 || len(synced) < 10 {
			p.t.Fatalf("after %d files, with %.2f %% of the pool in use: %v", len(synced), used, err)
		}
		p.t.Logf("The pool is full after %d files: %v.", len(synced), err)
		return synced
	}
	p.t.Fatal("the pool never got full")
	return nil
}

// hog makes a second volume, all of which is written.
func (p thinPool) hog() {
	p.t.Helper()
	p.lvm("lvcreate", "-V", "48M", "-T", p.group+"/pool", "-n", "hog", "-y")
	f, err := os.OpenFile(p.device("hog"), os.O_WRONLY, 0)
	must(p.t, err)
	_, err = f.Write(bytes.Repeat([]byte("much"), 48*mib/4))
	must(p.t, errors.Join(err, f.Sync(), f.Close()))
}

// TestRealNode_fullPool: a pool gets full under a filesystem. Writers get errors, and what they had synced before stays. Once there is room, in one
// of the ways that docs/thin-pools.md names, and the volume was unmounted, it is mounted and written again.
func TestRealNode_fullPool(t *testing.T) {
	ways := []struct {
		name     string
		makeRoom func(thinPool)
	}{
		{"the pool grows", func(p thinPool) { p.lvm("lvextend", "-L", "400M", p.group+"/pool") }},
		{"a volume is deleted", func(p thinPool) { p.lvm("lvremove", "-y", p.group+"/hog") }},
		{"a snapshot is deleted", func(p thinPool) { p.lvm("lvremove", "-y", p.group+"/snap") }},
	}
	// Each run has every filesystem, and each way of making room.
	for i, fsType := range []string{"ext4", "xfs", "btrfs"} {
		for j, way := range ways {
			t.Run(fsType+", "+way.name, func(t *testing.T) {
				turn.Share(t, i+j, len(ways))
				n := newRealNode(t)
				p := newThin(t, n, 220, 800)
				p.hog()
				if way.name == "a snapshot is deleted" {
					p.lvm("lvcreate", "-s", "-kn", "-n", "snap", p.group+"/hog")
					p.lvm("lvremove", "-y", p.group+"/hog")
				}
				must(t, n.stage(t, p.handle, filesystem(fsType)))
				dir := n.path(t, "staging/globalmount")
				synced := p.fillPool(dir)

				way.makeRoom(p)
				must(t, n.unstage(t, p.handle))
				must(t, n.stage(t, p.handle, filesystem(fsType)))
				defer func() { must(t, n.unstage(t, p.handle)) }()
				for _, path := range synced {
					if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, contentOf(path)) {
						t.Errorf("%s does not hold what was synced: %v", filepath.Base(path), err)
					}
				}
				for i := range 5 {
					if err := writeFile(filepath.Join(dir, fmt.Sprintf("after-%d", i))); err != nil {
						t.Errorf("written after there was room: %v", err)
					}
				}
				if used := p.used(); used > 99 {
					t.Errorf("%.2f %% of the pool are in use", used)
				}
			})
		}
	}
}
