package share

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// dir is an open directory. Everything below the root of a share is reached from one.
type dir struct{ fd int }

// none is no directory.
var none = dir{-1}

func (d dir) close() {
	if d.fd >= 0 {
		unix.Close(d.fd)
	}
}

// beneath keeps a lookup below the directory, away from symbolic links, and on the same filesystem.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// openat opens what is below the directory.
func (d dir) openat(rel string, flags uint64, mode uint64) (int, error) {
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Openat2(d.fd, rel, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Mode: mode, Resolve: beneath})
		return err
	})
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: rel, Err: err}
	}
	return fd, nil
}

// open opens a directory below this one.
func (d dir) open(rel string) (dir, error) {
	fd, err := d.openat(rel, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	return dir{fd}, err
}

// read reads a small regular file.
func (d dir) read(name string) ([]byte, error) {
	content, _, err := d.file(name)
	return content, err
}

// file reads a small regular file, and tells its inode.
func (d dir) file(name string) (content []byte, inode uint64, err error) {
	fd, err := d.openat(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, 0, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, 0, fmt.Errorf("%s is not a regular file: %w", name, errDamaged)
	}
	content, err = io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err == nil && len(content) > maxRecord {
		err = fmt.Errorf("%s is too large: %w", name, errDamaged)
	}
	return content, st.Ino, err
}

func (d dir) stat() (unix.Stat_t, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstat(d.fd, &st) })
	return st, err
}

// lstat describes what has a name in the directory, whatever it is.
func (d dir) lstat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) })
	if err != nil {
		return st, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return st, nil
}

// inode is the number of the directory that has a name here. Anything but a directory on the same filesystem is errNotDir.
func (d dir) inode(rel string) (uint64, error) {
	sub, err := d.open(rel)
	if err != nil {
		return 0, err
	}
	defer sub.close()
	st, err := sub.stat()
	return st.Ino, err
}

// names reads some names of the directory, from its beginning.
func (d dir) names(limit int) ([]string, error) {
	again, err := d.open(".")
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(again.fd), ".")
	defer f.Close()
	names, err := f.Readdirnames(limit)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

// entry is the inode of a name, as the directory itself lists it, if that is a directory.
func (d dir) entry(name string) (uint64, error) {
	found, err := d.search(name, func(l listed) bool { return l.name == name })
	if err == nil && found.kind != unix.DT_DIR && found.kind != unix.DT_UNKNOWN {
		err = &fs.PathError{Op: "list", Path: name, Err: unix.ENOTDIR}
	}
	return found.inode, err
}

// listed is one entry of a directory, as the directory itself lists it. What the kernel remembers of the name plays no part: after a rename it
// remembers what it renamed, even if something else had the name on the server.
type listed struct {
	name  string
	inode uint64
	kind  byte
}

// search finds the first entry that matches; what says what is searched for.
func (d dir) search(what string, match func(listed) bool) (listed, error) {
	again, err := d.open(".")
	if err != nil {
		return listed{}, err
	}
	defer again.close()
	buffer := make([]byte, 64<<10)
	for {
		n := 0
		err := retry(func() (err error) {
			n, err = unix.Getdents(again.fd, buffer)
			return err
		})
		if err != nil {
			return listed{}, &fs.PathError{Op: "list", Path: what, Err: err}
		}
		if n == 0 {
			return listed{}, &fs.PathError{Op: "list", Path: what, Err: unix.ENOENT}
		}
		for rest := buffer[:n]; len(rest) > 0; {
			inode, kind, name, size := listing(rest)
			if size == 0 {
				return listed{}, fmt.Errorf("list %s: %w", what, errDamaged)
			}
			rest = rest[size:]
			if found := (listed{name, inode, kind}); match(found) {
				return found, nil
			}
		}
	}
}

// listing reads one entry of a directory: 8 bytes inode, 8 bytes offset, 2 bytes size, 1 byte kind, and the name.
func listing(b []byte) (inode uint64, kind byte, name string, size int) {
	const header = 19
	if len(b) < header {
		return 0, 0, "", 0
	}
	size = int(binary.NativeEndian.Uint16(b[16:]))
	if size < header || size > len(b) {
		return 0, 0, "", 0
	}
	name, _, _ = strings.Cut(string(b[header:size]), "\x00")
	return binary.NativeEndian.Uint64(b), b[18], name, size
}

// retry repeats a call that a signal interrupted, or that the kernel asks to repeat because of a rename elsewhere.
func retry(call func() error) error {
	for tries := 1; ; tries++ {
		err := call()
		if tries == maxTries || !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return err
		}
	}
}

const maxTries = 1000

// parent cuts a directory into the one that it is in, "" for the root, and its own name.
func parent(directory string) (in, name string) {
	i := strings.LastIndexByte(directory, '/')
	if i < 0 {
		return "", directory
	}
	return directory[:i], directory[i+1:]
}

// maxMarks bounds how many names are read at once of what may be the marks of a share. A pod can make as many as it likes.
const maxMarks = 128

// inhabited reports whether the directory is the root of a share, exported from inside of another one, that has volumes. What cannot be the
// marks of a share is a file like any other.
func (d dir) inhabited() (bool, error) {
	content, err := d.read(sharedvolume.MarkDirectory + "/" + idFile)
	if isMissing(err) || isOther(err) || errors.Is(err, errDamaged) {
		return false, nil
	}
	var i identity
	if err != nil || json.Unmarshal(content, &i) != nil || i.ID == "" || sharedvolume.CheckShareID(i.ID) != nil {
		return false, err
	}
	owners, err := d.some(sharedvolume.MarkDirectory + "/" + volumesDir)
	for _, owner := range owners {
		if sharedvolume.CheckOwner(owner) != nil {
			continue
		}
		names, err := d.some(sharedvolume.MarkDirectory + "/" + volumesDir + "/" + owner)
		held := slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, suffix) })
		if err != nil || held {
			return held, err
		}
	}
	return false, err
}

// some reads some names of a directory below this one; there are none in what is no directory.
func (d dir) some(rel string) ([]string, error) {
	sub, err := d.open(rel)
	if isMissing(err) || isOther(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer sub.close()
	return sub.names(maxMarks)
}

// nested is the refusal to remove or rename what another share is in.
func nested(what string, held bool) error {
	if !held {
		return nil
	}
	return fmt.Errorf("in %s there is a share of its own, whose volumes are on record in its %s: delete those first, or move that share out of it: %w",
		what, sharedvolume.MarkDirectory, sharedvolume.ErrState)
}
