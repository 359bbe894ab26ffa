// Package nfs runs the kernel's NFS server in the lab's storage node. It knows
// the server's programs and files, not the lab. It runs nowhere but in a node.
package nfs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/test/lab/internal/service"
	"quarry.storage/quarry/test/lab/internal/spec"
	"quarry.storage/quarry/test/lab/internal/state"
)

const (
	// disk has the exports.
	disk = "/dev/ubdb"
	// root is where the disk is mounted, and the root of what clients see: the
	// server cannot serve from the overlay that is the node's own root.
	root = "/srv/storage"
	// pipes is where the kernel talks to the tracker of its clients.
	pipes       = "/run/rpc_pipefs"
	controlDir  = "/proc/fs/nfsd"
	trackerDir  = "/var/lib/nfs/nfsdcld"
	exportsFile = "/etc/exports"
)

// The ports of the server and of its mount service.
const (
	serverPort = "2049"
	mountPort  = "20048"
)

// config makes a client that comes back wait for seconds instead of minutes:
// while the server is in its grace period after a start, it refuses new opens
// to those that had none before.
const config = `[general]
pipefs-directory=` + pipes + `
[exports]
rootdir=` + root + `
[mountd]
port=` + mountPort + `
[nfsd]
threads=8
grace-time=10
lease-time=10
vers3=y
vers4=y
vers4.0=y
vers4.1=y
vers4.2=y
`

// Serve starts the server and keeps its programs running until the context
// ends. It returns early only when the server could not be started.
func Serve(ctx context.Context, exports []spec.Export, logs string) error {
	if err := mountAll(ctx); err != nil {
		return err
	}
	if err := prepareTracker(ctx); err != nil {
		return err
	}
	if err := state.WriteFile("/etc/nfs.conf", []byte(config), 0o644); err != nil {
		return err
	}
	go service.FlushLogs(ctx, logs)
	// It has the version 3 clients' map from services to ports.
	go service.Supervise(ctx, logs, "rpcbind", "rpcbind", "-f", "-w")
	// Newer kernels keep the list of clients that may reclaim their state in
	// no other way than through this program.
	go service.Supervise(ctx, logs, "nfsdcld", "nfsdcld", "-F")
	if err := waitForPort(ctx, "111"); err != nil {
		return err
	}
	if err := Apply(ctx, exports); err != nil {
		return err
	}
	if err := run(ctx, "rpc.nfsd"); err != nil {
		return err
	}
	service.Supervise(ctx, logs, "mountd", "rpc.mountd", "-F")
	return ctx.Err()
}

// mountAll mounts the disk and the kernel's interfaces.
func mountAll(ctx context.Context) error {
	if err := run(ctx, "modprobe", "-a", "nfsd", "auth_rpcgss"); err != nil {
		return err
	}
	exportDir := filepath.Join(root, spec.ExportDir)
	for _, m := range []struct {
		source, target, fstype string
		flags                  uintptr
	}{
		{disk, root, "ext4", unix.MS_NOATIME},
		{"rpc_pipefs", pipes, "rpc_pipefs", 0},
		{"nfsd", controlDir, "nfsd", 0},
		// For those who look from the node itself.
		{exportDir, spec.ExportDir, "", unix.MS_BIND},
	} {
		if m.source == exportDir {
			if err := os.MkdirAll(exportDir, 0o755); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		err := unix.Mount(m.source, m.target, m.fstype, m.flags, "")
		// Loading the server's module may have mounted its directory.
		if err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s on %s: %w", m.source, m.target, err)
		}
	}
	return nil
}

// prepareTracker makes the directory of the tracker's database. Its database
// counts a change as made once its journal is removed, and does not wait until
// the removal is on disk: without this flag, clients of the last seconds before
// a power cut could not reclaim their state.
func prepareTracker(ctx context.Context) error {
	if err := os.MkdirAll(trackerDir, 0o700); err != nil {
		return err
	}
	return run(ctx, "chattr", "+D", trackerDir)
}

// Apply makes the directories of all exports and the server serve these.
func Apply(ctx context.Context, exports []spec.Export) error {
	var text strings.Builder
	for _, e := range exports {
		if err := os.MkdirAll(e.Path(), 0o755); err != nil {
			return err
		}
		fmt.Fprintln(&text, e.Line())
	}
	if err := state.WriteFile(exportsFile, []byte(text.String()), 0o644); err != nil {
		return err
	}
	return run(ctx, "exportfs", "-r", "-a")
}

// Ready is an error until the server answers.
func Ready(ctx context.Context) error {
	for _, port := range []string{serverPort, mountPort} {
		if err := dial(ctx, port); err != nil {
			return err
		}
	}
	return nil
}

// startPatience is how long a program of the server may take to answer.
const startPatience = 20 * time.Second

func waitForPort(ctx context.Context, port string) error {
	deadline := time.Now().Add(startPatience)
	for {
		err := dial(ctx, port)
		if err == nil || time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func dial(ctx context.Context, port string) error {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return err
	}
	return conn.Close()
}

func run(ctx context.Context, program string, args ...string) error {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(string(out)))
	}
	return nil
}
