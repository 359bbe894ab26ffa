//go:build hostroot

package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/agenttest/conformance"
	"quarry.storage/quarry/agent/internal/host/dm"
)

// TestRealHost_zeroing: nothing is written over a volume that somebody else has open exclusively, over another one of the same name, over what lies
// beyond, or after the call has ended.
func TestRealHost_zeroing(t *testing.T) {
	onRealHost(t, func(t *testing.T, node conformance.Node) {
		n := node.(*realNode)
		if n.withoutDM {
			t.Skip("this kernel has no device-mapper, so there is no volume to zero; make conformance runs it on one that has")
		}
		const group, name, size, text = "quarry-zeroing", "v-1", 8 << 20, "somebody's data "
		n.Reset(t)
		defer n.Reset(t)
		n.ForeignGroup(t, group, n.paths[0])
		n.lvm(t, "lvcreate", "-y", "-L", "8m", "-n", name, group)
		devices := dm.New(dm.Config{})
		d, err := devices.Find(group, name)
		if err != nil {
			t.Fatal(err)
		}
		n.fill(t, d.Path, text)
		right := dm.Volume{Group: group, GroupUUID: d.UUID[4:36], Name: name, UUID: d.UUID[36:]}
		other := right
		other.UUID = other.GroupUUID
		f, err := os.OpenFile(d.Path, os.O_RDONLY|unix.O_EXCL, 0)
		if err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		for what, err := range map[string][2]error{
			"open":     {devices.Zero(t.Context(), right, 0, size), dm.ErrInUse},
			"another":  {errors.Join(f.Close(), devices.Zero(t.Context(), other, 0, size)), dm.ErrNotLVM},
			"unnamed":  {devices.Zero(t.Context(), dm.Volume{Group: group, Name: name}, 0, size), dm.ErrNotLVM},
			"too long": {devices.Zero(t.Context(), right, 0, size+512), dm.ErrNotLVM},
			"absent":   {devices.Zero(t.Context(), dm.Volume{Group: group, Name: "x"}, 0, size), dm.ErrNotFound},
			"ended":    {devices.Zero(ended, right, 0, size), context.Canceled},
		} {
			if !errors.Is(err[0], err[1]) {
				t.Errorf("%s: %v", what, err[0])
			}
		}
		want := bytes.Repeat([]byte(text), size/len(text))
		if got, err := os.ReadFile(d.Path); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("what was refused has an effect: %v", err)
		}
		if err := devices.Zero(t.Context(), right, 1<<20, 3<<20); err != nil {
			t.Fatal(err)
		}
		clear(want[1<<20 : 3<<20])
		if got, err := os.ReadFile(d.Path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("not exactly that part is zeroed: %v", err)
		}
	})
}

// TestRealHost_discard: only the range of that volume is discarded, and nothing that somebody else has open exclusively. What a disk of the lab discarded reads as zero.
func TestRealHost_discard(t *testing.T) {
	onRealHost(t, func(t *testing.T, node conformance.Node) {
		n := node.(*realNode)
		if n.withoutDM {
			t.Skip("this kernel has no device-mapper, so there is no volume to discard; make conformance runs it on one that has")
		}
		const group, name, size, text = "quarry-discard", "v-1", 8 << 20, "somebody's data "
		n.Reset(t)
		defer n.Reset(t)
		n.ForeignGroup(t, group, n.paths[0])
		n.lvm(t, "lvcreate", "-y", "-L", "8m", "-n", name, group)
		devices := dm.New(dm.Config{})
		d, err := devices.Find(group, name)
		if err != nil {
			t.Fatal(err)
		}
		n.fill(t, d.Path, text)
		right := dm.Volume{Group: group, GroupUUID: d.UUID[4:36], Name: name, UUID: d.UUID[36:]}
		other := right
		other.UUID = other.GroupUUID
		f, err := os.OpenFile(d.Path, os.O_RDONLY|unix.O_EXCL, 0)
		if err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		for _, c := range []struct {
			what      string
			err, want error
		}{
			{"open", devices.Discard(t.Context(), right, 0, size), dm.ErrInUse},
			{"another", errors.Join(f.Close(), devices.Discard(t.Context(), other, 0, size)), dm.ErrNotLVM},
			{"too long", devices.Discard(t.Context(), right, 0, size+512), dm.ErrNotLVM},
			{"ended", devices.Discard(ended, right, 0, size), context.Canceled},
		} {
			if !errors.Is(c.err, c.want) {
				t.Errorf("%s: %v", c.what, c.err)
			}
		}
		want := bytes.Repeat([]byte(text), size/len(text))
		if got, err := os.ReadFile(d.Path); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("what was refused has an effect: %v", err)
		}
		err = devices.Discard(t.Context(), right, 1<<20, 3<<20)
		switch {
		case errors.Is(err, dm.ErrNoDiscard):
			t.Logf("The disk cannot discard: %v.", err)
		case err != nil:
			t.Fatal(err)
		default:
			clear(want[1<<20 : 3<<20])
		}
		if got, err := os.ReadFile(d.Path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("not exactly that part is discarded: %v", err)
		}
	})
}

// WriteVolume fills the device with a text, again and again.
func (n *realNode) WriteVolume(t *testing.T, group, name, text string) {
	t.Helper()
	n.fill(t, "/dev/"+group+"/"+name, text)
}

func (n *realNode) fill(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	chunk := bytes.Repeat([]byte(text), 1<<20/len(text)+1)[:1<<20]
	for at := int64(0); at < size; at += int64(len(chunk)) {
		if _, err := f.WriteAt(chunk[:min(int64(len(chunk)), size-at)], at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// Reads looks for a text in the device.
func (n *realNode) Reads(t *testing.T, group, name, text string) bool {
	t.Helper()
	data, err := os.ReadFile("/dev/" + group + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(data, []byte(text))
}
