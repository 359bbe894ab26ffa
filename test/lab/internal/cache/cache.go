// Package cache keeps what the lab builds, one directory per content: a
// directory that exists is complete and never changes again.
package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"quarry.storage/quarry/test/lab/internal/state"
)

// Root is the directory that holds the cache.
func Root() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	return filepath.Join(base, "quarry", "lab"), nil
}

// Ensure returns the directory cached under a key, filling it when it is not
// there: fill gets an empty directory and what it leaves there is kept if it
// succeeds. Parallel callers of one key wait for the first.
func Ensure(key string, fill func(dir string) error) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	final := filepath.Join(root, key)
	if exists(final) {
		return final, nil
	}
	unlock, err := state.LockFile(filepath.Join(root, ".lock-"+key))
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(final) {
		return final, nil
	}
	// The name is the same each time, so that what an interrupted run left is
	// replaced and not collected.
	tmp := filepath.Join(root, ".tmp-"+key)
	if err := os.RemoveAll(tmp); err != nil {
		return "", err
	}
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := fill(tmp); err != nil {
		return "", err
	}
	return final, os.Rename(tmp, final)
}

// Find returns the directory cached under a key; ok is false when there is none
// yet.
func Find(key string) (dir string, ok bool) {
	root, err := Root()
	if err != nil {
		return "", false
	}
	dir = filepath.Join(root, key)
	return dir, exists(dir)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Hash names contents: the same parts give the same short text.
func Hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// HashFiles names the contents of files, in the given order.
func HashFiles(paths ...string) (string, error) {
	h := sha256.New()
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			return "", err
		}
		n, err := io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, ":%d\n", n)
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}
