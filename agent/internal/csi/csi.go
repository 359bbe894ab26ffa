// Package csi is the CSI identity and node service of a driver, as the kubelet calls it, and the driver's registration with the
// kubelet. It is a frame over the Source of one storage: it makes volumes of this node usable and knows nothing of how they come to
// exist. It computes every answer from what the kernel and the source say at that moment, and remembers nothing between calls.
package csi

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/pkg/csirpc"
)

// Filesystems looks after filesystems on devices.
type Filesystems interface {
	// Probe tells what is on a device; "" when it holds nothing at all.
	Probe(ctx context.Context, device string) (string, error)
	// Own gives a filesystem, of which copies cannot be mounted beside each other, the UUID that is its own.
	Own(ctx context.Context, device, fsType, uuid string) error
	// Check makes a filesystem consistent before it is mounted, and tells how far it is.
	Check(ctx context.Context, device, fsType string, tell func(string)) error
	// DiscardOption is the mount option with which a filesystem discards what its files give up.
	DiscardOption(fsType string) string
	// Grow makes a mounted filesystem as large as its device.
	Grow(ctx context.Context, device, mountPoint string) error
	// Usage measures a mounted filesystem.
	Usage(mountPoint string) (fs.Usage, error)
}

// Places makes and removes what volumes are mounted on.
type Places interface {
	// Check refuses a path that is not safe, and returns the path as the mount table has it.
	Check(path string) (string, error)
	MakeDir(path string) error
	MakeFile(path string) error
	Remove(path string) error
}

var (
	_ Filesystems = (*fs.Tool)(nil)
	_ Places      = (*mount.Kernel)(nil)
	_ Places      = (*mount.Fake)(nil)
)

// DefaultKubeletDir is where the kubelet keeps its data, unless told otherwise.
const DefaultKubeletDir = "/var/lib/kubelet"

// Config is what a Driver is made of.
type Config struct {
	// Source is the driver.
	Source Source
	// Version of the agent.
	Version string
	// NodeName as the API server knows it.
	NodeName string
	// KubeletDir is the kubelet's directory, at the same path as on the host; DefaultKubeletDir when empty. Mounts made below it
	// have to reach the host.
	KubeletDir string
	// CheckPatience is how long a call waits for the check of a filesystem, which goes on without it; DefaultCheckPatience when 0.
	CheckPatience time.Duration

	// Filesystems is for a source of devices.
	Filesystems Filesystems
	Mounter     mount.Mounter
	Places      Places
	// Locks keep calls on one volume apart; whoever else must not meet them has the same ones. The Driver has its own when it is nil.
	Locks *csirpc.Locks

	Log logr.Logger
	// Registry takes the metrics; they are not kept when it is nil.
	Registry prometheus.Registerer
}

// Driver serves one CSI driver to the kubelet.
type Driver struct {
	cfg     Config
	profile Profile
	// devices or trees is the source, whichever it is.
	devices Devices
	trees   Trees

	calls      csirpc.Calls
	checks     checks
	registered prometheus.Gauge
}

// workTimeout bounds the work of one call. The work goes on when the kubelet goes away, for a program that is killed halfway is worse
// than one that ends; a repeated call gets ABORTED meanwhile.
const workTimeout = 10 * time.Minute

// New makes a Driver; Run makes it work.
func New(cfg Config) *Driver {
	profile := cfg.Source.Profile()
	cfg.KubeletDir = cmp.Or(cfg.KubeletDir, DefaultKubeletDir)
	cfg.CheckPatience = cmp.Or(cfg.CheckPatience, DefaultCheckPatience)
	cfg.Locks = cmp.Or(cfg.Locks, &csirpc.Locks{})
	cfg.Log = cfg.Log.WithValues("driver", profile.Name)
	d := &Driver{
		cfg: cfg, profile: profile, registered: newRegistered(cfg.Registry, profile.Name),
		calls: csirpc.Calls{
			Process: "agent", Log: cfg.Log, Code: table(profile).Code,
			Metrics: csirpc.NewMetrics(cfg.Registry, "quarry_agent_csi", "the kubelet", profile.Name),
		},
	}
	d.devices, _ = cfg.Source.(Devices)
	d.trees, _ = cfg.Source.(Trees)
	return d
}

// Endpoint is the socket of the CSI services.
func (d *Driver) Endpoint() string { return Endpoint(d.cfg.KubeletDir, d.profile.Name) }

// Endpoint is the socket of the CSI services of a driver.
func Endpoint(kubeletDir, driver string) string {
	return filepath.Join(kubeletDir, "plugins", driver, "csi.sock")
}

// registrationEndpoint is the socket by which the kubelet finds the driver.
func (d *Driver) registrationEndpoint() string {
	return filepath.Join(d.cfg.KubeletDir, "plugins_registry", d.profile.Name+"-reg.sock")
}

// Run serves until the context ends: first the CSI services, then the registration, which makes the kubelet call them. At the
// end the registration goes first, and calls in progress are waited for.
func (d *Driver) Run(ctx context.Context) error {
	if err := d.reachesHost(); err != nil {
		return err
	}
	services, err := d.serveServices()
	if err != nil {
		return err
	}
	defer services.Stop()
	registration, err := d.serveRegistration()
	if err != nil {
		return err
	}
	defer registration.Stop()
	d.cfg.Log.Info("Serving the kubelet", "socket", d.Endpoint())
	select {
	case <-ctx.Done():
		return nil
	case err := <-services.Failed():
		return err
	case err := <-registration.Failed():
		return err
	}
}

// reachesHost refuses to work where mounts would stay in this container: pods would write into an empty directory of the host.
func (d *Driver) reachesHost() error {
	points, err := d.cfg.Mounter.Points()
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(d.cfg.KubeletDir)
	if err != nil {
		return fmt.Errorf("directory of the kubelet: %w", err)
	}
	if p, ok := mount.Holding(points, real); !ok || !p.Shared {
		return fmt.Errorf("directory of the kubelet %s is not on a shared mount: mounts would not reach the host (mountPropagation: Bidirectional)", real)
	}
	return nil
}
