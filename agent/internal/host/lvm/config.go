package lvm

import (
	"bytes"
	"context"
	_ "embed" // of the script
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/quarry"
)

// DefaultLockDir is the locking directory that LVM is built with everywhere.
const DefaultLockDir = "/run/lock/lvm"

// configuration is the whole lvm.conf; %[1]s is our directory, %[2]s the host's locking directory, %[3]s where the system ID comes from,
// %[4]s the ID and %[5]s which hints are used.
//
// No AIO: tearing its context down dominates short commands. No devices file, hints, udev lists: the devices come with
// every command. No udev synchronisation, event activation, monitoring, polling daemon or D-Bus: none of them can be
// reached from a container, and waiting for them hangs.
//
// LVM keeps the last 64 archives of a group's metadata. With a number of days it would keep all that are younger, however many.
// Those of groups that were removed are pruned by age; see prune.
const configuration = `config {
	checks=1
	abort_on_errors=0
}
devices {
	dir="/dev"
	use_devicesfile=0
	obtain_device_list_from_udev=0
	external_device_info_source="none"
	hints="%[5]s"
	scan_lvs=0
	multipath_component_detection=1
	md_component_detection=1
}
global {
	use_aio=0
	use_lvmpolld=0
	use_lvmlockd=0
	event_activation=0
	notify_dbus=0
	locking_dir="%[2]s"
	system_id_source="%[3]s"
}
local {
	system_id="%[4]s"
}
activation {
	udev_sync=0
	udev_rules=0
	monitoring=0
}
backup {
	backup=1
	backup_dir="%[1]s/backup"
	archive=1
	archive_dir="%[1]s/archive"
	retain_min=64
	retain_days=0
}
report {
	output_format="json"
	time_format="%%s"
}
`

// clearsHints are the commands of the agent that change which devices are physical volumes, and of which groups. The host's own LVM looks at no other devices than those in
// its hints, /run/lvm/hints: these commands clear them, unless hints are switched off, and never use them.
var clearsHints = []string{"pvcreate", "vgcreate", "vgremove", "vgextend", "vgreduce"}

// hintsDir holds the configuration of these commands, which is the same but for the hints.
func hintsDir(dir string) string { return filepath.Join(dir, "hints") }

// writeConfig writes lvm.conf, and the script that repairs. Without a system ID the host has none.
func writeConfig(dir, lockDir, systemID string) error {
	for _, s := range []string{dir, lockDir, systemID} {
		if strings.ContainsAny(s, "\"\\\n") {
			return fmt.Errorf("%w: %q in the configuration", ErrInvalid, s)
		}
	}
	source := "none"
	if systemID != "" {
		source = "lvmlocal"
	}
	for at, hints := range map[string]string{dir: "none", hintsDir(dir): "all"} {
		if err := os.MkdirAll(at, 0o700); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(at, "lvm.conf"), fmt.Appendf(nil, configuration, dir, lockDir, source, systemID, hints)); err != nil {
			return err
		}
	}
	return writeFile(repairScript(dir), thinRepair)
}

// writeFile writes a file, unless it is there with the same content already.
func writeFile(file string, want []byte) error {
	if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, want) {
		return nil
	}
	tmp := file + ".new"
	if err := os.WriteFile(tmp, want, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}

// thinRepair is what LVM runs in the place of thin_repair.
//
//go:embed thin_repair.sh
var thinRepair []byte

func repairScript(dir string) string { return filepath.Join(dir, "thin_repair.sh") }

var (
	nameForm = regexp.MustCompile(`^[a-zA-Z0-9+_.][a-zA-Z0-9+_.-]{0,126}$`)
	tagForm  = regexp.MustCompile(`^[a-zA-Z0-9+_.][a-zA-Z0-9+_./=!:&#-]*$`)
	uuidForm = regexp.MustCompile(`^[a-zA-Z0-9]{6}(-[a-zA-Z0-9]{4}){5}-[a-zA-Z0-9]{6}$`)
)

// CheckName refuses, with ErrInvalid, what is no name of a volume group or a volume, among it everything that could be read as an option.
func CheckName(name string) error {
	if !nameForm.MatchString(name) || name == "." || name == ".." {
		return fmt.Errorf("%w: name %q", ErrInvalid, name)
	}
	return nil
}

// CheckTag refuses, with ErrInvalid, what LVM does not take as a tag.
func CheckTag(tag string) error {
	if len(tag) > 1024 || !tagForm.MatchString(tag) {
		return fmt.Errorf("%w: tag %q", ErrInvalid, tag)
	}
	return nil
}

// validDevice wants an absolute, clean path. A comma would make two devices of it, "@" at its start a tag.
func validDevice(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsAny(path, ",\n\x00") {
		return fmt.Errorf("%w: device %q", ErrInvalid, path)
	}
	return nil
}

// systemIDForm are the IDs that LVM keeps as they are. It cuts longer ones, leaves out other characters, and takes none that begins with
// "localhost", all without an error.
var systemIDForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`)

// hostID is the system ID that LVM is to know this host by.
type hostID struct {
	want  string
	mu    sync.Mutex
	known bool
}

// checkHost asks LVM, until it has said so once, whether it knows this host by its system ID. With another one, or none, LVM would make
// groups that are another host's, or nobody's, and call our own foreign.
func (l *LVM) checkHost(ctx context.Context) error {
	l.host.mu.Lock()
	defer l.host.mu.Unlock()
	if l.host.want == "" || l.host.known {
		return nil
	}
	res, err := l.runner.Run(ctx, run.Command{Path: l.binary, Args: []string{"systemid", "--driverloaded", "n"}, Env: l.env})
	if err != nil {
		return fmt.Errorf("system ID: %w", classify(err))
	}
	for line := range strings.Lines(string(res.Stdout)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "system ID:"); ok {
			if id = strings.TrimSpace(id); id != l.host.want {
				return fmt.Errorf("%w: LVM knows this host by the system ID %q, not %q", ErrSystemID, id, l.host.want)
			}
			l.host.known = true
			return nil
		}
	}
	return fmt.Errorf("%w: lvm systemid: no ID in %q", ErrSystemID, res.Stdout)
}

// StampVG gives the group, which stands on groupDevices now and carries no system ID, that of this host. Nothing that is in it changes, and
// active volumes stay active. One that carries it already is ErrExists, one of another host ErrForeign, and one that lacks a device
// ErrPartial.
func (l *LVM) StampVG(ctx context.Context, name string, groupDevices []string) error {
	if err := l.setSystemID(ctx, name, groupDevices); err != nil {
		return fmt.Errorf("stamp vg %q: %w", name, err)
	}
	return nil
}

// ImportVG gives the group, which stands on groupDevices now and carries the system ID of the host from, that of this host. A group of any
// other host is ErrForeign.
func (l *LVM) ImportVG(ctx context.Context, name, from string, groupDevices []string) error {
	if !systemIDForm.MatchString(from) {
		return fmt.Errorf("import vg %q: %w: system ID %q", name, ErrInvalid, from)
	}
	if err := l.setSystemID(ctx, name, groupDevices, "--config", fmt.Sprintf("local/extra_system_ids=[%q]", from)); err != nil {
		return fmt.Errorf("import vg %q: %w", name, err)
	}
	return nil
}

// TakeOverVG makes the group, which stands on groupDevices now, that of the owner to in place of the owner from, in one write of its metadata. A tag
// keeps that it was the former's.
func (l *LVM) TakeOverVG(ctx context.Context, name, from, to string, groupDevices []string) error {
	was, is, before := quarry.TagCluster+from, quarry.TagCluster+to, quarry.TagOwnerBefore+from
	for _, err := range []error{CheckName(name), CheckTag(was), CheckTag(is), CheckTag(before)} {
		if err != nil {
			return fmt.Errorf("take over vg %q: %w", name, err)
		}
	}
	if _, err := l.run(ctx, groupDevices, "vgchange", "--deltag", was, "--addtag", is, "--addtag", before, name); err != nil {
		return fmt.Errorf("take over vg %q: %w", name, err)
	}
	return nil
}

func (l *LVM) setSystemID(ctx context.Context, name string, groupDevices []string, options ...string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if l.host.want == "" {
		return fmt.Errorf("%w: this host has no system ID", ErrInvalid)
	}
	_, err := l.run(ctx, groupDevices, "vgchange", append(options, "--systemid", l.host.want, name)...)
	return err
}
