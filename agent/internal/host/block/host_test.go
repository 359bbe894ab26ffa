//go:build hostroot

package block

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestHost_kernelEventOfALoopDevice(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	h := New(Config{WithoutUdev: true})
	ch, err := h.Uevents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	img := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(img, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "-f", "--show", img).Output()
	if err != nil {
		t.Skipf("losetup: %v", err)
	}
	dev := strings.TrimSpace(string(out))
	began := time.Now()
	expectSignal(t, ch, "a device attached")
	t.Logf("signal after %v", time.Since(began))
	devices, err := h.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, d := range devices {
		if d.Node == dev {
			found = true
			if d.Type != "loop" || d.SizeBytes != 1<<20 || len(d.Unreadable) > 0 || d.Major != 7 {
				t.Errorf("%+v", d)
			}
		}
	}
	if !found {
		t.Errorf("no %s in %+v", dev, devices)
	}
	if err := exec.Command("losetup", "-d", dev).Run(); err != nil {
		t.Error(err)
	}
}
