// Package config is the agent's configuration: flags, defaults and their validation. Nothing else of the agent reads flags or the
// environment.
package config

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Config is the configuration of one agent.
type Config struct {
	// NodeName is the name of the Kubernetes node; the serving certificate is bound to it.
	NodeName string
	// Listen is where gRPC is served, Probe where the kubelet's probes and metrics are.
	Listen, Probe string
	// LVMDir holds the private LVM configuration, archives and backups.
	LVMDir string
	// SharedDir is where the node remembers which epochs of writers it has left the groups of shared LUNs to.
	SharedDir string
	// LVMBinary is the lvm executable.
	LVMBinary string
	// SysDir, DevDir, UdevDir and ProcDir are where the host's /sys, /dev, /run/udev and /proc are seen.
	SysDir, DevDir, UdevDir, ProcDir string
	// WithoutUdev says that the host runs no udev.
	WithoutUdev bool
	// WithoutDeviceMapper says that the host's kernel has no device-mapper.
	WithoutDeviceMapper bool
	// KubeletDir is the kubelet's directory, where volumes are mounted; empty serves no CSI.
	KubeletDir string
	// MinDeviceBytes is the size below which a device is refused.
	MinDeviceBytes int64
	// AllowTypes are kinds of virtual devices that are taken like disks.
	AllowTypes []string
	// APIServer is the URL of the Kubernetes API server.
	APIServer string
	// TokenFile and CAFile are those of the pod's service account.
	TokenFile, CAFile string
	// Verbosity of the log: 0, 1 for changes, 4 for details.
	Verbosity int
	// ShowVersion asks for the version only.
	ShowVersion bool
}

// secretDir is where the kubelet puts the service account's token and authority.
const secretDir = "/var/run/secrets/kubernetes.io/serviceaccount"

var (
	nodeName   = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	deviceType = regexp.MustCompile(`^[a-z]{2,16}$`)
)

// notAllowed are kinds that no configuration makes acceptable.
var notAllowed = []string{"disk", "partition", "rom", "floppy", "dm", "md"}

// Parse reads the arguments, after the program's name. The environment tells where the API server is, as in every pod.
func Parse(args []string, getenv func(string) string) (Config, error) {
	c := Config{MinDeviceBytes: 1 << 30}
	set := flag.NewFlagSet("agent", flag.ContinueOnError)
	set.StringVar(&c.NodeName, "node-name", getenv("NODE_NAME"), "name of the Kubernetes node (default: environment NODE_NAME)")
	set.StringVar(&c.Listen, "listen", ":7443", "address that gRPC is served on")
	set.StringVar(&c.Probe, "probe-listen", ":8081", "address of /healthz, /readyz and /metrics")
	set.StringVar(&c.LVMDir, "lvm-dir", "/var/lib/quarry/lvm", "directory of the private LVM configuration")
	set.StringVar(&c.SharedDir, "shared-dir", "/var/lib/quarry/shared", "directory of what the node has promised to writers of shared LUNs")
	set.StringVar(&c.LVMBinary, "lvm-binary", "/usr/sbin/lvm", "the lvm executable")
	set.StringVar(&c.SysDir, "sys-dir", "/sys", "where the host's /sys is seen")
	set.StringVar(&c.DevDir, "dev-dir", "/dev", "where the host's /dev is seen")
	set.StringVar(&c.UdevDir, "udev-dir", "/run/udev", "where the host's /run/udev is seen")
	set.StringVar(&c.ProcDir, "proc-dir", "/proc", "where the host's /proc is seen")
	set.StringVar(&c.KubeletDir, "kubelet-dir", "/var/lib/kubelet", "the kubelet's directory, at the same path as on the host; empty serves no CSI")
	set.BoolVar(&c.WithoutUdev, "without-udev", false, "the host runs no udev")
	set.BoolVar(&c.WithoutDeviceMapper, "without-device-mapper", false, "the host's kernel has no device-mapper")
	set.Var((*size)(&c.MinDeviceBytes), "min-device-size", "smaller devices are refused")
	set.Var((*list)(&c.AllowTypes), "allow-types", "kinds of virtual devices to take like disks, separated by commas, for labs: loop, ubd")
	set.StringVar(&c.APIServer, "api-server", apiServer(getenv), "URL of the Kubernetes API server")
	set.StringVar(&c.TokenFile, "token-file", filepath.Join(secretDir, "token"), "token of the service account")
	set.StringVar(&c.CAFile, "ca-file", filepath.Join(secretDir, "ca.crt"), "authority of the API server")
	set.IntVar(&c.Verbosity, "v", 0, "verbosity of the log: 0, 1 for changes, 4 for details")
	set.BoolVar(&c.ShowVersion, "version", false, "show the version and exit")
	if err := set.Parse(args); err != nil {
		return Config{}, err
	}
	if set.NArg() > 0 {
		return Config{}, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if c.ShowVersion {
		return c, nil
	}
	return c, c.Validate()
}

// apiServer is the address that Kubernetes gives to every pod.
func apiServer(getenv func(string) string) string {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, port)
}

// Validate names everything that is wrong.
func (c Config) Validate() error {
	var errs []error
	if !nodeName.MatchString(c.NodeName) {
		errs = append(errs, fmt.Errorf("node name %q is not a name of a node", c.NodeName))
	}
	for _, f := range []struct{ name, path string }{
		{"lvm-dir", c.LVMDir},
		{"shared-dir", c.SharedDir},
		{"lvm-binary", c.LVMBinary},
		{"sys-dir", c.SysDir},
		{"dev-dir", c.DevDir},
		{"udev-dir", c.UdevDir},
		{"proc-dir", c.ProcDir},
		{"token-file", c.TokenFile},
		{"ca-file", c.CAFile},
	} {
		if !filepath.IsAbs(f.path) {
			errs = append(errs, fmt.Errorf("%s %q is not an absolute path", f.name, f.path))
		}
	}
	if c.KubeletDir != "" && (!filepath.IsAbs(c.KubeletDir) || filepath.Clean(c.KubeletDir) != c.KubeletDir) {
		errs = append(errs, fmt.Errorf("kubelet-dir %q is not a clean absolute path", c.KubeletDir))
	}
	for _, address := range []string{c.Listen, c.Probe} {
		if _, _, err := net.SplitHostPort(address); err != nil {
			errs = append(errs, err)
		}
	}
	if !strings.HasPrefix(c.APIServer, "https://") {
		errs = append(errs, fmt.Errorf("URL of the API server %q is not https", c.APIServer))
	}
	if c.MinDeviceBytes < 1 {
		errs = append(errs, errors.New("min-device-size is not positive"))
	}
	for _, kind := range c.AllowTypes {
		if !deviceType.MatchString(kind) || slices.Contains(notAllowed, kind) {
			errs = append(errs, fmt.Errorf("kind of device %q cannot be allowed", kind))
		}
	}
	return errors.Join(errs...)
}
