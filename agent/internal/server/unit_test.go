package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/internal/apply"
	"quarry.storage/quarry/agent/internal/plan"
)

func TestToStatus(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want codes.Code
	}{
		{nil, codes.OK},
		{fmt.Errorf("x: %w", errInvalid), codes.InvalidArgument},
		{fmt.Errorf("x: %w", plan.ErrInvalid), codes.InvalidArgument},
		{fmt.Errorf("x: %w", plan.ErrBusy), codes.Aborted},
		{errStopping, codes.Unavailable},
		{plan.ErrNotOurs, codes.PermissionDenied},
		{plan.ErrAlreadyExists, codes.AlreadyExists},
		{plan.ErrNotFound, codes.NotFound},
		{&plan.MismatchError{}, codes.FailedPrecondition},
		{&plan.NotCleanError{}, codes.FailedPrecondition},
		{&plan.HasVolumesError{}, codes.FailedPrecondition},
		{plan.ErrHoldsData, codes.FailedPrecondition},
		{plan.ErrLastDevice, codes.FailedPrecondition},
		{plan.ErrPartial, codes.FailedPrecondition},
		{&apply.StepError{Step: plan.RemoveVG{}, Err: plan.ErrRefused}, codes.FailedPrecondition},
		{&apply.StepError{Step: plan.RemoveVG{}, Err: errors.New("exit status 5")}, codes.Internal},
		{errors.Join(plan.ErrNotFound, plan.ErrInvalid), codes.InvalidArgument},
		{context.Canceled, codes.Canceled},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{status.Error(codes.Unauthenticated, "x"), codes.Unauthenticated},
	} {
		if got := status.Code(toStatus(tt.err)); got != tt.want {
			t.Errorf("%v: code %s, want %s", tt.err, got, tt.want)
		}
	}
}

func TestLocks(t *testing.T) {
	var l locks
	unlock, err := l.tryLock("group a", "device x", "group a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.tryLock("group b", "device y")
	if err != nil {
		t.Fatalf("another group and device: %v", err)
	}
	if _, err := l.tryLock("device z", "device x"); !errors.Is(err, plan.ErrBusy) {
		t.Errorf("a device that is taken: %v", err)
	}
	if free, err := l.tryLock("device z"); err != nil {
		t.Errorf("a refused call kept a lock: %v", err)
	} else {
		free()
	}
	unlock()
	other()
	if again, err := l.tryLock("group a", "device x"); err != nil {
		t.Errorf("after unlock: %v", err)
	} else {
		again()
	}
}

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
	if _, err := keys("/dev/out", false); !errors.Is(err, errInvalid) {
		t.Errorf("link that leaves /dev: %v", err)
	}
	if _, err := keys("/dev/loop", false); err == nil {
		t.Error("a link that cannot be followed is accepted")
	}
}

func TestValidIdentity(t *testing.T) {
	good := plan.Identity{Path: "/dev/disk/by-id/x", SizeBytes: 1, Digest: "d"}
	if err := validIdentity(good, true); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*plan.Identity){
		"path":    func(id *plan.Identity) { id.Path = "/dev/../x" },
		"size":    func(id *plan.Identity) { id.SizeBytes = 0 },
		"digest":  func(id *plan.Identity) { id.Digest = "" },
		"control": func(id *plan.Identity) { id.Serial = "a\nb" },
		"long":    func(id *plan.Identity) { id.WWN = string(make([]byte, 1000)) },
	} {
		id := good
		change(&id)
		if err := validIdentity(id, true); !errors.Is(err, errInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
