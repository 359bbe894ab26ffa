//go:build hostroot

package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/agent/agenttest/conformance"
	"quarry.storage/quarry/agent/internal/apply"
	applydisk "quarry.storage/quarry/agent/internal/apply/disk"
	applylvm "quarry.storage/quarry/agent/internal/apply/lvm"
	csilvm "quarry.storage/quarry/agent/internal/csi/lvm"
	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/dm"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/host/occupant"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/inventory"
	"quarry.storage/quarry/agent/internal/node"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
	"quarry.storage/quarry/agent/internal/quiet"
	"quarry.storage/quarry/agent/internal/server"
	"quarry.storage/quarry/pkg/systemid"
)

// disksVariable names the spare disks: everything on them is lost. Without it loop devices are made.
const disksVariable = "QUARRY_TEST_DISKS"

const nodeName = "real"

// shortQuiet is how long the suite's disks have to be left alone: many of its steps wait for that.
const shortQuiet = 200 * time.Millisecond

// edge is what Reset zeroes at both ends of a disk.
const edge = 4 << 20

// The suite's parts share nothing, so that they can run on several machines at the same time. The longest comes first.
func TestRealHost_volumeDeaths(t *testing.T) { onRealHost(t, conformance.VolumeDeaths) }
func TestRealHost_volumes(t *testing.T)      { onRealHost(t, conformance.Volumes) }
func TestRealHost_deaths(t *testing.T)       { onRealHost(t, conformance.Deaths) }
func TestRealHost_groups(t *testing.T)       { onRealHost(t, conformance.Groups) }
func TestRealHost_twoGroups(t *testing.T) {
	onRealHost(t, func(t *testing.T, n conformance.Node) { conformance.TwoGroups(t, n.(conformance.Activating)) })
}

func onRealHost(t *testing.T, part func(*testing.T, conformance.Node)) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := os.Stat(lvm.DefaultBinary); err != nil {
		t.Skipf("LVM is not installed: %v", err)
	}
	n := newRealNode(t)
	n.start(t)
	t.Cleanup(n.stop)
	part(t, n)
}

// realNode is the suite's view of this machine.
type realNode struct {
	*faulty
	t         *testing.T // of the whole suite
	ca        *agenttest.CA
	paths     []string
	dir       string
	withoutDM bool
	block     *detachable
	runner    *run.Counting
	engine    node.Config
	watch     quiet.Config
	server    server.Config

	conn   *grpc.ClientConn
	cancel context.CancelFunc
	done   chan error
}

func newRealNode(t *testing.T) *realNode {
	t.Helper()
	n := &realNode{t: t, ca: agenttest.NewCA(t), dir: filepath.Join(t.TempDir(), "lvm")}
	if list := os.Getenv(disksVariable); list != "" {
		n.paths = strings.Split(list, ",")
	} else {
		n.paths = []string{loop(t), loop(t)}
	}
	_, dmErr := os.Stat("/sys/class/misc/device-mapper")
	_, udevErr := os.Stat("/run/udev/data")
	n.withoutDM = dmErr != nil
	n.runner = &run.Counting{Next: run.Real{}}
	volumes, err := lvm.New(lvm.Config{
		Runner: n.runner, Dir: n.dir, WithoutDeviceMapper: n.withoutDM, SystemID: systemid.Of(nodeName),
	})
	if err != nil {
		t.Fatal(err)
	}
	devices, disks := &detachable{Host: block.New(block.Config{WithoutUdev: udevErr != nil}), hidden: map[string]bool{}}, disk.New()
	n.block = devices
	observer, err := inventory.New(inventory.Config{
		Block: devices, Mounts: mount.New(mount.Config{}), Prober: disks, LVM: volumes,
		SystemID: systemid.Of(nodeName), ProbeTypes: []string{"loop", "ubd"},
		Occupants: occupant.New(occupant.Config{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	onDisk := applydisk.Adapter{Tool: disks, Devices: observer, Udev: devices}
	n.faulty = &faulty{adapter: apply.Adapters{onDisk, applylvm.Adapter{Tool: volumes, Devices: onDisk, Zeroes: dm.New(dm.Config{})}}, guard: onDisk}
	policy := plan.Policy{MinSizeBytes: 64 << 20, AllowTypes: []string{"loop", "ubd"}}
	n.engine = node.Config{
		Policy: policy, Looker: observer, Groups: observer, Resolve: node.ResolveLinks,
		Contents: csilvm.Contents{Devices: dm.New(dm.Config{}), Filesystems: fs.New(n.runner)},
	}
	n.watch = quiet.Config{Source: observer, Devices: observer, Guard: n.faulty, Policy: policy, Quiet: shortQuiet}
	n.server = server.Config{
		NodeName: nodeName, Version: "test", KernelRelease: "any", BootID: "any", LVM: volumes, Log: logr.Discard(),
	}
	if testing.Verbose() {
		n.server.Log = testr.New(t)
		n.watch.Log = n.server.Log
	}
	return n
}

// loop makes a throw-away loop device.
func loop(t *testing.T) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk.img")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 128<<20)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "-f", "--show", image).Output()
	if err != nil {
		t.Skipf("losetup: %v", err)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if err := exec.Command("losetup", "-d", device).Run(); err != nil {
			t.Errorf("losetup -d %s: %v", device, err)
		}
	})
	return device
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
	n.engine.Observer, n.engine.Applier = watcher, apply.Applier{Adapter: n.faulty, Guard: watcher}
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
	n.land()
}

// land waits for a look that somebody asked for before the server stopped: it ends by itself, and until then it runs LVM, which makes its directory
// anew. The next look begins once that one has ended.
func (n *realNode) land() {
	if _, err := n.server.Node.Observe(context.Background()); err != nil {
		n.t.Logf("the last look: %v", err)
	}
}

// Conn is the connection to the server as it runs now.
func (n *realNode) Conn(*testing.T) grpc.ClientConnInterface { return n.conn }

// Disks are the spare disks.
func (n *realNode) Disks() []string { return n.paths }

// Restart serves anew, over the same tools.
func (n *realNode) Restart(t *testing.T) {
	n.stop()
	n.faulty.reset()
	n.start(t)
}

// Reset zeroes both ends of the disks, metadata of LVM included.
func (n *realNode) Reset(t *testing.T) {
	n.faulty.reset()
	for _, path := range n.paths {
		n.Attach(t, path)
	}
	if !n.withoutDM {
		n.lvm(t, "vgchange", "-an")
	}
	zeroes := make([]byte, edge)
	for _, path := range n.paths {
		n.write(t, path, zeroes, 0)
		n.write(t, path, zeroes, -edge)
	}
}

// Dirty writes data that no format begins with, where several would look for theirs.
func (n *realNode) Dirty(t *testing.T, path string) {
	n.write(t, path, []byte(strings.Repeat("somebody's data ", 512)), 8<<10)
}

// Activates needs device-mapper.
func (n *realNode) Activates() bool { return !n.withoutDM }

// Activate makes the device of a volume exist, as for a pod.
func (n *realNode) Activate(t *testing.T, group, name string) error {
	_, err := n.server.Node.ActivateVolume(t.Context(), volume.Spec{Group: group, Name: name})
	return err
}

// Deactivate takes the devices of a group's volumes away.
func (n *realNode) Deactivate(t *testing.T, group string) { n.lvm(t, "vgchange", "-an", group) }

// Autoactivate undoes what the agent did when it made the group.
func (n *realNode) Autoactivate(t *testing.T, group string) {
	n.lvm(t, "vgchange", "--setautoactivation", "y", group)
}

// ActivateAll runs the command that distributions run at a boot, and when a device appears.
func (n *realNode) ActivateAll(t *testing.T) { n.lvm(t, "vgchange", "-aay") }

// DamagePool zeroes the first block of the metadata of the group's thin pools, where it lies on their devices.
func (n *realNode) DamagePool(t *testing.T, group string) { n.spoilPool(t, group, 4096) }

// RuinPool zeroes half of it.
func (n *realNode) RuinPool(t *testing.T, group string) { n.spoilPool(t, group, 2<<20) }

// spoilPool zeroes the beginning.
func (n *realNode) spoilPool(t *testing.T, group string, bytes int) {
	t.Helper()
	n.Deactivate(t, group)
	out := n.lvm(t, "pvs", "--reportformat", "basic", "--noheadings", "--segments", "--units", "b", "--nosuffix", "-o", "pv_name,pe_start,vg_extent_size,pvseg_start,lv_name",
		"-S", `lv_name=~"_tmeta"`)
	for line := range strings.Lines(out) {
		var device, name string
		var start, extent, first int64
		if _, err := fmt.Sscan(line, &device, &start, &extent, &first, &name); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		f, err := os.OpenFile(device, os.O_WRONLY|os.O_SYNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt(make([]byte, bytes), start+first*extent); err != nil {
			t.Fatal(err)
		}
	}
}

// OpenVolume opens the device as a pod with a raw block volume does.
func (n *realNode) OpenVolume(t *testing.T, group, name string) func() {
	t.Helper()
	f, err := os.Open("/dev/" + group + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

// Commands leaves out the reports that observations of the whole node make meanwhile: they see all disks with a label, a report on one
// group those of the group. Here they are the same, so reports on one group are not told from them, and not counted.
func (n *realNode) Commands() int {
	count := 0
	for _, c := range n.runner.Calls() {
		if c.Args[0] != "fullreport" && c.Args[0] != "systemid" {
			count++
		}
	}
	return count
}

// write writes at an offset, from the end when it is negative. A disk that somebody has open exclusively is written as well.
func (n *realNode) write(t *testing.T, path string, data []byte, offset int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_SYNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if offset < 0 {
		size, err := f.Seek(0, 2)
		if err != nil {
			t.Fatal(err)
		}
		offset += size
	}
	if _, err := f.WriteAt(data, offset); err != nil {
		t.Fatal(err)
	}
}

// OpenDisk starts a program that the agent, which is this process, does not count as its own: the shell that starts it ends.
func (n *realNode) OpenDisk(t *testing.T, path string) func() {
	t.Helper()
	out, err := exec.Command("sh", "-c", `exec 3<"$1"; sleep 600 >/dev/null 2>&1 & echo $!`, "sh", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := exec.Command("kill", "-9", strings.TrimSpace(string(out))).Run(); err != nil {
			t.Errorf("kill: %v", err)
		}
	}
}

// ForeignGroup makes a group without our tag.
func (n *realNode) ForeignGroup(t *testing.T, name, path string) {
	n.lvm(t, "vgcreate", name, path)
}

// SetSystemID is what the other node would do, and what this one does for nobody.
func (n *realNode) SetSystemID(t *testing.T, group, id string) {
	n.lvm(t, "vgchange", "-y", "--systemid", id, group)
}

// AddVolume makes a volume of one extent, not activated.
func (n *realNode) AddVolume(t *testing.T, group, name, path string) {
	n.lvm(t, "lvcreate", "-y", "-an", "-Zn", "-Wn", "-l", "1", "-n", name, group, path)
}

// RemoveVolume removes it.
func (n *realNode) RemoveVolume(t *testing.T, group, name string) {
	n.lvm(t, "lvremove", "-y", group+"/"+name)
}

func (n *realNode) lvm(t *testing.T, args ...string) string {
	t.Helper()
	args = append(args, "--devices", strings.Join(n.paths, ","))
	if n.withoutDM {
		args = append(args, "--driverloaded", "n")
	}
	cmd := exec.Command(lvm.DefaultBinary, args...)
	cmd.Env = append(os.Environ(), "LVM_SYSTEM_DIR="+n.dir, "LVM_SUPPRESS_FD_WARNINGS=1")
	var out []byte
	var err error
	for range 20 {
		if out, err = cmd.CombinedOutput(); err == nil {
			return string(out)
		}
		if !strings.Contains(string(out), "exclusively") {
			break
		}
		time.Sleep(50 * time.Millisecond)
		cmd = exec.Command(cmd.Path, cmd.Args[1:]...)
		cmd.Env = append(os.Environ(), "LVM_SYSTEM_DIR="+n.dir, "LVM_SUPPRESS_FD_WARNINGS=1")
	}
	t.Fatalf("lvm %s: %v\n%s", fmt.Sprint(args), err, out)
	return ""
}
