package ceph

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/run"
)

const (
	container = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	uuid      = "aaaaaaaa-bbbb-5ccc-8ddd-eeeeeeeeeeee"
	fsid      = "11111111-2222-4333-8444-555555555555"
)

// node is a /proc with one process of a container, whose root it returns, and one that watches it and has the node's root.
func node(t *testing.T, cgroup string) (proc, root string) {
	t.Helper()
	proc, root = t.TempDir(), t.TempDir()
	host := t.TempDir()
	link := filepath.Join(host, "run/logs/ceph-c1-tools-h1_quarry-ceph_tools-"+container+".log")
	if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.WriteFile(link, nil, 0o600), os.MkdirAll(filepath.Join(host, "var/log"), 0o755),
		os.Symlink("/run/logs", filepath.Join(host, "var/log/containers"))); err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct{ pid, group, root string }{{"1", "0::/init.scope\n", host}, {"39", cgroup, host}, {"40", cgroup, root}} {
		dir := filepath.Join(proc, p.pid)
		if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "cgroup"), []byte(p.group), 0o600), os.Symlink(p.root, filepath.Join(dir, "root"))); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(root, "tmp"), 0o755), os.Mkdir(filepath.Join(host, "tmp"), 0o755), os.WriteFile(filepath.Join(proc, "uptime"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return proc, root
}

var osd7 = Make{Container: container, UUID: uuid, FSID: fsid, ID: 7, Device: "/dev/disk/by-id/ata-x", Number: 0x810}

// sees is a container in which the disk stands where it does on the node.
func sees(_ *os.Root, path string) (uint64, error) {
	if path != "dev/disk/by-id/ata-x" {
		return 0, os.ErrNotExist
	}
	return 0x810, nil
}

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
			if err := New(Config{Runner: runner, Proc: proc, Number: sees}).Mkfs(t.Context(), osd7); err != nil || looked != 1 {
				t.Fatalf("%d commands: %v", looked, err)
			}
			want := []string{
				"/usr/bin/ceph-osd", "--foreground", "--mkfs", "--id", "7", "--osd-uuid", uuid, "--fsid", fsid, "--osd-objectstore", "bluestore",
				"--bluestore-block-path", "/dev/disk/by-id/ata-x", "--osd-data", "/tmp/quarry-osd-" + uuid, "--bluestore-block-create=false", "--no-mon-config", "--conf", "/dev/null",
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
		"another device by now":          {func(m *Make) { m.Number++ }, ErrOtherDevice},
		"a device that is gone":          {func(m *Make) { m.Device = "/dev/sdx" }, ErrOtherDevice},
		"a path that is no device":       {func(m *Make) { m.Device = "/etc/passwd" }, nil},
		"a path that is read as another": {func(m *Make) { m.Device = "/dev/../etc/passwd" }, nil},
	} {
		m := osd7
		tt.change(&m)
		fake := run.NewFake()
		if err := New(Config{Runner: fake, Proc: proc, Number: sees}).Mkfs(t.Context(), m); err == nil || !errors.Is(err, tt.err) && tt.err != nil || len(fake.Calls()) > 0 {
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

// TestFind_foreignPod: a container is named as the tools by its kubelet, which knows the namespace, not by whoever asks.
func TestFind_foreignPod(t *testing.T) {
	for name, link := range map[string]string{
		"another namespace":              "ceph-c1-tools-h1_default_tools-" + container,
		"a namespace that begins so":     "ceph-c1-tools-h1_quarry-ceph-x_tools-" + container,
		"another container of that pod":  "ceph-c1-mon-a_quarry-ceph_mon-" + container,
		"a container that ends so":       "x_quarry-ceph_my-tools-" + container,
		"a pod that is called like that": "quarry-ceph_default_tools-" + container,
		"another ID":                     "ceph-c1-tools-h1_quarry-ceph_tools-" + strings.Repeat("f", 64),
	} {
		proc, _ := node(t, "0::/kubepods/pod1/"+container+"\n")
		tool := New(Config{Runner: run.NewFake(), Proc: proc})
		if err := tool.Find(container); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(proc, "1/root/run/logs")
		links, err := os.ReadDir(dir)
		if err != nil || len(links) != 1 {
			t.Fatal(links, err)
		}
		if err := os.Rename(filepath.Join(dir, links[0].Name()), filepath.Join(dir, link+".log")); err != nil {
			t.Fatal(err)
		}
		if err := tool.Find(container); !errors.Is(err, ErrNoContainer) {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := tool.Find(container); err == nil || errors.Is(err, ErrNoContainer) {
			t.Errorf("logs that cannot be read: %v", err)
		}
	}
}

// TestFind_watcher: what a runtime has beside a container, in its control group and with the node's root directory, is not the container.
func TestFind_watcher(t *testing.T) {
	proc, root := node(t, "0::/kubepods/pod1/"+container+"\n")
	tool := New(Config{Runner: run.NewFake(), Proc: proc})
	if err := tool.Find(container); err != nil {
		t.Error(err)
	}
	f, err := tool.root(container)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := os.Readlink(path(f)); err != nil || got != root {
		t.Errorf("the root is %s, want %s: %v", got, root, err)
	}
	if err := os.RemoveAll(filepath.Join(proc, "40")); err != nil {
		t.Fatal(err)
	}
	if err := tool.Find(container); !errors.Is(err, ErrNoContainer) {
		t.Errorf("with the watcher alone: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(proc, "1")); err != nil {
		t.Fatal(err)
	}
	if err := tool.Find(container); err == nil || errors.Is(err, ErrNoContainer) {
		t.Errorf("with a node whose root cannot be read: %v", err)
	}
}

// TestNumber: only a block device has one.
func TestNumber(t *testing.T) {
	root, err := os.OpenRoot("/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	for _, name := range []string{"dev/null", "dev", "dev/quarry-absent", "proc/self/exe"} {
		if n, err := number(root, name); err == nil {
			t.Errorf("%s has the number %#x", name, n)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat("/dev/loop0", &st); err != nil {
		t.Skipf("no block device to look at: %v", err)
	}
	if n, err := number(root, "dev/loop0"); err != nil || n != st.Rdev {
		t.Errorf("%#x, %v; want %#x", n, err, st.Rdev)
	}
}

func TestMkfs_fails(t *testing.T) {
	proc, root := node(t, "0::/kubepods/pod1/"+container+"\n")
	fake := run.NewFake(run.Step{Result: run.Result{ExitCode: 250, Stderr: []byte("open got: (16) Device or resource busy")}})
	err := New(Config{Runner: fake, Proc: proc, Number: sees}).Mkfs(t.Context(), osd7)
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
	tool := New(Config{Runner: runner, Proc: proc, Number: sees})
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
