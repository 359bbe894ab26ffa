// Package observe looks at a node for the doctor. It changes nothing: it reads files, asks the host's modprobe what it would load and multipathd what it works
// with, and reads the reservations of LUNs that are there already.
package observe

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"quarry.storage/quarry/agent/internal/doctor"
	"quarry.storage/quarry/agent/internal/host/iscsi"
	"quarry.storage/quarry/agent/internal/host/iscsi/pathconf"
	"quarry.storage/quarry/agent/internal/host/module"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Initiator is what makes sessions on the node.
type Initiator interface {
	Initiator(ctx context.Context) (sharedlun.Initiator, error)
	Sessions(iqn string) ([]iscsi.Session, error)
	Luns(sessions []iscsi.Session) ([]sharedlun.Lun, error)
	PathConfig(ctx context.Context) (pathconf.Config, error)
}

// Config says what to look with. Empty paths mean the host's own.
type Config struct {
	// Name of the node, and Version of the agent.
	Name, Version string
	// InPod is true in a pod: Kubernetes says so in its environment.
	InPod bool
	// Proc and Dev are the host's /proc and /dev. Programs are looked for below Root.
	Proc, Dev, Root string
	Modules         interface {
		State(ctx context.Context, name string) (module.State, error)
	}
	Initiator    Initiator
	Reservations interface {
		Read(ctx context.Context, device string) (sharedlun.Reservation, error)
	}
	// Clock reports whether something sets the clock.
	Clock func() (bool, error)
}

// timeout is for all that is asked of one node.
const timeout = time.Minute

// parts are the parts of the kernel that storage types need.
var parts = []string{"ceph", "dm_crypt", "dm_mod", "dm_multipath", "dm_snapshot", "dm_thin_pool", "iscsi_tcp", "nfsv4", "xfs"}

// Look observes the node.
func Look(ctx context.Context, cfg Config) doctor.Facts {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cfg.Proc, cfg.Dev, cfg.Root = cmp.Or(cfg.Proc, "/proc"), cmp.Or(cfg.Dev, "/dev"), cmp.Or(cfg.Root, "/")
	f := doctor.Facts{Name: cfg.Name, Version: cfg.Version}
	if f.InImage, f.Host = cfg.place(); f.Host != "" {
		return f
	}
	release, err := os.ReadFile(filepath.Join(cfg.Proc, "sys/kernel/osrelease"))
	if err != nil {
		f.Host = err.Error()
		return f
	}
	f.Release = string(trimmed(release))
	f.Parts = map[string]doctor.Part{}
	for _, name := range parts {
		state, err := cfg.Modules.State(ctx, name)
		f.Parts[name] = doctor.Part{Here: state == module.Present, Loadable: state == module.Loadable, Unread: said(err)}
	}
	yes, err := cfg.Clock()
	f.Clock = doctor.Answer{Yes: yes, Unread: said(err)}
	f.Udev = cfg.udev()
	f.Programs = cfg.programs()
	cfg.initiator(ctx, &f)
	cfg.luns(ctx, &f)
	return f
}

// place reports whether this is the agent's image, and why the host cannot be seen from here.
func (c Config) place() (inImage bool, blind string) {
	first, errFirst := os.Readlink(filepath.Join(c.Proc, "1/ns/mnt"))
	self, errSelf := os.Readlink(filepath.Join(c.Proc, "self/ns/mnt"))
	switch {
	case errFirst != nil:
		return false, errFirst.Error()
	case errSelf != nil:
		return false, errSelf.Error()
	case first == self && c.InPod:
		return true, "process 1 is the pod's own"
	}
	if _, err := os.Stat(filepath.Join(c.Proc, "1/root/proc")); err != nil {
		return first != self, fmt.Sprintf("the root of process 1: %v", err)
	}
	return first != self, ""
}

// udev looks for udev's socket, and for its database, which begins anew with each boot.
func (c Config) udev() doctor.Answer {
	dir := filepath.Join(c.Proc, "1/root/run/udev")
	for _, name := range []string{"control", "data"} {
		if _, err := os.Stat(filepath.Join(dir, name)); os.IsNotExist(err) {
			return doctor.Answer{}
		} else if err != nil {
			return doctor.Answer{Unread: err.Error()}
		}
	}
	return doctor.Answer{Yes: true}
}
