package observe

import (
	"bytes"
	"os"
	"path/filepath"

	"quarry.storage/quarry/agent/internal/doctor"
)

// called are the programs that the agent calls.
var called = map[string][]string{
	doctor.Node:  {"nsenter", "lvm", "mkfs.ext4", "e2fsck", "mkfs.xfs", "mkfs.btrfs"},
	doctor.Lvm:   {"thin_check"},
	doctor.Iscsi: {"iscsid", "iscsiadm"},
}

func (c Config) programs() (out []doctor.Program) {
	for topic, names := range called {
		for _, name := range names {
			out = append(out, doctor.Program{Name: name, For: topic, Found: found(c.Root, name) != ""})
		}
	}
	return out
}

// found returns where a program is, below a root whose links do not lead out of it; empty where there is none.
func found(root, name string) string {
	r, err := os.OpenRoot(root)
	if err != nil {
		return ""
	}
	defer func() { _ = r.Close() }() // Nothing was written.
	for _, dir := range []string{"usr/sbin", "usr/bin", "sbin", "bin"} {
		path := filepath.Join(dir, name)
		// Links such as those of update-alternatives are absolute, and are there.
		if info, err := r.Lstat(path); err == nil && !info.IsDir() {
			return "/" + path
		}
	}
	return ""
}

func trimmed(text []byte) []byte { return bytes.TrimSpace(text) }

// said is what an error says; nothing for none.
func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
