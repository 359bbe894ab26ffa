//go:build hostroot

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
	"syscall"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/host/nfs/child"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// TestMain lets this program be the agent's processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == child.Command {
		os.Exit(child.Main(os.Args, os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// nfsd is the kernel's NFS server, in a network namespace of its own: its link can be cut like the cable of a server.
type nfsd struct {
	t         *testing.T
	namespace string
	// exports is the directory whose entries are exported.
	exports string
	inside  *exec.Cmd
}

// Addresses of the two ends.
const (
	clientAddress  = "10.77.0.1"
	serverAddress  = "10.77.0.2"
	serverAddress6 = "fd77::2"
)

// serverScript runs inside. Its mounts are its own.
const serverScript = `set -e
ip link set lo up
mkdir -p /run/rpc_pipefs
mount -t tmpfs none /var/lib/nfs
mkdir -p /var/lib/nfs/nfsdcld /var/lib/nfs/v4recovery /var/lib/nfs/sm
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
printf '[general]\npipefs-directory=/run/rpc_pipefs\n[exports]\nrootdir=%s\n[mountd]\nport=20048\n' "$1" > /var/lib/nfs/nfs.conf
: > /var/lib/nfs/exports
touch /etc/nfs.conf /etc/exports
mount --bind /var/lib/nfs/nfs.conf /etc/nfs.conf
mount --bind /var/lib/nfs/exports /etc/exports
mount -t rpc_pipefs none /run/rpc_pipefs || true
mount -t nfsd none /proc/fs/nfsd || true
rpcbind -f -w &
nfsdcld -F &
sleep 1
rpc.nfsd --grace-time 10 --lease-time 10 --host 0.0.0.0 --host :: 8 || rpc.nfsd --grace-time 10 --lease-time 10 8
rpc.mountd -F &
echo ready > "$2"
wait
`

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func newServer(t *testing.T) *nfsd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for _, program := range []string{"rpc.nfsd", "rpc.mountd", "exportfs", "rpcbind", "nfsdcld", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no NFS server here: %v", err)
		}
	}
	if out, err := exec.Command("modprobe", "-a", "nfsd", "nfs", "nfsv3", "nfsv4").CombinedOutput(); err != nil {
		t.Skipf("the kernel has no NFS: %v: %s", err, out)
	}
	s := &nfsd{t: t, namespace: "quarry-nfs-test", exports: filepath.Join(t.TempDir(), "exports")}
	must(t, os.MkdirAll(s.exports, 0o755))
	_ = exec.Command("ip", "netns", "del", s.namespace).Run() // Of an earlier run.
	command(t, "ip", "netns", "add", s.namespace)
	t.Cleanup(s.stop)
	command(t, "ip", "link", "add", "qnfs0", "type", "veth", "peer", "name", "qnfs1", "netns", s.namespace)
	command(t, "ip", "addr", "add", clientAddress+"/24", "dev", "qnfs0")
	command(t, "ip", "-6", "addr", "add", "fd77::1/64", "dev", "qnfs0", "nodad")
	command(t, "ip", "link", "set", "qnfs0", "up")
	command(t, "ip", "netns", "exec", s.namespace, "ip", "addr", "add", serverAddress+"/24", "dev", "qnfs1")
	command(t, "ip", "netns", "exec", s.namespace, "ip", "-6", "addr", "add", serverAddress6+"/64", "dev", "qnfs1", "nodad")
	command(t, "ip", "netns", "exec", s.namespace, "ip", "link", "set", "qnfs1", "up")
	ready := filepath.Join(t.TempDir(), "ready")
	s.inside = exec.Command("ip", "netns", "exec", s.namespace, "unshare", "-m", "--propagation", "private", "sh", "-c", serverScript, "sh", s.exports, ready)
	s.inside.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	must(t, err)
	s.inside.Stdout, s.inside.Stderr = log, log
	must(t, s.inside.Start())
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(ready); err == nil && answers(serverAddress) && answers("["+serverAddress6+"]") {
			break
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("the server does not start:\n%s", said)
		}
	}
	return s
}

func answers(address string) bool {
	conn, err := net.DialTimeout("tcp", address+":2049", time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// stop ends everything. The client's mounts are gone by then.
func (s *nfsd) stop() {
	_ = exec.Command("ip", "netns", "exec", s.namespace, "rpc.nfsd", "0").Run() // It may not run.
	if s.inside != nil {
		_ = syscall.Kill(-s.inside.Process.Pid, syscall.SIGKILL)
		_ = s.inside.Wait() // It was killed.
	}
	if out, err := exec.Command("ip", "netns", "del", s.namespace).CombinedOutput(); err != nil {
		s.t.Errorf("%v: %s", err, out)
	}
	_ = exec.Command("ip", "link", "del", "qnfs0").Run() // It went with the namespace.
}

// in runs a program where the server is.
func (s *nfsd) in(args ...string) string {
	s.t.Helper()
	return command(s.t, "nsenter", append([]string{"-t", fmt.Sprint(s.inside.Process.Pid), "-n", "-m"}, args...)...)
}

// export exports a directory, made when missing, and says where it is on this machine.
func (s *nfsd) export(name, options string) string {
	s.t.Helper()
	dir := filepath.Join(s.exports, name)
	must(s.t, os.MkdirAll(dir, 0o755))
	fsid := fmt.Sprintf(",fsid=%d", 100+len(name))
	s.in("exportfs", "-i", "-o", options+",insecure,no_subtree_check"+fsid, "*:/"+name)
	return dir
}

// cut takes the cable out, heal puts it back.
func (s *nfsd) cut() { command(s.t, "ip", "link", "set", "qnfs0", "down") }

func (s *nfsd) heal() {
	command(s.t, "ip", "link", "set", "qnfs0", "up")
	_ = exec.Command("ip", "-6", "addr", "add", "fd77::1/64", "dev", "qnfs0", "nodad").Run() // It goes with the link.
}

func realClient(t *testing.T) *Client {
	t.Helper()
	c := New(Config{NodeName: "n1", Namespace: "/proc/1/ns/net", Resolve: func(ctx context.Context, host string) ([]netipAddr, error) {
		return nil, errors.New("no names here")
	}})
	t.Cleanup(c.Close)
	return c
}

func realShare(name string, options ...string) sharedvolume.Share {
	return sharedvolume.Share{Server: serverAddress, Path: "/" + name, MountOptions: options, Owner: owner}
}
