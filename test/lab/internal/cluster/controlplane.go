package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"quarry.storage/quarry/test/lab/internal/build"
	"quarry.storage/quarry/test/lab/internal/network"
	"quarry.storage/quarry/test/lab/internal/process"
	"quarry.storage/quarry/test/lab/internal/spec"
	"quarry.storage/quarry/test/lab/internal/state"
)

// The names of the processes on the machine's side; a node's kernel is named
// like its node.
const (
	etcdName       = "etcd"
	apiServerName  = "kube-apiserver"
	controllerName = "kube-controller-manager"
	schedulerName  = "kube-scheduler"
	forwarderName  = "forwarder"
)

const etcdURL = "http://127.0.0.1:2379"

// components lists the processes of a lab's control plane.
func components(lab spec.Lab) []string {
	if lab.Bare {
		return nil
	}
	return []string{etcdName, apiServerName, controllerName, schedulerName, forwarderName}
}

// startControlPlane starts what of the control plane does not run, and returns once it serves. The
// forwarder's listener is not needed when that runs.
func (c *Cluster) startControlPlane(ctx context.Context, desc state.Description, programs build.Programs, outer *os.File) error {
	etcd, err := exec.LookPath("etcd")
	if err != nil {
		return fmt.Errorf("etcd is not installed, run `lab deps`: %w", err)
	}
	if err := c.ensure(process.Command{Name: etcdName, Path: etcd, Args: c.etcdArgs()}); err != nil {
		return err
	}
	// The API server gives up when etcd does not answer at once.
	if err := c.waitEtcd(ctx); err != nil {
		return err
	}
	err = errors.Join(
		c.ensure(process.Command{Name: apiServerName, Path: filepath.Join(programs.Kubernetes, apiServerName), Args: c.apiServerArgs()}),
		c.ensure(process.Command{Name: forwarderName, Path: c.dir.Binary(), Files: []*os.File{outer}, Args: []string{
			"forward", fmt.Sprintf("%s:%d", spec.ControlPlane, spec.APIServerPort), spec.APIServiceIP + ":443",
		}}),
	)
	if err != nil {
		return err
	}
	// The others give up when the API server does not answer within seconds.
	if err := c.waitAPIServer(ctx, desc, etcdName, apiServerName, forwarderName); err != nil {
		return err
	}
	return errors.Join(
		c.ensure(process.Command{Name: controllerName, Path: filepath.Join(programs.Kubernetes, controllerName), Args: c.controllerArgs()}),
		c.ensure(process.Command{Name: schedulerName, Path: filepath.Join(programs.Kubernetes, schedulerName), Args: []string{
			"--kubeconfig=" + c.dir.ComponentKubeconfig("scheduler"), "--leader-elect=false",
		}}),
	)
}

// ensure starts a process of the lab unless it runs.
func (c *Cluster) ensure(command process.Command) error {
	command.Dir = c.dir.Path()
	command.Log = c.dir.ComponentLog(command.Name)
	return c.processes.Ensure(command)
}

// etcdArgs trade safety for speed: a lab's data need not outlive the machine.
func (c *Cluster) etcdArgs() []string {
	return []string{
		"--name=lab", "--data-dir=" + c.dir.Etcd(), "--unsafe-no-fsync",
		"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=http://127.0.0.1:2380",
	}
}

func (c *Cluster) apiServerArgs() []string {
	pki := func(file string) string { return filepath.Join(c.dir.PKI(), file) }
	return []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=" + spec.ControlPlane,
		"--advertise-address=" + spec.ControlPlane,
		fmt.Sprintf("--secure-port=%d", spec.APIServerPort),
		"--tls-cert-file=" + pki("apiserver.crt"),
		"--tls-private-key-file=" + pki("apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--service-account-key-file=" + pki("service-account.pub"),
		"--service-account-signing-key-file=" + pki("service-account.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-cluster-ip-range=" + spec.ServiceCIDR,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--kubelet-client-certificate=" + pki("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + pki("apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority=" + pki("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file=" + pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + pki("front-proxy-client.crt"),
		"--proxy-client-key-file=" + pki("front-proxy-client.key"),
		// The API server runs on no node, so it has no service addresses: it
		// reaches webhooks and other API servers at their pods.
		"--enable-aggregator-routing=true",
		"--allow-privileged=true",
	}
}

// controllerArgs make the controllers notice a dead node in seconds.
func (c *Cluster) controllerArgs() []string {
	pki := func(file string) string { return filepath.Join(c.dir.PKI(), file) }
	return []string{
		"--kubeconfig=" + c.dir.ComponentKubeconfig("controller-manager"),
		"--service-account-private-key-file=" + pki("service-account.key"),
		"--root-ca-file=" + pki("ca.crt"),
		"--cluster-signing-cert-file=" + pki("ca.crt"),
		"--cluster-signing-key-file=" + pki("ca.key"),
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--node-monitor-period=2s",
		"--node-monitor-grace-period=20s",
	}
}

func (c *Cluster) waitEtcd(ctx context.Context) error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		var conn net.Conn
		err := network.Inside(c.Namespace(), func() (err error) {
			conn, err = net.DialTimeout("tcp", "127.0.0.1:2379", time.Second)
			return err
		})
		if err == nil {
			return conn.Close()
		}
		if !c.processes.Alive(etcdName) {
			return fmt.Errorf("etcd ended, see %s", c.dir.ComponentLog(etcdName))
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return errors.Join(fmt.Errorf("etcd does not answer, see %s", c.dir.ComponentLog(etcdName)), ctx.Err())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// listen opens the forwarder's port on the machine: the one it had before when
// that is still free, or any.
func listen(before int) (listener *os.File, port int, err error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: before})
	if err != nil && before != 0 {
		l, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	}
	if err != nil {
		return nil, 0, err
	}
	defer l.Close()
	listener, err = l.File()
	return listener, l.Addr().(*net.TCPAddr).Port, err
}

// SaveEtcd copies all that the API server has stored into a directory, which must not exist. The control plane is away for some seconds; pods run on.
func (c *Cluster) SaveEtcd(ctx context.Context, to string) error {
	switch _, err := os.Lstat(to); {
	case err == nil:
		return fmt.Errorf("%s exists: a copy is made into a new directory", to)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return c.withoutEtcd(ctx, func() error { return copyTree(ctx, c.dir.Etcd(), to) })
}

// RestoreEtcd replaces all that the API server has stored by a copy that SaveEtcd made. Every resource version since then is gone, as it is after the
// restore of a real cluster.
func (c *Cluster) RestoreEtcd(ctx context.Context, from string) error {
	if _, err := os.Stat(from); err != nil {
		return err
	}
	return c.withoutEtcd(ctx, func() error {
		if err := os.RemoveAll(c.dir.Etcd()); err != nil {
			return err
		}
		return copyTree(ctx, from, c.dir.Etcd())
	})
}

// withoutEtcd stops the control plane, and starts it again after do.
func (c *Cluster) withoutEtcd(ctx context.Context, do func() error) error {
	programs, err := build.Ensure(ctx, c.report)
	if err != nil {
		return err
	}
	unlock, err := c.dir.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	desc, err := c.withKubernetes()
	if err != nil {
		return err
	}
	for _, name := range []string{controllerName, schedulerName, apiServerName, etcdName} {
		if err := c.processes.Kill(name); err != nil {
			return err
		}
	}
	err = do()
	// Whatever became of the copy, the lab goes on with what is there. The forwarder was not stopped, so it needs no listener.
	return errors.Join(err, c.startControlPlane(ctx, desc, programs, nil))
}

// copyTree copies a directory with its modes.
func copyTree(ctx context.Context, from, to string) error {
	if out, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, strings.TrimSpace(string(out)))
	}
	return nil
}
