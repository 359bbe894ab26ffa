// Package ceph runs Ceph's own programs, out of a container that has them: those of the version whose daemons will use what they make. The processes
// are this agent's, with its rights, and see the files of the container. The package knows neither whose disks it writes to nor whether it may: it
// does what it is told, after the caller's own check.
package ceph

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/osd"
)

// Why nothing was started, for errors.Is.
var (
	// ErrNoContainer means that the container does not run on this node, or is not one that can be told from others.
	ErrNoContainer = errors.New("no such container on this node")
	// ErrOtherDevice means that the path of the device leads elsewhere in the container than it does for the caller, or to nothing.
	ErrOtherDevice = errors.New("the container sees another device there")
	// ErrNoEncryption means that a program that encrypts disks lacks in the container, or that part of the kernel of this node.
	ErrNoEncryption = errors.New("disks cannot be encrypted here")
)

// Config is what a Tool works with.
type Config struct {
	Runner run.Runner
	// Proc is where the host's processes are seen; empty for /proc.
	Proc string
	// Kernel reports whether the kernel of this node has a part, by the name of its module, or can load it. Only encrypted OSDs need it.
	Kernel func(ctx context.Context, module string) (bool, error)
	// Number returns the device number of the block device under a path below a root directory; nil for what the kernel says.
	Number func(root *os.Root, path string) (uint64, error)
}

// Tool runs programs of Ceph, one at a time: each takes up to 200 MiB, out of what the agent has. Its methods are safe for concurrent use.
type Tool struct {
	cfg  Config
	turn chan struct{}
}

// New makes a Tool.
func New(cfg Config) *Tool {
	if cfg.Proc == "" {
		cfg.Proc = "/proc"
	}
	if cfg.Number == nil {
		cfg.Number = number
	}
	return &Tool{cfg: cfg, turn: make(chan struct{}, 1)}
}

// Make says which OSD is made, and where.
type Make struct {
	// Container is the ID of the container with the programs, 64 hexadecimal digits.
	Container string
	// UUID of the OSD, and FSID of the Ceph cluster.
	UUID, FSID string
	// ID is the number of the OSD.
	ID int
	// Device is the path of the disk, which the container has to see under the same path.
	Device string
	// Number is the device number of the disk that the caller has looked at.
	Number uint64
}

// program is where Ceph's packages and images have it.
const program = "/usr/bin/ceph-osd"

// Mkfs makes a device an OSD, whatever is on it: ceph-osd overwrites another OSD, and even the same one when that is finished, without a word. The
// caller has looked. It opens the device exclusively, so that two of them never write to one disk. From its first write on the device carries the label of
// the OSD, and it can be killed at any instant and repeated.
func (t *Tool) Mkfs(ctx context.Context, m Make) error {
	if err := m.check(); err != nil {
		return fmt.Errorf("make OSD: %w", err)
	}
	in, err := t.enter(ctx, m.Container)
	if err != nil {
		return fmt.Errorf("make osd.%d: %w", m.ID, err)
	}
	defer in.leave()
	if err := t.sees(in, m.Device, m.Number); err != nil {
		return fmt.Errorf("make osd.%d: %w", m.ID, err)
	}
	dir := "tmp/quarry-osd-" + m.UUID
	// What a call that was killed left there is of another OSD for Ceph.
	if err := errors.Join(in.files.RemoveAll(dir), in.files.Mkdir(dir, 0o700)); err != nil {
		return fmt.Errorf("make osd.%d: directory in the container: %w", m.ID, err)
	}
	defer in.files.RemoveAll(dir) //nolint:errcheck // The OSD is on its disk; the directory goes with the container at the latest.
	_, err = t.cfg.Runner.Run(ctx, run.Command{Path: program, Args: m.args("/" + dir), Root: in.path})
	if err != nil {
		return fmt.Errorf("make osd.%d on %s: %w", m.ID, m.Device, err)
	}
	return nil
}

// inside is the inside of a container, while it is this one's turn there.
type inside struct {
	root  *os.File
	files *os.Root
	// path leads to its root directory.
	path  string
	leave func()
}

// enter waits for its turn, and opens the root directory of the container.
func (t *Tool) enter(ctx context.Context, container string) (*inside, error) {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	root, err := t.root(container)
	if err != nil {
		<-t.turn
		return nil, err
	}
	files, err := os.OpenRoot(path(root))
	if err != nil {
		root.Close()
		<-t.turn
		return nil, err
	}
	return &inside{root: root, files: files, path: path(root), leave: func() {
		_ = files.Close() // What was written through it was closed before.
		root.Close()
		<-t.turn
	}}, nil
}

// sees returns an error unless the container sees the device of that number under the path.
func (t *Tool) sees(in *inside, device string, want uint64) error {
	seen, err := t.cfg.Number(in.files, strings.TrimPrefix(device, "/"))
	if err != nil {
		return fmt.Errorf("%s: %w: %w", device, ErrOtherDevice, err)
	}
	if seen != want {
		return fmt.Errorf("%s: %w: number %#x, not %#x", device, ErrOtherDevice, seen, want)
	}
	return nil
}

// Find returns nil if the container with the programs runs on this node, and ErrNoContainer if it does not.
func (t *Tool) Find(container string) error {
	root, err := t.root(container)
	if err != nil {
		return err
	}
	return root.Close()
}

// number is the device number of the block device that stands under a path.
func number(root *os.Root, path string) (uint64, error) {
	info, err := root.Stat(path)
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&os.ModeType != os.ModeDevice {
		return 0, fmt.Errorf("%s is no block device, but %s", path, info.Mode())
	}
	return st.Rdev, nil
}

// args are those of ceph-osd. No key is among them, and no monitor is asked.
func (m Make) args(dir string) []string {
	return []string{
		// Without it a process of its own does the work, in a session of its own, which outlives the one that is killed.
		"--foreground",
		"--mkfs", "--id", strconv.Itoa(m.ID), "--osd-uuid", m.UUID, "--fsid", m.FSID,
		"--osd-objectstore", "bluestore", "--bluestore-block-path", m.Device, "--osd-data", dir,
		// Without it a device that went away becomes a file of that name in the container.
		"--bluestore-block-create=false",
		"--no-mon-config", "--conf", "/dev/null", "--admin-socket=", "--run-dir", dir, "--crash-dir", dir,
		"--log-file=", "--log-to-file=false", "--log-to-stderr=false", "--err-to-stderr=true",
	}
}

func (m Make) check() error {
	switch {
	case !osd.ValidUUID(m.UUID) || !osd.ValidUUID(m.FSID):
		return fmt.Errorf("%q or %q is no UUID", m.UUID, m.FSID)
	case m.ID < 0:
		return fmt.Errorf("the number %d", m.ID)
	case !strings.HasPrefix(m.Device, "/dev/") || filepath.Clean(m.Device) != m.Device:
		return fmt.Errorf("the device %q", m.Device)
	}
	return nil
}
