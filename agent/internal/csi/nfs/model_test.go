package nfs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/agent/internal/csi/nfs"
	"quarry.storage/quarry/agent/internal/host/mount"
	hostnfs "quarry.storage/quarry/agent/internal/host/nfs"
	"quarry.storage/quarry/pkg/sharedvolume"
)

const uid = "0f3b2c1d-1111-2222-3333-444455556666"

// model is a node and a server: what is on the share, what of it is mounted, and whether the server answers.
type model struct {
	*mount.Fake
	registry *prometheus.Registry

	mu sync.Mutex
	// volumes are the directories on record, by handle.
	volumes map[string]string
	down    bool
	// stale is the number of the mount that the server does not know.
	stale uint32
	// dirty mounts have writes that wait for the server: an unmount waits too.
	dirty bool
	// hangs makes every unmount wait, whatever the server does.
	hangs bool
	// waits is true while an earlier unmount waits, so that another one is not begun.
	waits bool
	// full is true for a node that starts no more processes: no server can be asked.
	full bool
	// detaches is true for a kernel that takes a mount away before it waits.
	detaches bool
	// used mounts refuse to go.
	used map[string]bool
	// before, if set, is asked before every effect.
	before func(effect string) error
	next   uint32
	forced []string
	asked  []string
}

func newModel(t *testing.T, dir string) *model {
	t.Helper()
	m := &model{
		Fake:    mount.NewFake(dir, func(string) (mount.Device, error) { return mount.Device{}, os.ErrNotExist }),
		volumes: map[string]string{}, used: map[string]bool{}, registry: prometheus.NewRegistry(),
	}
	m.Fake.Fail = func(operation, target string) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.effect(operation + " " + filepath.Base(target))
	}
	return m
}

func (m *model) effect(name string) error {
	if m.before == nil {
		return nil
	}
	return m.before(name)
}

func (m *model) config(t *testing.T, dir string) csi.Config {
	t.Helper()
	return csi.Config{
		NodeName: "node-1", Version: "test", KubeletDir: dir, Log: testr.New(t), Mounter: m, Places: m,
		Source: nfs.New(nfs.Config{Shares: shares{m}, Places: m, Table: m, Log: testr.New(t), Registry: m.registry}),
	}
}

func unreachable() error {
	return sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "The server does not answer. Tried from node node-1.")
}

// shares is what the driver asks of the share.
type shares struct{ *model }

// Attach mounts a directory that is on record.
func (m shares) Attach(_ context.Context, v hostnfs.Volume, place *os.File) error {
	m.mu.Lock()
	if m.down {
		m.mu.Unlock()
		return unreachable()
	}
	directory, ok := m.volumes[v.ID.String()]
	m.next++
	number := mount.Device{Minor: m.next}
	m.mu.Unlock()
	options, err := sharedvolume.ParseOptions(append(v.MountOptions, v.Options...))
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("volume %s has no record on the share: %w", v.Name, os.ErrNotExist)
	case directory != v.Directory:
		return fmt.Errorf("volume %s has directory %q on record: %w", v.Name, directory, sharedvolume.ErrState)
	}
	return m.MountTree(mount.Point{
		Path: place.Name(), FSType: "nfs4", Source: v.Server + ":" + filepath.Join(v.Path, v.Directory), Filesystem: number,
		Options: "rw,vers=4.2,hard,addr=10.0.0.1", ReadOnly: options.ReadOnly(),
	})
}

// Unmount takes a mount away, and waits where the kernel would.
func (m shares) Unmount(_ context.Context, at hostnfs.Mounted, force bool) error {
	if _, err := sharedvolume.Parse(at.Volume); err != nil {
		return err
	}
	path := filepath.Join(at.Dir.Name(), at.Name)
	m.mu.Lock()
	waits, used, hangs := m.down && m.dirty, m.used[path], m.hangs
	detaches := m.detaches
	if force && m.waits {
		m.mu.Unlock()
		return errors.Join(hostnfs.ErrHangs, hostnfs.ErrNotBegun)
	}
	if force {
		m.forced = append(m.forced, path)
		waits, hangs = false, false
	}
	m.mu.Unlock()
	switch {
	case used:
		return hostnfs.ErrInUse
	case waits && detaches:
		return errors.Join(hostnfs.ErrHangs, m.Fake.Unmount(path))
	case hangs, waits && len(m.sharing(path)) <= 1:
		return hostnfs.ErrHangs
	}
	return m.Fake.Unmount(path)
}

// sharing are the mounts that show what is mounted at a path.
func (m *model) sharing(path string) []string {
	points, err := m.Points()
	if err != nil {
		return nil
	}
	at, _ := mount.Top(points, path)
	var out []string
	for _, p := range points {
		if p.Filesystem == at.Filesystem {
			out = append(out, p.Path)
		}
	}
	return out
}

// Reaches asks the server.
func (m shares) Reaches(_ context.Context, server string, options []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, fmt.Sprint(server, options))
	if m.full {
		return fmt.Errorf("server %s was not asked: %w", server, sharedvolume.ErrBusy)
	}
	if m.down {
		return unreachable()
	}
	return nil
}

// Measure asks the server too.
func (m shares) Measure(_ context.Context, at hostnfs.Mounted) (hostnfs.Usage, error) {
	points, err := m.Points()
	if err != nil {
		return hostnfs.Usage{}, err
	}
	p, _ := mount.Top(points, filepath.Join(at.Dir.Name(), at.Name))
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.down:
		return hostnfs.Usage{}, unreachable()
	case p.Filesystem.Minor == m.stale && m.stale != 0:
		return hostnfs.Usage{}, hostnfs.ErrStale
	}
	return hostnfs.Usage{TotalBytes: 100, UsedBytes: 40, FreeBytes: 60}, nil
}

func (m *model) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// rig is a driver over a model, with the volume "pvc-1".
type rig struct {
	*csitest.Client
	*model
	handle string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := csitest.KubeletDir(t)
	m := newModel(t, dir)
	r := &rig{Client: csitest.Start(t, m.config(t, dir)), model: m}
	r.handle = r.add("pvc-1", "team/data")
	return r
}

// add makes a volume.
func (r *rig) add(name, directory string) string {
	id := sharedvolume.ID{Owner: uid, Name: name}
	r.set(func() { r.volumes[id.String()] = directory })
	r.Context[id.String()] = attributes(directory).Map()
	return id.String()
}

func attributes(directory string) sharedvolume.Attributes {
	return sharedvolume.Attributes{Server: "nas", Path: "/export", Directory: directory, OnDelete: sharedvolume.Delete, ShareID: uid}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("code %s (%v), want %s", got, err, want)
	}
}

// wantMounts are the mounts below the kubelet's directory, in the order of mounting.
func (r *rig) wantMounts(t *testing.T, want ...string) {
	t.Helper()
	if got := csitest.MountedBelow(t, r.Dir, r); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("mounts %q, want %q", got, want)
	}
}

func takes(t *testing.T, most time.Duration, do func()) {
	t.Helper()
	begin := time.Now()
	do()
	if took := time.Since(begin); took > most {
		t.Errorf("it took %s", took)
	}
}
