package ceph

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/run"
)

const (
	container = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	uuid      = "aaaaaaaa-bbbb-5ccc-8ddd-eeeeeeeeeeee"
	fsid      = "11111111-2222-4333-8444-555555555555"
)

// node is a /proc with one process of a container, whose root it returns.
func node(t *testing.T, cgroup string) (proc, root string) {
	t.Helper()
	proc, root = t.TempDir(), t.TempDir()
	for pid, group := range map[string]string{"1": "0::/init.scope\n", "40": cgroup} {
		dir := filepath.Join(proc, pid)
		if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "cgroup"), []byte(group), 0o600), os.Symlink(root, filepath.Join(dir, "root"))); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(root, "tmp"), 0o755), os.WriteFile(filepath.Join(proc, "uptime"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return proc, root
}

var osd7 = Make{Container: container, UUID: uuid, FSID: fsid, ID: 7, Device: "/dev/disk/by-id/ata-x"}

func TestMkfs(t *testing.T) {
	for name, cgroup := range map[string]string{
		"systemd":           "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + container + ".scope\n",
		"cgroupfs":          "0::/../../kubepods/besteffort/pod1/" + container + "\n",
		"the first version": "12:cpuset:/kubepods/pod1/" + container + "\n1:name=systemd:/kubepods/pod1/" + container + "/init\n",
		"CRI-O":             "0::/kubepods.slice/kubepods-pod1.slice/crio-" + container + ".scope/container\n",
	} {
		t.Run(name, func(t *testing.T) {
			proc, root := node(t, cgroup)
			dir := filepath.Join(root, "tmp/quarry-osd-"+uuid)
			if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "fsid"), []byte("left behind"), 0o600)); err != nil {
				t.Fatal(err)
			}
			fake := run.NewFake(run.Step{})
			looked := 0
			runner := run.Hook{Next: fake, Before: func(_ context.Context, cmd run.Command) error {
				looked++
				if there, err := os.ReadDir(filepath.Join(cmd.Root, "tmp/quarry-osd-"+uuid)); err != nil || len(there) > 0 {
					t.Errorf("the directory of the OSD, in the root of the process: %v, %v", there, err)
				}
				return nil
			}}
			if err := New(Config{Runner: runner, Proc: proc}).Mkfs(t.Context(), osd7); err != nil || looked != 1 {
				t.Fatalf("%d commands: %v", looked, err)
			}
			want := []string{
				"/usr/bin/ceph-osd", "--foreground", "--mkfs", "--id", "7", "--osd-uuid", uuid, "--fsid", fsid, "--osd-objectstore", "bluestore",
				"--bluestore-block-path", "/dev/disk/by-id/ata-x", "--osd-data", "/tmp/quarry-osd-" + uuid, "--no-mon-config", "--conf", "/dev/null",
				"--admin-socket=", "--run-dir", "/tmp/quarry-osd-" + uuid, "--crash-dir", "/tmp/quarry-osd-" + uuid,
				"--log-file=", "--log-to-file=false", "--log-to-stderr=false", "--err-to-stderr=true",
			}
			call := fake.Calls()[0]
			if !slices.Equal(call.Argv(), want) || call.ReadsOnly {
				t.Errorf("%q", call.Argv())
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the directory stays: %v", err)
			}
		})
	}
}

func TestMkfs_refuses(t *testing.T) {
	proc, _ := node(t, "0::/kubepods/pod1/"+container+"\n")
	other := strings.Repeat("f", 64)
	for name, tt := range map[string]struct {
		change func(*Make)
		err    error
	}{
		"another container":              {func(m *Make) { m.Container = other }, ErrNoContainer},
		"a part of the ID":               {func(m *Make) { m.Container = container[:12] }, ErrNoContainer},
		"no container":                   {func(m *Make) { m.Container = "" }, ErrNoContainer},
		"no UUID":                        {func(m *Make) { m.UUID = "" }, nil},
		"a UUID that leads elsewhere":    {func(m *Make) { m.UUID = "../../etc" }, nil},
		"no FSID":                        {func(m *Make) { m.FSID = "x" }, nil},
		"no number":                      {func(m *Make) { m.ID = -1 }, nil},
		"a path that is no device":       {func(m *Make) { m.Device = "/etc/passwd" }, nil},
		"a path that is read as another": {func(m *Make) { m.Device = "/dev/../etc/passwd" }, nil},
	} {
		m := osd7
		tt.change(&m)
		fake := run.NewFake()
		if err := New(Config{Runner: fake, Proc: proc}).Mkfs(t.Context(), m); err == nil || !errors.Is(err, tt.err) && tt.err != nil || len(fake.Calls()) > 0 {
			t.Errorf("%s: %v, %d commands", name, err, len(fake.Calls()))
		}
	}
}

// TestMkfs_unreadable: a process whose control groups cannot be read may be the one, so it is not said that there is none.
func TestMkfs_unreadable(t *testing.T) {
	proc, _ := node(t, "0::/x\n")
	if err := errors.Join(os.Mkdir(filepath.Join(proc, "50"), 0o755), os.Mkdir(filepath.Join(proc, "50/cgroup"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := New(Config{Runner: run.NewFake(), Proc: proc}).Mkfs(t.Context(), osd7); err == nil || errors.Is(err, ErrNoContainer) {
		t.Error(err)
	}
}

func TestMkfs_fails(t *testing.T) {
	proc, root := node(t, "0::/kubepods/pod1/"+container+"\n")
	fake := run.NewFake(run.Step{Result: run.Result{ExitCode: 250, Stderr: []byte("open got: (16) Device or resource busy")}})
	err := New(Config{Runner: fake, Proc: proc}).Mkfs(t.Context(), osd7)
	var exit *run.Error
	if !errors.As(err, &exit) || exit.ExitCode != 250 || !strings.Contains(err.Error(), "osd.7") {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(root, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestMkfs_oneAtATime: each takes memory, which the agent has little of.
func TestMkfs_oneAtATime(t *testing.T) {
	proc, _ := node(t, "0::/kubepods/pod1/"+container+"\n")
	begun, end := make(chan struct{}), make(chan struct{})
	runner := run.Hook{Next: run.NewFake(run.Step{}, run.Step{}), Before: func(context.Context, run.Command) error {
		begun <- struct{}{}
		<-end
		return nil
	}}
	tool := New(Config{Runner: runner, Proc: proc})
	done := make(chan error, 2)
	go func() { done <- tool.Mkfs(t.Context(), osd7) }()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tool.Mkfs(ctx, osd7); !errors.Is(err, context.Canceled) {
		t.Errorf("one that waits is not ended: %v", err)
	}
	go func() { done <- tool.Mkfs(t.Context(), osd7) }()
	select {
	case <-begun:
		t.Fatal("two run at one time")
	case end <- struct{}{}:
	}
	<-begun
	end <- struct{}{}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Error(err)
	}
}
