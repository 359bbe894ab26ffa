package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Kinds of failures, for errors.Is.
var (
	// ErrUnsafe means that a path is not below the tree's root, or goes through a symbolic link.
	ErrUnsafe = errors.New("path is not safe")
	// ErrKind means that something else than expected is at a path.
	ErrKind = errors.New("something else is there")
)

// Tree is a directory, and the paths below it that go through no symbolic link. Every path is opened afresh, from the root on;
// what is done to it is done through the open directory, so that nobody can put a link in between.
type Tree struct{ root string }

// NewTree makes a Tree. The way to the root itself is trusted, and may have links.
func NewTree(root string) Tree { return Tree{root: root} }

// resolve is the path of inside a safe path.
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// Check refuses a path that is not safe, and returns the path as the kernel's mount table has it. What does not exist is safe. Nothing of
// what is mounted at the path is read: it may be a share whose server is gone.
func (t Tree) Check(path string) (string, error) {
	root, rel, err := t.split(path)
	if err != nil {
		return "", err
	}
	f, err := openAt(root, rel, unix.O_PATH)
	switch {
	case err == nil:
		f.Close()
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
	default:
		return "", err
	}
	return filepath.Join(root, rel), nil
}

// split checks the form of a path: absolute, clean, below the root.
func (t Tree) split(path string) (root, rel string, err error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) || len(path) >= unix.PathMax {
		return "", "", fmt.Errorf("%w: %.300q is not an absolute, clean path", ErrUnsafe, path)
	}
	real, err := filepath.EvalSymlinks(t.root)
	if err != nil {
		return "", "", fmt.Errorf("root of the tree: %w", err)
	}
	for _, r := range []string{filepath.Clean(t.root), real} {
		if below, ok := strings.CutPrefix(path, strings.TrimSuffix(r, "/")+"/"); ok && below != "" {
			return real, below, nil
		}
	}
	return "", "", fmt.Errorf("%w: %.300q is not below %s", ErrUnsafe, path, t.root)
}

// open opens a path without following links, for use as a place only.
func (t Tree) open(path string) (*os.File, error) {
	root, rel, err := t.split(path)
	if err != nil {
		return nil, err
	}
	return openAt(root, rel, unix.O_PATH)
}

// parent opens the directory that a path is in.
func (t Tree) parent(path string) (dir *os.File, base string, err error) {
	root, rel, err := t.split(path)
	if err != nil {
		return nil, "", err
	}
	dir, err = openAt(root, filepath.Dir(rel), unix.O_PATH|unix.O_DIRECTORY)
	return dir, filepath.Base(rel), err
}

// Place opens a directory as a place to mount on.
func (t Tree) Place(path string) (*os.File, error) { return t.open(path) }

// Parent opens the directory that a path is in, and returns the path's name there.
func (t Tree) Parent(path string) (dir *os.File, base string, err error) { return t.parent(path) }

func openAt(root, rel string, flags uint64) (*os.File, error) {
	at, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(at)
	path := filepath.Join(root, rel)
	for {
		fd, err := unix.Openat2(at, rel, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: resolve})
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), path), nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			// The kernel could not tell whether a rename somewhere took the path out of the tree: it asks to try again.
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
			return nil, fmt.Errorf("%w: %.300q goes through a symbolic link", ErrUnsafe, path)
		default:
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// MakeDir makes a directory, unless it is there. The directory that it is in has to exist.
func (t Tree) MakeDir(path string) error {
	return t.in(path, func(dir int, base string) error {
		err := unix.Mkdirat(dir, base, 0o750)
		if errors.Is(err, unix.EEXIST) {
			return expectKind(dir, base, unix.S_IFDIR)
		}
		return err
	})
}

// MakeFile makes an empty file for a device node to be mounted on, unless it is there.
func (t Tree) MakeFile(path string) error {
	return t.in(path, func(dir int, base string) error {
		fd, err := unix.Openat(dir, base, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if errors.Is(err, unix.EEXIST) {
			return expectKind(dir, base, unix.S_IFREG)
		}
		if err != nil {
			return err
		}
		return unix.Close(fd)
	})
}

// Remove removes an empty directory or an empty file, and nothing else. What is not there is removed.
func (t Tree) Remove(path string) error {
	err := t.in(path, func(dir int, base string) error {
		var st unix.Stat_t
		if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		switch {
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			return unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
		case st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == 0:
			return unix.Unlinkat(dir, base, 0)
		}
		return fmt.Errorf("%w: neither an empty file nor a directory", ErrKind)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// in calls f with the open directory that the path is in.
func (t Tree) in(path string, f func(dir int, base string) error) error {
	dir, base, err := t.parent(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := f(int(dir.Fd()), base); err != nil {
		return fmt.Errorf("path %s: %w", path, err)
	}
	return nil
}

func expectKind(dir int, base string, want uint32) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	// A device node may be mounted on the file already.
	if kind := st.Mode & unix.S_IFMT; kind != want && (want != unix.S_IFREG || kind != unix.S_IFBLK) {
		return ErrKind
	}
	return nil
}
