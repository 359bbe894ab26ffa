package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
)

func TestDeviceKeys(t *testing.T) {
	resolve := func(path string) (string, error) {
		switch path {
		case "/dev/disk/by-id/a", "/dev/sda":
			return "/dev/sda", nil
		case "/dev/out":
			return "/etc/passwd", nil
		case "/dev/loop":
			return "", errors.New("too many links")
		}
		return "", fmt.Errorf("lstat: %w", fs.ErrNotExist)
	}
	keys := func(path string, present bool) ([]string, error) {
		return deviceKeys(resolve, []plan.Identity{{Path: path}}, present)
	}
	if got, err := keys("/dev/disk/by-id/a", true); err != nil || got[0] != "device /dev/sda" {
		t.Errorf("link: %q, %v", got, err)
	}
	if _, err := keys("/dev/gone", true); !errors.Is(err, plan.ErrNotFound) {
		t.Errorf("absent: %v", err)
	}
	if got, err := keys("/dev/gone", false); err != nil || got[0] != "device /dev/gone" {
		t.Errorf("absent, and need not be there: %q, %v", got, err)
	}
	if _, err := keys("/dev/out", false); !errors.Is(err, plan.ErrInvalid) {
		t.Errorf("link that leaves /dev: %v", err)
	}
	if _, err := keys("/dev/loop", false); err == nil {
		t.Error("a link that cannot be followed is accepted")
	}
}

// looker is an Observer and a Looker of one disk. It counts the looks, and waits for wait in each.
type looker struct {
	device plan.Device
	looks  int
	err    error
	wait   chan struct{}
	begun  chan struct{}
}

func (l *looker) Observe(context.Context) (plan.Snapshot, error) {
	return plan.Snapshot{Devices: []plan.Device{l.device}}, nil
}

func (l *looker) Watch(context.Context) (<-chan struct{}, error) { return nil, nil }

func (l *looker) Look(_ context.Context, d plan.Device) (plan.Device, error) {
	l.looks++
	if l.wait != nil {
		close(l.begun)
		<-l.wait
	}
	return d, l.err
}

// TestInspectDevice: only the disk that is meant is looked at, one that cannot be opened exclusively is in use, and a look that fails says nothing of it.
func TestInspectDevice(t *testing.T) {
	d := plan.Device{Path: "/dev/disk/by-id/a", KernelName: "sda", Type: "disk", Serial: "S", SizeBytes: 1 << 30, HeadTailZero: true, ContentDigest: "c", Use: plan.Unused}
	id := plan.IdentityOf(d)
	moved, absent, without := id, id, id
	moved.Digest, absent.Path, without.Digest = "another", "/dev/disk/by-id/b", ""
	failed := errors.New("input/output error")
	for name, row := range map[string]struct {
		id    plan.Identity
		err   error
		want  error
		use   plan.Use
		looks int
	}{
		"clean":                         {id, nil, nil, plan.Unused, 1},
		"without a digest":              {without, nil, nil, plan.Unused, 1},
		"something else is on it":       {moved, nil, plan.ErrMismatch, 0, 0},
		"it is not there":               {absent, nil, plan.ErrNotFound, 0, 0},
		"it cannot be opened for us":    {id, plan.ErrTaken, nil, plan.Used, 1},
		"it cannot be looked at, or so": {id, failed, failed, 0, 1},
	} {
		l := &looker{device: d, err: row.err}
		e := New(Config{Observer: l, Looker: l, Resolve: func(path string) (string, error) { return path, nil }})
		got, err := e.InspectDevice(t.Context(), row.id)
		if !errors.Is(err, row.want) || got.Use != row.use || l.looks != row.looks {
			t.Errorf("%s: %+v, %v, after %d looks", name, got, err, l.looks)
		}
	}
	l := &looker{device: d, wait: make(chan struct{}), begun: make(chan struct{})}
	e := New(Config{Observer: l, Looker: l, Resolve: func(path string) (string, error) { return path, nil }})
	first := make(chan error, 1)
	go func() {
		_, err := e.InspectDevice(t.Context(), id)
		first <- err
	}()
	<-l.begun
	if _, err := e.WipeDevice(t.Context(), id); !errors.Is(err, plan.ErrBusy) {
		t.Errorf("a disk is wiped while it is looked at: %v", err)
	}
	close(l.wait)
	if err := <-first; err != nil {
		t.Error(err)
	}
}
