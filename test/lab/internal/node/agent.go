package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"quarry.storage/quarry/test/lab/internal/nfs"
	"quarry.storage/quarry/test/lab/internal/remote"
)

// Agent brings a node's services up in order and keeps them running. The exec
// server comes first, so that a node that gets stuck can be looked at.
func Agent(ctx context.Context, c Config) error {
	if err := os.Setenv("PATH", strings.Join(append(c.Path, os.Getenv("PATH")), ":")); err != nil {
		return err
	}
	listener, err := listenApart(c.ManagementIP)
	if err != nil {
		return fmt.Errorf("exec server: %w", err)
	}
	go remote.Serve(listener) //nolint:errcheck // it ends with the node
	steps := []struct {
		name string
		run  func(Config) error
	}{
		{"network", setUpNetwork},
		{"kernel modules", loadModules},
		{"devices", startUdev},
		{"SCSI disks", attachSCSIDisks},
	}
	for _, s := range steps {
		started := time.Now()
		if err := s.run(c); err != nil {
			// A node that lacks something is still worth looking at.
			logf("%s: %v", s.name, err)
			continue
		}
		logf("%s ready after %s", s.name, time.Since(started).Round(time.Millisecond))
	}
	if c.Storage != nil {
		return nfs.Serve(ctx, c.Storage.Exports, logDir)
	}
	if c.Bare {
		return runBare(ctx)
	}
	return runServices(ctx, c)
}

// BareReady is a file that a node of a bare lab makes once its devices are there.
const BareReady = runDir + "/ready"

// runBare leaves the node to those who run commands in it.
func runBare(ctx context.Context) error {
	if err := writeFile(BareReady, ""); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// logf writes to the node's console, which the machine keeps as a file.
func logf(format string, args ...any) {
	fmt.Printf("lab: "+format+"\n", args...)
}

// modules are what the kubelet, the pod network and the storage tests use. The
// kernel loads some others by itself when they are first needed.
var modules = []string{
	"veth", "bridge",
	"dm-mod", "dm-thin-pool", "dm-snapshot", "dm-crypt", "dm-mirror", "dm-raid",
	"raid0", "raid1", "raid10", "raid456", "bcache", "loop",
	"target_core_mod", "target_core_file", "target_core_iblock", "tcm_loop",
	"sd_mod", "sg", "iscsi_tcp", "configfs",
}

// storageModules are what the storage node uses.
var storageModules = []string{"loop", "dm-mod", "configfs"}

func loadModules(c Config) error {
	wanted := modules
	if c.Storage != nil {
		wanted = storageModules
	}
	out, err := exec.Command("modprobe", append([]string{"-a", "-q"}, wanted...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("modprobe: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// startUdev starts udev and lets it see the devices that are there already.
func startUdev(Config) error {
	for _, dir := range []string{"/run/udev", "/run/lock/lvm", "/run/lvm"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"/lib/systemd/systemd-udevd", "--daemon"},
		// Hundreds of terminals would take most of the time.
		{"udevadm", "trigger", "--subsystem-nomatch=tty"},
		{"udevadm", "settle", "--timeout=20"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", filepath.Base(args[0]), err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

func attachSCSIDisks(c Config) error {
	for _, d := range c.SCSI {
		if _, err := AddSCSI(d); err != nil {
			return err
		}
	}
	return nil
}

// waitForSocket waits until something accepts connections on a unix socket.
func waitForSocket(path string, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		conn, err := net.Dial("unix", path)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
