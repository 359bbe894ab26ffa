package lvm

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// DefaultLockDir is the locking directory that LVM is built with everywhere.
const DefaultLockDir = "/run/lock/lvm"

// configuration is the whole lvm.conf; %[1]s is our directory, %[2]s the host's locking directory, %[3]s where the system ID comes from and
// %[4]s the ID.
//
// No AIO: tearing its context down dominates short commands. No devices file, hints, udev lists: the devices come with
// every command. No udev synchronisation, event activation, monitoring, polling daemon or D-Bus: none of them can be
// reached from a container, and waiting for them hangs.
//
// LVM keeps the last 64 archives of a group's metadata. With a number of days it would keep all that are younger, however many.
const configuration = `config {
	checks=1
	abort_on_errors=0
}
devices {
	dir="/dev"
	use_devicesfile=0
	obtain_device_list_from_udev=0
	external_device_info_source="none"
	hints="none"
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

// writeConfig writes lvm.conf, unless it is there with the same content already. Without a system ID the host has none.
func writeConfig(dir, lockDir, systemID string) error {
	for _, s := range []string{dir, lockDir, systemID} {
		if strings.ContainsAny(s, "\"\\\n") {
			return fmt.Errorf("%w: %q in the configuration", ErrInvalid, s)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(dir, "lvm.conf")
	source := "none"
	if systemID != "" {
		source = "lvmlocal"
	}
	want := fmt.Appendf(nil, configuration, dir, lockDir, source, systemID)
	if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, want) {
		return nil
	}
	tmp := file + ".new"
	if err := os.WriteFile(tmp, want, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}
