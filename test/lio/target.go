//go:build hostroot

package lio

import (
	"crypto/md5"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Portals on which a target listens: both are the node's own.
var Portals = []string{"127.0.0.1:3260", "127.0.0.2:3260"}

const (
	configfs = "/sys/kernel/config"
	root     = configfs + "/target"
	// persisted is where the target keeps the reservations of initiators that ask for it.
	persisted = "/var/target/pr"
)

// Target is a target of this node.
type Target struct {
	t    *testing.T
	IQN  string
	dir  string
	luns []string
}

// New makes a target with all portals, and one LUN in a file of 64 MiB. It is taken away when the test ends, after the sessions with it.
func New(t *testing.T, iqn string) *Target {
	t.Helper()
	for _, m := range []string{"target_core_mod", "target_core_file", "iscsi_target_mod", "iscsi_tcp", "dm_multipath"} {
		Run(t, "modprobe", m)
	}
	if _, err := os.Stat(root); err != nil {
		must(t, unix.Mount("none", configfs, "configfs", 0, ""))
	}
	must(t, os.MkdirAll(persisted, 0o700))
	x := &Target{t: t, IQN: iqn, dir: filepath.Join(root, "iscsi", iqn, "tpgt_1")}
	t.Cleanup(x.remove)
	must(t, os.MkdirAll(x.dir, 0o755))
	for _, p := range Portals {
		must(t, os.MkdirAll(filepath.Join(x.dir, "np", p), 0o755))
	}
	for name, value := range map[string]string{
		"generate_node_acls": "1", "cache_dynamic_acls": "1", "demo_mode_write_protect": "0", "authentication": "0",
	} {
		write(t, filepath.Join(x.dir, "attrib", name), value)
	}
	x.AddLun(0, "serial-"+iqn[strings.LastIndex(iqn, ":")+1:])
	x.Start()
	return x
}

// AddLun makes a LUN with a unit serial number. Another serial number is another LUN.
func (x *Target) AddLun(number int, serial string) {
	x.t.Helper()
	name := strings.NewReplacer(":", "_", ".", "_").Replace(x.IQN) + "_" + serial
	file := filepath.Join(x.t.TempDir(), "lun")
	must(x.t, os.WriteFile(file, nil, 0o600))
	must(x.t, os.Truncate(file, 64<<20))
	store := filepath.Join(root, "core", "fileio_0", name)
	must(x.t, os.MkdirAll(store, 0o755))
	write(x.t, filepath.Join(store, "control"), "fd_dev_name="+file+",fd_dev_size=67108864")
	// The target makes the WWID of the digits of the serial number.
	serial = fmt.Sprintf("%x", md5.Sum([]byte(serial)))
	write(x.t, filepath.Join(store, "wwn", "vpd_unit_serial"), serial)
	write(x.t, filepath.Join(store, "enable"), "1")
	lun := filepath.Join(x.dir, "lun", fmt.Sprintf("lun_%d", number))
	must(x.t, os.MkdirAll(lun, 0o755))
	must(x.t, os.Symlink(store, filepath.Join(lun, "store")))
	x.luns = append(x.luns, store)
}

// DropLun takes a LUN away.
func (x *Target) DropLun(number int) {
	lun := filepath.Join(x.dir, "lun", fmt.Sprintf("lun_%d", number))
	_ = os.Remove(filepath.Join(lun, "store"))
	_ = os.Remove(lun)
}

// Chap lets the target ask for credentials, and show its own if it has any. Without a user it asks for none.
func (x *Target) Chap(user, password, mutualUser, mutualPassword string) {
	x.t.Helper()
	on := "0"
	if user != "" {
		on = "1"
	}
	write(x.t, filepath.Join(x.dir, "attrib", "authentication"), on)
	for name, value := range map[string]string{
		"userid": user, "password": password, "userid_mutual": mutualUser, "password_mutual": mutualPassword,
	} {
		if value == "" {
			value = "NULL"
		}
		write(x.t, filepath.Join(x.dir, "auth", name), value)
	}
}

// Reservations lets the target keep persistent reservations of all its LUNs, or say that it knows none.
func (x *Target) Reservations(on bool) {
	x.t.Helper()
	for _, store := range x.luns {
		write(x.t, filepath.Join(store, "attrib", "emulate_pr"), map[bool]string{false: "0", true: "1"}[on])
	}
}

// Reserve reserves a LUN with a type for a key that the path has.
func Reserve(t *testing.T, device string, key uint64, kind uint32) {
	t.Helper()
	argv := []string{"--out", "--reserve", fmt.Sprintf("--param-rk=%#x", key), fmt.Sprintf("--prout-type=%d", kind), device}
	// The first one may be told of an earlier event instead.
	if exec.Command("sg_persist", argv...).Run() != nil {
		Run(t, append([]string{"sg_persist"}, argv...)...)
	}
}

// Start lets the target serve.
func (x *Target) Start() { write(x.t, filepath.Join(x.dir, "enable"), "1") }

// Stop lets it serve nobody: sessions lose their connections, and their registrations stay.
func (x *Target) Stop() { write(x.t, filepath.Join(x.dir, "enable"), "0") }

// DropPortal takes a portal away, with the connections to it. AddPortal brings it back.
func (x *Target) DropPortal(portal string) { must(x.t, os.Remove(filepath.Join(x.dir, "np", portal))) }

// AddPortal makes a portal.
func (x *Target) AddPortal(portal string) {
	must(x.t, os.MkdirAll(filepath.Join(x.dir, "np", portal), 0o755))
}

// remove takes the target away. What is not there any more needs no work.
func (x *Target) remove() {
	_ = exec.Command("iscsiadm", "-m", "node", "-T", x.IQN, "-u").Run()
	_ = exec.Command("iscsiadm", "-m", "node", "-T", x.IQN, "-o", "delete").Run()
	_ = os.WriteFile(filepath.Join(x.dir, "enable"), []byte("0"), 0o600)
	for _, pattern := range []string{"lun/*/store", "acls/*/lun_*/*", "acls/*/lun_*", "acls/*", "lun/lun_*", "np/*", "."} {
		found, _ := filepath.Glob(filepath.Join(x.dir, pattern))
		for _, path := range found {
			_ = os.Remove(path)
		}
	}
	_ = os.Remove(filepath.Dir(x.dir))
	for _, store := range x.luns {
		if err := os.Remove(store); err != nil {
			x.t.Logf("a LUN is left: %v", err)
		}
	}
}

// InitiatorName is the name of the initiator that Iface makes.
func InitiatorName(iface string) string { return "iqn.2026-01.storage.quarry.lab:" + iface }

// Iface makes an initiator of another name: sessions through it are those of another host.
func Iface(t *testing.T, name string) {
	t.Helper()
	Daemon(t)
	_ = exec.Command("iscsiadm", "-m", "iface", "-I", name, "-o", "new").Run() // It may be there.
	Run(t, "iscsiadm", "-m", "iface", "-I", name, "-o", "update", "-n", "iface.initiatorname", "-v", InitiatorName(name))
	Run(t, "iscsiadm", "-m", "iface", "-I", name, "-o", "update", "-n", "iface.transport_name", "-v", "tcp")
}

// Login makes the sessions of an initiator with every portal, and returns the paths to the LUNs, ordered as the portals.
func (x *Target) Login(iface string) []string {
	x.t.Helper()
	before := devices()
	for _, p := range Portals {
		Run(x.t, "iscsiadm", "-m", "node", "-o", "new", "-I", iface, "-T", x.IQN, "-p", p+",1")
		Run(x.t, "iscsiadm", "-m", "node", "-I", iface, "-T", x.IQN, "-p", p, "-l")
	}
	var found []string
	for range 100 {
		found = slices.DeleteFunc(devices(), func(d string) bool { return slices.Contains(before, d) })
		if len(found) == len(Portals) {
			return found
		}
		time.Sleep(50 * time.Millisecond)
	}
	x.t.Fatalf("found the paths %v only", found)
	return nil
}

func devices() []string {
	found, _ := filepath.Glob("/dev/sd*")
	slices.Sort(found)
	return found
}

// Run runs a command of the node.
func Run(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
}

func write(t *testing.T, path, value string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(value), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// multipathConf joins what iSCSI shows, and gives up when the last path is gone.
const multipathConf = `defaults {
	user_friendly_names no
	find_multipaths no
	no_path_retry 12
}
blacklist {
	devnode "^ubd"
}
`

// Multipathd runs multipathd until the test ends.
func Multipathd(t *testing.T) {
	t.Helper()
	must(t, os.MkdirAll("/etc/multipath", 0o755))
	must(t, os.WriteFile("/etc/multipath.conf", []byte(multipathConf), 0o600))
	cmd := exec.Command("multipathd", "-d")
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM) // It may be gone.
		_ = cmd.Wait()                       // How it ended is nobody's business.
	})
	for range 100 {
		if text, _ := os.ReadFile("/proc/net/unix"); strings.Contains(string(text), "multipathd") {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("multipathd does not start")
}
