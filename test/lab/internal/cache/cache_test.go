package cache

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func TestEnsure_fillsOnceForParallelCallers(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var fills atomic.Int32
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			dir, err := Ensure("thing-1", func(dir string) error {
				fills.Add(1)
				return os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644)
			})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(dir, "f")); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if fills.Load() != 1 {
		t.Errorf("filled %d times", fills.Load())
	}
}

func TestEnsure_failureLeavesNothing(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	boom := errors.New("boom")
	if _, err := Ensure("thing-1", func(string) error { return boom }); !errors.Is(err, boom) {
		t.Fatalf("error = %v, want boom", err)
	}
	dir, err := Ensure("thing-1", func(dir string) error {
		left, err := os.ReadDir(dir)
		if len(left) != 0 {
			t.Errorf("the directory to fill holds %v", left)
		}
		return err
	})
	if err != nil || !exists(dir) {
		t.Errorf("a failed fill blocks the next: %v", err)
	}
}

func TestHash_partsDoNotRunTogether(t *testing.T) {
	if Hash("ab", "c") == Hash("a", "bc") {
		t.Error("different parts have one hash")
	}
}
