package observe

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/doctor"
	"quarry.storage/quarry/agent/internal/host/iscsi"
	"quarry.storage/quarry/agent/internal/host/iscsi/pathconf"
	"quarry.storage/quarry/agent/internal/host/module"
	"quarry.storage/quarry/pkg/sharedlun"
)

type fake struct {
	initiator sharedlun.Initiator
	conf      pathconf.Config
	luns      []sharedlun.Lun
	asked     []string
	failure   error
}

func (f *fake) Initiator(context.Context) (sharedlun.Initiator, error) { return f.initiator, f.failure }
func (f *fake) Sessions(string) ([]iscsi.Session, error)               { return nil, f.failure }
func (f *fake) Luns([]iscsi.Session) ([]sharedlun.Lun, error)          { return f.luns, nil }
func (f *fake) PathConfig(context.Context) (pathconf.Config, error)    { return f.conf, f.failure }

func (f *fake) State(_ context.Context, name string) (module.State, error) {
	switch name {
	case "dm_mod":
		return module.Present, nil
	case "iscsi_tcp":
		return module.Loadable, nil
	case "ceph":
		return module.Unknown, errors.New("no modprobe")
	}
	return module.Missing, nil
}

func (f *fake) Read(_ context.Context, device string) (sharedlun.Reservation, error) {
	f.asked = append(f.asked, device)
	return sharedlun.Reservation{Supported: true}, nil
}

// host makes a /proc in which process 1 has other mounts than this one, and below it the root of a host with udev and iscsiadm.
func host(t *testing.T, f *fake) Config {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "proc/1/root")
	for _, d := range []string{"proc/1/ns", "proc/self/ns", "proc/sys/kernel", "image/usr/sbin"} {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for _, d := range []string{"proc", "run/udev/data", "usr/sbin"} {
		must(t, os.MkdirAll(filepath.Join(root, d), 0o755))
	}
	must(t, os.Symlink("mnt:[1]", filepath.Join(dir, "proc/1/ns/mnt")))
	must(t, os.Symlink("mnt:[2]", filepath.Join(dir, "proc/self/ns/mnt")))
	for _, file := range []string{filepath.Join(root, "run/udev/control"), filepath.Join(root, "usr/sbin/iscsiadm"), filepath.Join(dir, "image/usr/sbin/lvm")} {
		must(t, os.WriteFile(file, nil, 0o755))
	}
	must(t, os.WriteFile(filepath.Join(dir, "proc/sys/kernel/osrelease"), []byte("6.12.1\n"), 0o644))
	return Config{
		Name: "n1", Version: "v1", InPod: true, Proc: filepath.Join(dir, "proc"), Dev: "/dev", Root: filepath.Join(dir, "image"),
		Modules: f, Initiator: f, Reservations: f, Clock: func() (bool, error) { return true, nil },
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLook(t *testing.T) {
	f := &fake{
		initiator: sharedlun.Initiator{Name: "iqn.2026-01.org.example:n1", Multipath: true},
		conf:      pathconf.Config{Overrides: "12", Devices: []pathconf.Device{{Vendor: "NETAPP", Product: "LUN", NoPathRetry: "queue"}, {Vendor: "IBM", NoPathRetry: "30"}}},
		luns:      []sharedlun.Lun{{Paths: []sharedlun.Path{{Device: "sda"}, {Device: "sdb", Up: true, Target: "iqn.2026-01.org.example:disk"}, {Device: "sdc", Up: true}}}, {Paths: []sharedlun.Path{{Device: "sdd"}}}},
	}
	got := Look(t.Context(), host(t, f))
	want := doctor.Facts{
		Name: "n1", Version: "v1", Release: "6.12.1", InImage: true, Udev: doctor.Answer{Yes: true}, Clock: doctor.Answer{Yes: true},
		Parts: map[string]doctor.Part{
			"ceph": {Unread: "no modprobe"}, "dm_crypt": {}, "dm_mod": {Here: true}, "iscsi_tcp": {Loadable: true}, "dm_multipath": {}, "dm_snapshot": {}, "dm_thin_pool": {}, "nfsv4": {}, "xfs": {},
		},
		Initiator: doctor.Initiator{Name: "iqn.2026-01.org.example:n1", HostTool: "/usr/sbin/iscsiadm"},
		Multipath: doctor.Multipath{Runs: true, Overrides: "12", Queueing: []string{"NETAPP LUN"}},
		Luns:      []doctor.Lun{{Device: "sdb", Target: "iqn.2026-01.org.example:disk", Reservations: doctor.Answer{Yes: true}}},
	}
	for _, p := range got.Programs {
		if p.Found != (p.Name == "lvm") {
			t.Errorf("program %s: found: %v", p.Name, p.Found)
		}
	}
	got.Programs = nil
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// One path that works is asked, and a LUN without one is not.
	if len(f.asked) != 1 || f.asked[0] != "/dev/sdb" {
		t.Errorf("asked %v", f.asked)
	}
}

// TestLook_unread: what cannot be read is told, and never counts as there.
func TestLook_unread(t *testing.T) {
	f := &fake{initiator: sharedlun.Initiator{Multipath: true}, failure: errors.New("denied")}
	got := Look(t.Context(), host(t, f))
	if got.Initiator.Problem == "" || got.Multipath.Unread == "" || got.LunsUnread == "" {
		t.Errorf("%+v", got)
	}
	cfg := host(t, f)
	must(t, os.Remove(filepath.Join(cfg.Proc, "1/root/run/udev/control")))
	if got := Look(t.Context(), cfg).Udev; got != (doctor.Answer{}) {
		t.Errorf("no udev: %+v", got)
	}
	must(t, os.Remove(filepath.Join(cfg.Proc, "self/ns/mnt")))
	must(t, os.Symlink("mnt:[1]", filepath.Join(cfg.Proc, "self/ns/mnt")))
	if got := Look(t.Context(), cfg); got.Host == "" || got.Parts != nil {
		t.Errorf("a pod without hostPID: %+v", got)
	}
	if cfg.InPod = false; Look(t.Context(), cfg).InImage {
		t.Error("a shell of the host counts as the image")
	}
	must(t, os.Remove(filepath.Join(cfg.Proc, "1/ns/mnt")))
	if got := Look(t.Context(), cfg); got.Host == "" {
		t.Errorf("a host that cannot be seen: %+v", got)
	}
}
