package node

import (
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
