//go:build hostroot

package osd_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"quarry.storage/quarry/agent/agenttest"
	contract "quarry.storage/quarry/agent/agenttest/osd"
	"quarry.storage/quarry/agent/internal/apply"
	applyceph "quarry.storage/quarry/agent/internal/apply/ceph"
	applydisk "quarry.storage/quarry/agent/internal/apply/disk"
	"quarry.storage/quarry/agent/internal/host/block"
	hostceph "quarry.storage/quarry/agent/internal/host/ceph"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/host/occupant"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/inventory"
	"quarry.storage/quarry/agent/internal/node"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/quiet"
	"quarry.storage/quarry/agent/internal/server"
	"quarry.storage/quarry/pkg/osd"
	"quarry.storage/quarry/pkg/osd/osdtest"
	"quarry.storage/quarry/pkg/systemid"
)

const (
	nodeName = "real"
	diskSize = 2 << 30
)

// TestRealHost runs the contract with the real ceph-osd of an unpacked image of Ceph, which CEPH_ROOT names, on a loop device: `make conformance-ceph`.
func TestRealHost(t *testing.T) {
	root := os.Getenv("CEPH_ROOT")
	if root == "" || os.Getuid() != 0 {
		t.Skip("needs root, and an unpacked image of Ceph in the directory that CEPH_ROOT names")
	}
	if _, err := os.Stat(filepath.Join(root, "usr/bin/ceph-osd")); err != nil {
		t.Fatalf("CEPH_ROOT: %v", err)
	}
	if _, err := os.Stat(lvm.DefaultBinary); err != nil {
		t.Fatalf("LVM is not installed: %v", err)
	}
	n := newRealNode(t, root)
	n.start(t)
	t.Cleanup(n.stop)
	contract.Contract(t, n)
}

// realNode is the contract's view of this machine. It dies around the steps of a plan, and inside ceph-osd.
type realNode struct {
	t      *testing.T
	ca     *agenttest.CA
	path   string
	proc   string
	engine node.Config
	watch  quiet.Config
	server server.Config

	conn   *grpc.ClientConn
	cancel context.CancelFunc
	done   chan error

	mu      sync.Mutex
	adapter apply.Adapter
	steps   int
	at      int
	after   bool
	killIn  time.Duration
}

var errDied = errors.New("the agent died")

func newRealNode(t *testing.T, root string) *realNode {
	t.Helper()
	n := &realNode{t: t, ca: agenttest.NewCA(t), path: loop(t, root), proc: t.TempDir()}
	if err := errors.Join(os.Mkdir(filepath.Join(n.proc, "7"), 0o755), os.Symlink(root, filepath.Join(n.proc, "7/root")),
		os.MkdirAll(filepath.Join(n.proc, "1/root/var/log/containers"), 0o755),
		os.WriteFile(filepath.Join(n.proc, "1/root/var/log/containers/pod_quarry-ceph_tools-"+n.Tools()+".log"), nil, 0o600), os.WriteFile(filepath.Join(n.proc, "1/cgroup"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	_, dmErr := os.Stat("/sys/class/misc/device-mapper")
	_, udevErr := os.Stat("/run/udev/data")
	volumes, err := lvm.New(lvm.Config{
		Runner: run.Real{}, Dir: filepath.Join(t.TempDir(), "lvm"), WithoutDeviceMapper: dmErr != nil, SystemID: systemid.Of(nodeName),
	})
	if err != nil {
		t.Fatal(err)
	}
	devices, disks := block.New(block.Config{WithoutUdev: udevErr != nil}), disk.New()
	observer, err := inventory.New(inventory.Config{
		Block: devices, Mounts: mount.New(mount.Config{}), Prober: disks, LVM: volumes, SystemID: systemid.Of(nodeName),
		ProbeTypes: []string{"loop"}, Occupants: occupant.New(occupant.Config{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	onDisk := applydisk.Adapter{Tool: disks, Devices: observer, Udev: devices}
	onCeph := applyceph.Adapter{Tool: hostceph.New(hostceph.Config{Runner: n, Proc: n.proc}), Devices: onDisk}
	n.adapter = apply.Adapters{onDisk, onCeph}
	policy := plan.Policy{MinSizeBytes: 1 << 30, AllowTypes: []string{"loop"}}
	n.engine = node.Config{Policy: policy, Looker: observer, Groups: observer, Resolve: node.ResolveLinks}
	n.watch = quiet.Config{Source: observer, Devices: observer, Guard: onDisk, Policy: policy, Quiet: 100 * time.Millisecond}
	n.server = server.Config{NodeName: nodeName, Version: "test", KernelRelease: "any", BootID: "any", LVM: volumes, Log: logr.Discard()}
	return n
}

// loop makes a throw-away loop device, which the container sees too.
func loop(t *testing.T, root string) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk.img")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, diskSize)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "-f", "--show", image).Output()
	if err != nil {
		t.Skipf("losetup: %v", err)
	}
	dev := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if err := exec.Command("losetup", "-d", dev).Run(); err != nil {
			t.Errorf("losetup -d %s: %v", dev, err)
		}
	})
	var st unix.Stat_t
	if err := unix.Stat(dev, &st); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(root, dev)
	os.Remove(inside)
	if err := unix.Mknod(inside, unix.S_IFBLK|0o600, int(st.Rdev)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(inside) })
	return dev
}

func (n *realNode) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.done = cancel, make(chan error, 1)
	watcher := quiet.New(n.watch)
	n.engine.Observer, n.engine.Applier = watcher, apply.Applier{Adapter: n, Guard: watcher}
	n.server.Node = node.New(n.engine)
	srv := server.New(n.server)
	config := n.ca.ServerTLS(n.t, nodeName)
	go func() { n.done <- srv.Serve(ctx, listener, config) }()
	client := credentials.NewTLS(n.ca.ControllerTLS(n.t, nodeName))
	if n.conn, err = grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(client)); err != nil {
		t.Fatal(err)
	}
}

func (n *realNode) stop() {
	n.conn.Close()
	n.cancel()
	if err := <-n.done; err != nil {
		n.t.Errorf("serve: %v", err)
	}
	// A look that somebody asked for before ends by itself, and runs LVM until then. The next one begins once it has ended.
	if _, err := n.server.Node.Observe(context.Background()); err != nil {
		n.t.Logf("the last look: %v", err)
	}
}

// Perform passes a step on, unless the agent dies before it or after it.
func (n *realNode) Perform(ctx context.Context, step plan.Step) error {
	n.mu.Lock()
	due := n.at == n.steps+1
	n.mu.Unlock()
	if due && !n.after {
		return errDied
	}
	if err := n.adapter.Perform(ctx, step); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.steps++
	if due {
		return errDied
	}
	return nil
}

// Run starts a program, and kills it after a while if that was asked for.
func (n *realNode) Run(ctx context.Context, cmd run.Command) (run.Result, error) {
	n.mu.Lock()
	limit := n.killIn
	n.mu.Unlock()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	return run.Real{}.Run(ctx, cmd)
}

// Conn is the connection to the server as it runs now.
func (n *realNode) Conn(*testing.T) grpc.ClientConnInterface { return n.conn }

// Disk is the loop device.
func (n *realNode) Disk() string { return n.path }

// Tools is the container.
func (n *realNode) Name() string { return nodeName }

func (n *realNode) Tools() string { return tools }

// StopTools takes the process of the container away.
func (n *realNode) StopTools(t *testing.T) { n.cgroup(t, "0::/other\n") }

func (n *realNode) cgroup(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(n.proc, "7/cgroup"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Reset has the kernel forget partitions, and zeroes every place where something was written that tells of an OSD.
func (n *realNode) Reset(t *testing.T) {
	// It fails where there is none.
	_ = exec.Command("partx", "--delete", n.path).Run()
	n.Crash(0, false)
	n.cgroup(t, "0::/kubepods/"+tools+"\n")
	n.write(t, make([]byte, 4<<20), 0, 1<<30, diskSize-4<<20)
}

// Dirty writes data that no format begins with.
func (n *realNode) Dirty(t *testing.T) { n.write(t, []byte("somebody's data"), 8<<10) }

// Foreign writes whole labels.
func (n *realNode) Foreign(t *testing.T, uuid, fsid string) {
	l := osd.Label{UUID: uuid, FSID: fsid, ID: "3", SizeBytes: diskSize, Description: "main", Ready: true, Epoch: 15}
	n.write(t, osdtest.Block(l, nil), osd.Places(diskSize)...)
}

// ShowPartition tells the kernel of one. On a loop device without --partscan it stays, whenever udev has the kernel read the table again.
func (n *realNode) ShowPartition(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("addpart", n.path, "1", "2048", "2048").CombinedOutput(); err != nil {
		t.Fatalf("addpart: %v: %s", err, out)
	}
	// Until udev has looked at it nobody reads it. Without udev there is nothing to wait for.
	_ = exec.Command("udevadm", "settle").Run()
}

// ZeroEnds zeroes.
func (n *realNode) ZeroEnds(t *testing.T) { n.write(t, make([]byte, 1<<20), 0, diskSize-1<<20) }

// Open starts a program that the agent, which is this process, does not count as its own: the shell that starts it ends.
func (n *realNode) Open(t *testing.T) func() {
	t.Helper()
	out, err := exec.Command("sh", "-c", `exec 3<"$1"; sleep 600 >/dev/null 2>&1 & echo $!`, "sh", n.path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := exec.Command("kill", strings.TrimSpace(string(out))).Run(); err != nil {
			t.Error(err)
		}
	}
}

// Steps counts the changes so far.
func (n *realNode) Steps() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.steps
}

// Crash arms a death.
func (n *realNode) Crash(step int, after bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at, n.after, n.killIn = 0, after, 0
	if step > 0 {
		n.at = n.steps + step
	}
}

// Restart serves anew.
func (n *realNode) Restart(t *testing.T) {
	n.Crash(0, false)
	n.stop()
	n.start(t)
}

// CutOff kills ceph-osd later and later, until that meets it at work on the disk.
func (n *realNode) CutOff(t *testing.T, call func() error) {
	t.Helper()
	for limit := 20 * time.Millisecond; limit < 10*time.Second; limit += limit / 5 {
		n.mu.Lock()
		n.killIn = limit
		n.mu.Unlock()
		err := call()
		n.Restart(t)
		head := make([]byte, osd.BlockBytes)
		n.read(t, head)
		if _, none := osd.ParseLabel(head); !errors.Is(none, osd.ErrNone) {
			if err == nil {
				t.Fatalf("no kill met ceph-osd at work before %s", limit)
			}
			return
		}
	}
	t.Fatal("ceph-osd writes nothing")
}

func (n *realNode) read(t *testing.T, b []byte) {
	t.Helper()
	f := n.exclusive(t, os.O_RDONLY)
	defer f.Close()
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
}

func (n *realNode) write(t *testing.T, data []byte, places ...int64) {
	t.Helper()
	f := n.exclusive(t, os.O_RDWR|os.O_SYNC)
	defer f.Close()
	for _, off := range places {
		if _, err := f.WriteAt(data, off); err != nil {
			t.Fatal(err)
		}
	}
}

// exclusive waits until nobody has the disk: an observation may hold it for a moment, and the kernel that of a process that was killed.
func (n *realNode) exclusive(t *testing.T, flags int) *os.File {
	t.Helper()
	for range 500 {
		if f, err := os.OpenFile(n.path, flags|unix.O_EXCL, 0); err == nil {
			return f
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("somebody keeps the disk")
	return nil
}
