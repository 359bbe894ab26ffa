package mount

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func newTree(t *testing.T) (Tree, string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"a/b", "full"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"empty", "full/file"} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(file)[:len(file)-len("empty")], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"inside": "a", "outside": "/etc", "proc": "/proc/self/root", "loop": "loop", "a/up": ".."} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	return NewTree(root), root
}

func TestTree_Check(t *testing.T) {
	tree, root := newTree(t)
	for path, ok := range map[string]bool{
		"/a": true, "/a/b": true, "/a/b/new": true, "/new/new": true, "/empty": true, "/empty/below": true, "/.hidden": true, "/..a": true,
		"": false, "/": false, "/.": false, "/..": false, "/a/..": false, "/a/../a": false, "//a": false, "/a/": false, "/a\x00": false,
		"/inside": false, "/inside/b": false, "/outside": false, "/outside/passwd": false, "/proc/etc": false, "/loop": false, "/a/up/a": false,
	} {
		got, err := tree.Check(root + path)
		if ok && (err != nil || got != root+path) {
			t.Errorf("%q: got %q, %v", path, got, err)
		}
		if !ok && !errors.Is(err, ErrUnsafe) {
			t.Errorf("%q: got %q, %v", path, got, err)
		}
	}
	for _, path := range []string{"relative", "", root + "x/a", "/etc"} {
		if got, err := tree.Check(path); !errors.Is(err, ErrUnsafe) {
			t.Errorf("%q: got %q, %v", path, got, err)
		}
	}
}

func TestTree_Check_followsTheWayToTheRoot(t *testing.T) {
	_, root := newTree(t)
	link := filepath.Join(t.TempDir(), "kubelet")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link + "/a", root + "/a"} {
		if got, err := NewTree(link).Check(path); err != nil || got != root+"/a" {
			t.Errorf("%q: got %q, %v", path, got, err)
		}
	}
}

func TestTree_makesAndRemoves(t *testing.T) {
	tree, root := newTree(t)
	for range 2 {
		if err := errors.Join(tree.MakeDir(root+"/a/dir"), tree.MakeFile(root+"/a/file")); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := errors.Join(tree.Remove(root+"/a/dir"), tree.Remove(root+"/a/file"), tree.Remove(root+"/none/dir")); err != nil {
			t.Fatal(err)
		}
	}
	if err := tree.MakeDir(root + "/none/dir"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("made below nothing: %v", err)
	}
	if err := tree.MakeDir(root + "/empty"); !errors.Is(err, ErrKind) {
		t.Errorf("a file is no directory: %v", err)
	}
	if err := tree.MakeFile(root + "/a"); !errors.Is(err, ErrKind) {
		t.Errorf("a directory is no file: %v", err)
	}
	for _, path := range []string{"/inside/x", "/outside/x"} {
		if err := tree.MakeDir(root + path); !errors.Is(err, ErrUnsafe) {
			t.Errorf("%q: %v", path, err)
		}
		if err := tree.Remove(root + path); !errors.Is(err, ErrUnsafe) {
			t.Errorf("%q: %v", path, err)
		}
	}
	for _, path := range []string{"/full", "/full/file", "/inside"} {
		if err := tree.Remove(root + path); err == nil {
			t.Errorf("%q was removed", path)
		}
		if _, err := os.Lstat(root + path); err != nil {
			t.Error(err)
		}
	}
	if err := tree.MakeDir(root + "/inside"); !errors.Is(err, ErrKind) {
		t.Errorf("a link is no directory: %v", err)
	}
}
