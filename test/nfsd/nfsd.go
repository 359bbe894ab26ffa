//go:build hostroot

package nfsd

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Addresses of the two ends.
const (
	ClientAddress  = "10.77.0.1"
	Address        = "10.77.0.2"
	Address6       = "fd77::2"
	clientAddress6 = "fd77::1/64"
)

const (
	namespace = "quarry-nfs-test"
	link      = "qnfs0"
	// startPatience is how long the server may take to start.
	startPatience = 60 * time.Second
)

// Server is a running server.
type Server struct {
	// Exports is the directory whose entries are exported.
	Exports string
	// Addresses are the server's: two where the kernel has IPv6.
	Addresses []string

	t      *testing.T
	inside *exec.Cmd
	count  int
	// exported is what exported each name last.
	exported map[string][]string
}

// script starts the server. Its mounts are its own.
const script = `set -e
ip link set lo up
mkdir -p /run/rpc_pipefs
mount -t tmpfs none /var/lib/nfs
mkdir -p /var/lib/nfs/nfsdcld /var/lib/nfs/v4recovery /var/lib/nfs/sm
touch /var/lib/nfs/etab /var/lib/nfs/rmtab /etc/nfs.conf /etc/exports
printf '[general]\npipefs-directory=/run/rpc_pipefs\n[exports]\nrootdir=%s\n[mountd]\nport=20048\n' "$1" > /var/lib/nfs/nfs.conf
: > /var/lib/nfs/exports
mount --bind /var/lib/nfs/nfs.conf /etc/nfs.conf
mount --bind /var/lib/nfs/exports /etc/exports
mount -t rpc_pipefs none /run/rpc_pipefs || true
mount -t nfsd none /proc/fs/nfsd || true
rpcbind -f -w &
nfsdcld -F &
sleep 1
rpc.nfsd --grace-time 10 --lease-time 10 8
rpc.mountd -F &
echo ready > "$2"
wait
`

// New starts a server, and stops it when the test ends. It skips the test where there can be none.
func New(t *testing.T) *Server {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for _, program := range []string{"rpc.nfsd", "rpc.mountd", "exportfs", "rpcbind", "nfsdcld", "ip", "nsenter", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no NFS server here: %v", err)
		}
	}
	if out, err := exec.Command("modprobe", "-a", "nfsd", "nfs", "nfsv3", "nfsv4").CombinedOutput(); err != nil {
		t.Skipf("the kernel has no NFS: %v: %s", err, out)
	}
	_ = exec.Command("modprobe", "-q", "ipv6").Run()        // A kernel without it is one without IPv6.
	_ = exec.Command("ip", "netns", "del", namespace).Run() // Of an earlier run that was killed.
	s := &Server{t: t, exported: map[string][]string{}, Addresses: []string{Address}, Exports: filepath.Join(t.TempDir(), "exports")}
	must(t, os.MkdirAll(s.Exports, 0o755))
	s.connect()
	s.start()
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ip runs that program, which has to succeed.
func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// connect makes the namespace and a cable into it.
func (s *Server) connect() {
	s.t.Helper()
	ip(s.t, "netns", "add", namespace)
	s.t.Cleanup(s.stop)
	ip(s.t, "link", "add", link, "type", "veth", "peer", "name", "qnfs1", "netns", namespace)
	ip(s.t, "addr", "add", ClientAddress+"/24", "dev", link)
	ip(s.t, "link", "set", link, "up")
	ip(s.t, "-n", namespace, "addr", "add", Address+"/24", "dev", "qnfs1")
	if _, err := os.Stat("/proc/net/if_inet6"); err == nil {
		s.Addresses = append(s.Addresses, Address6)
		ip(s.t, "-6", "addr", "add", clientAddress6, "dev", link, "nodad")
		ip(s.t, "-n", namespace, "-6", "addr", "add", Address6+"/64", "dev", "qnfs1", "nodad")
	}
	ip(s.t, "-n", namespace, "link", "set", "qnfs1", "up")
}

func (s *Server) start() {
	s.t.Helper()
	ready := filepath.Join(s.t.TempDir(), "ready")
	log, err := os.Create(filepath.Join(s.t.TempDir(), "log"))
	must(s.t, err)
	defer log.Close()
	s.inside = exec.Command("ip", "netns", "exec", namespace, "unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", s.Exports, ready)
	s.inside.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.inside.Stdout, s.inside.Stderr = log, log
	must(s.t, s.inside.Start())
	for deadline := time.Now().Add(startPatience); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(ready); err == nil && !slices.ContainsFunc(s.Addresses, silent) {
			return
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(log.Name())
			s.t.Fatalf("the server does not start:\n%s", said)
		}
	}
}

// silent reports whether nothing listens at an address.
func silent(address string) bool {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(address, "2049"), time.Second)
	if err != nil {
		return true
	}
	conn.Close()
	return false
}

// stop ends everything. Mounts of the test are gone by then. The kernel's threads go while rpcbind still runs: a kernel that has to take its
// services back from one that is gone waits ten seconds for each, under a lock that the next server needs.
func (s *Server) stop() {
	if s.inside != nil {
		if out, err := s.enter("rpc.nfsd", "0").CombinedOutput(); err != nil {
			s.t.Logf("rpc.nfsd 0: %v: %s", err, out) // It may not have started.
		}
		_ = syscall.Kill(-s.inside.Process.Pid, syscall.SIGKILL)
		_ = s.inside.Wait() // It was killed.
	}
	if out, err := exec.Command("ip", "netns", "del", namespace).CombinedOutput(); err != nil {
		s.t.Errorf("%v: %s", err, out)
	}
	_ = exec.Command("ip", "link", "del", link).Run() // It went with the namespace.
}

// In runs a program where the server is.
func (s *Server) In(args ...string) {
	s.t.Helper()
	if out, err := s.enter(args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// enter is a program where the server is.
func (s *Server) enter(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"-t", fmt.Sprint(s.inside.Process.Pid), "-n", "-m"}, args...)...)
}

// Export exports a directory, made when missing, to some clients or to all ("*"), and returns where it is on this machine.
func (s *Server) Export(name, clients, options string) string {
	s.t.Helper()
	dir := filepath.Join(s.Exports, name)
	must(s.t, os.MkdirAll(dir, 0o755))
	s.count++
	args := []string{"exportfs", "-i", "-o", fmt.Sprintf("%s,insecure,no_subtree_check,fsid=%d", options, 100+s.count), clients + ":/" + name}
	s.In(args...)
	s.exported[name] = args
	return dir
}

// Unexport takes an export back, so that the server knows its files no more, until again is called.
func (s *Server) Unexport(name string) (again func()) {
	s.t.Helper()
	args := s.exported[name]
	s.In("exportfs", "-u", args[len(args)-1])
	return func() { s.In(args...) }
}

// Cut takes the cable out.
func (s *Server) Cut() {
	s.t.Helper()
	ip(s.t, "link", "set", link, "down")
}

// Heal puts the cable back in.
func (s *Server) Heal() {
	s.t.Helper()
	ip(s.t, "link", "set", link, "up")
	if len(s.Addresses) > 1 {
		_ = exec.Command("ip", "-6", "addr", "add", clientAddress6, "dev", link, "nodad").Run() // The address went with the link.
	}
}
