package lvm

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestPrune: what is old of a group that was removed goes; nothing of a group that may come back, and nothing that LVM did not write.
func TestPrune(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	if err := prune(dir, now); err != nil {
		t.Errorf("before LVM ever ran: %v", err)
	}
	for name, age := range map[string]time.Duration{
		"archive/gone_00001-123.vg":     keepArchives + time.Hour,
		"archive/gone_00002-9.vg":       keepArchives - time.Hour,
		"archive/there_00001-5.vg":      keepArchives + time.Hour,
		"archive/two_parts_00000-77.vg": keepArchives + time.Hour,
		"archive/notes.txt":             keepArchives + time.Hour,
		"backup/there":                  0,
		"backup/gone_00003":             0,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := prune(dir, now); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "archive"))
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{"gone_00002-9.vg", "notes.txt", "there_00001-5.vg"}; !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
}
