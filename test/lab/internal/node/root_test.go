package node

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// A node that boots again may find the links of before.
func TestLinkDescriptors(t *testing.T) {
	dev := t.TempDir()
	for range 2 {
		if err := linkDescriptors(dev); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("sh", "-c", `echo read | cat "$0"; echo read | cat "$1"`, filepath.Join(dev, "stdin"), filepath.Join(dev, "fd", "0")).CombinedOutput()
	if err != nil || string(out) != "read\nread\n" {
		t.Errorf("%q, %v", out, err)
	}
}
