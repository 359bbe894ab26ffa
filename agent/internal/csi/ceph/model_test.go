package ceph_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/csi/ceph"
	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/agent/internal/host/cephfs"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/cephvolume"
)

const (
	fsid = "7a1c6d1e-0000-4000-8000-000000000001"
	key  = "AQBDzQVrmkueLhAAX1mFwjHJGUCpFWeoSk/A1w=="
)

// model is a node and a Ceph cluster: which volumes there are, what of them is mounted, and whether Ceph answers.
type model struct {
	*mount.Fake
	mu sync.Mutex
	// paths of the volumes, by handle.
	paths map[string]string
	// down: no daemon answers. dirty: mounts have writes that wait for Ceph. detaches: the kernel takes a mount away before it waits.
	down, dirty, detaches bool
	used                  map[string]bool
	// next numbers the mounts: those up to evicted are of clients that Ceph shut out.
	next, evicted uint32
	attached      []cephfs.Volume
	waiting       map[string]bool
	log           *logs
}

// logs keeps everything that is logged.
type logs struct {
	logr.LogSink
	mu    sync.Mutex
	lines []string
}

func (l *logs) Init(logr.RuntimeInfo)                 {}
func (l *logs) Enabled(int) bool                      { return true }
func (l *logs) WithValues(v ...any) logr.LogSink      { l.write(v); return l }
func (l *logs) WithName(string) logr.LogSink          { return l }
func (l *logs) Info(_ int, msg string, v ...any)      { l.write(append(v, msg)) }
func (l *logs) Error(err error, msg string, v ...any) { l.write(append(v, msg, err)) }
func (l *logs) write(v []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%+v", v))
}

// Attach mounts a volume that exists.
func (m *model) Attach(_ context.Context, v cephfs.Volume, place *os.File) error {
	m.mu.Lock()
	m.attached = append(m.attached, v)
	path, there := m.paths[v.ID.String()]
	down, waits := m.down, m.waiting[v.ID.String()]
	m.next++
	number := mount.Device{Minor: m.next}
	m.mu.Unlock()
	switch {
	case waits:
		return fmt.Errorf("an earlier mount still has to write: %w", cephfs.ErrBusy)
	case down:
		return fmt.Errorf("%w: no monitor answered", cephfs.ErrUnreachable)
	case v.Credential.Key.Reveal() != key:
		return fmt.Errorf("%w: the monitors do not take the key", cephfs.ErrRefused)
	case !there || path != v.Path:
		return fmt.Errorf("path %s: %w", v.Path, os.ErrNotExist)
	}
	return m.MountTree(mount.Point{
		Path: place.Name(), FSType: "ceph", Source: cephfs.Source(v.ID, v.Path), Filesystem: number, ReadOnly: slices.Contains(v.Options, "ro"),
	})
}

// Unmount takes a mount away, and waits where the kernel would.
func (m *model) Unmount(_ context.Context, at cephfs.Mounted) error {
	path := filepath.Join(at.Dir.Name(), at.Name)
	m.mu.Lock()
	waits, detaches, used := m.down && m.dirty, m.detaches, m.used[path]
	if waits {
		m.waiting[at.Volume] = true
	}
	m.mu.Unlock()
	switch {
	case used:
		return cephfs.ErrInUse
	case waits && detaches:
		return errors.Join(cephfs.ErrHangs, m.Fake.Unmount(path))
	case waits:
		return cephfs.ErrHangs
	}
	return m.Fake.Unmount(path)
}

// Measure asks Ceph.
func (m *model) Measure(_ context.Context, at cephfs.Mounted) (cephfs.Usage, error) {
	points, err := m.Points()
	if err != nil {
		return cephfs.Usage{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := mount.Top(points, filepath.Join(at.Dir.Name(), at.Name))
	switch {
	case m.down:
		return cephfs.Usage{}, cephfs.ErrUnreachable
	case !ok:
		return cephfs.Usage{}, os.ErrNotExist
	case m.evicted >= max(p.Filesystem.Minor, 1):
		return cephfs.Usage{}, cephfs.ErrShutOut
	}
	return cephfs.Usage{TotalBytes: 100, UsedBytes: 40, FreeBytes: 60, UsedInodes: 7}, nil
}

func (m *model) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// kernel is the model's mounts without the Fake's Unmount, which has another form.
type kernel struct{ m *model }

func (k kernel) Attach(ctx context.Context, v cephfs.Volume, place *os.File) error {
	return k.m.Attach(ctx, v, place)
}

func (k kernel) Unmount(ctx context.Context, at cephfs.Mounted) error { return k.m.Unmount(ctx, at) }

func (k kernel) Measure(ctx context.Context, at cephfs.Mounted) (cephfs.Usage, error) {
	return k.m.Measure(ctx, at)
}

// rig is a driver over a model, with a volume.
type rig struct {
	*csitest.Client
	*model
	handle string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := csitest.KubeletDir(t)
	m := &model{
		Fake:  mount.NewFake(dir, func(string) (mount.Device, error) { return mount.Device{}, os.ErrNotExist }),
		paths: map[string]string{}, used: map[string]bool{}, waiting: map[string]bool{}, log: &logs{},
	}
	log := logr.New(m.log)
	r := &rig{model: m, Client: csitest.Start(t, csi.Config{
		NodeName: "node-1", Version: "test", KubeletDir: dir, Log: log, Mounter: m.Fake, Places: m.Fake,
		Source: ceph.New(ceph.Config{Mounts: kernel{m}, Places: m.Fake, Table: m.Fake, Log: log}),
	})}
	r.Secrets = map[string]string{cephname.KeyUser: cephname.ClientUser, cephname.KeySecret: key, cephvolume.SecretMonitors: "10.0.0.9:3300"}
	r.handle = r.add("pvc-11111111-2222-4333-8444-555555555555")
	return r
}

// add makes a volume.
func (r *rig) add(name string) string {
	id := cephvolume.ID{FSID: fsid, Name: name}
	path := cephname.GroupPath + "/" + name + "/" + fsid
	r.set(func() { r.paths[id.String()] = path })
	r.Context[id.String()] = cephvolume.Attributes{Path: path, Monitors: []string{"10.0.0.1:3300"}}.Map()
	return id.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%s: code %s (%v), want %s", what, got, err, want)
	}
}

// wantMounts are the mounts below the kubelet's directory, in the order of mounting.
func (r *rig) wantMounts(t *testing.T, want ...string) {
	t.Helper()
	if got := csitest.MountedBelow(t, r.Dir, r); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("mounts %q, want %q", got, want)
	}
}
