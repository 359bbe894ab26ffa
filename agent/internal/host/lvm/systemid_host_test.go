//go:build hostroot

package lvm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/systemid"
)

// TestHost_systemID: LVM keeps the system ID of every node as it is.
func TestHost_systemID(t *testing.T) {
	if _, err := os.Stat(DefaultBinary); err != nil {
		t.Skipf("LVM is not installed: %v", err)
	}
	for _, node := range []string{"n1", "localhost", "localhost.localdomain", "a.b-c", strings.Repeat("a", 121), strings.Repeat("a", 253)} {
		l, err := New(Config{Runner: run.Real{}, Dir: filepath.Join(t.TempDir(), "lvm"), SystemID: systemid.Of(node), WithoutDeviceMapper: true})
		must(t, err)
		if _, err := l.Version(t.Context()); err != nil {
			t.Errorf("node %s: %v", node, err)
		}
	}
	l, err := New(Config{Runner: run.Real{}, Dir: filepath.Join(t.TempDir(), "lvm"), SystemID: strings.Repeat("a", 129), WithoutDeviceMapper: true})
	must(t, err)
	if v, err := l.Version(t.Context()); err == nil {
		t.Errorf("LVM %s cut an ID, and nobody noticed", v)
	}
}
