//go:build hostroot

package nfs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/nfs/child"
	"quarry.storage/quarry/pkg/sharedvolume"
	"quarry.storage/quarry/test/nfsd"
)

// TestMain lets this program be the agent's processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == child.Command {
		os.Exit(child.Main(os.Args, os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func realClient(t *testing.T) *Client {
	t.Helper()
	c := New(Config{NodeName: "n1", Namespace: "/proc/1/ns/net", Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return nil, errors.New("no names here")
	}})
	t.Cleanup(c.Close)
	return c
}

func realShare(name string, options ...string) sharedvolume.Share {
	return sharedvolume.Share{Server: nfsd.Address, Path: "/" + name, MountOptions: options, Owner: owner}
}

// mounts are the lines of the mount table that show a place.
func mounts(t *testing.T, place string) []string {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	var out []string
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); fields[4] == place {
			out = append(out, line)
		}
	}
	return out
}

// made prepares a share and makes a volume.
func made(t *testing.T, c *Client, s sharedvolume.Share, directory string, p sharedvolume.Policy) (sharedvolume.Share, Volume) {
	t.Helper()
	seen, err := c.GetShare(t.Context(), s, true)
	must(t, err)
	if seen.Problem != nil {
		t.Fatalf("%s: %s", seen.Problem.Reason, seen.Problem.Message)
	}
	s.ID = seen.ID
	d, err := c.EnsureDirectory(t.Context(), s, sharedvolume.Wish{Name: "pvc-1", Directory: directory, OnDelete: p})
	must(t, err)
	return s, Volume{ID: d.ID, Attributes: sharedvolume.Attributes{
		Server: s.Server, Path: s.Path, MountOptions: s.MountOptions, Directory: directory, OnDelete: p, ShareID: s.ID,
	}}
}

// attached mounts a volume at a place that is unmounted in the end.
func attached(t *testing.T, c *Client, v Volume) string {
	t.Helper()
	place := filepath.Join(t.TempDir(), "place")
	must(t, os.Mkdir(place, 0o750))
	must(t, attach(t, c, v, place))
	// It is unmounted already when the test went well. Else it may wait for the server, which must not keep the test.
	t.Cleanup(func() { _ = exec.Command("timeout", "-s", "KILL", "20", "umount", "-f", "-l", place).Run() })
	return place
}

func attach(t *testing.T, c *Client, v Volume, place string) error {
	t.Helper()
	fd, err := unix.Open(place, unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	f := os.NewFile(uintptr(fd), place)
	defer f.Close()
	return c.Attach(t.Context(), v, f)
}

func detach(t *testing.T, c *Client, place string, force bool) error {
	t.Helper()
	m := mountedAt(t, place)
	defer m.Dir.Close()
	return c.Unmount(t.Context(), m, force)
}

func usageOf(t *testing.T, c *Client, place string) (Usage, error) {
	t.Helper()
	m := mountedAt(t, place)
	defer m.Dir.Close()
	return c.Measure(t.Context(), m)
}

func mountedAt(t *testing.T, place string) Mounted {
	t.Helper()
	fd, err := unix.Open(filepath.Dir(place), unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	return Mounted{Dir: os.NewFile(uintptr(fd), filepath.Dir(place)), Name: filepath.Base(place), What: place, Server: nfsd.Address}
}

func TestHost(t *testing.T) {
	s := nfsd.New(t)
	for name, run := range map[string]func(*testing.T, *nfsd.Server){
		"versions": versions, "escapes": escapes, "problems": problems, "many files": manyFiles, "archive": archived,
	} {
		t.Run(name, func(t *testing.T) { run(t, s) })
	}
	t.Run("dead server", func(t *testing.T) { deadServer(t, s) })
	t.Run("unmounts of a dead server", func(t *testing.T) { deadUnmount(t, s) })
}

// versions makes, uses and removes a volume over every version, and over IPv6.
func versions(t *testing.T, s *nfsd.Server) { //nolint:gocyclo // one journey, told in its order
	for _, version := range []string{"3", "4.0", "4.1", "4.2"} {
		for _, server := range s.Addresses {
			t.Run(version+" "+server, func(t *testing.T) {
				dir := s.Export("v", "*", "rw,no_root_squash")
				c := realClient(t)
				share := realShare("v", "vers="+version)
				share.Server = server
				share, v := made(t, c, share, "team/data", sharedvolume.Delete)
				before := len(mountTable(t))
				place := attached(t, c, v)
				lines := mounts(t, place)
				if len(lines) != 1 || len(mountTable(t)) != before+1 {
					t.Fatalf("mounts: %q", lines)
				}
				for _, part := range []string{" nfs", sharedvolume.Source(server, "/v/team/data"), "vers=" + version, "hard", "nosuid", "nodev"} {
					if !strings.Contains(lines[0], part) {
						t.Errorf("mount %q has no %q", lines[0], part)
					}
				}
				// A kernel that still has a client of the server by its other address uses that: the server says that both are its own (RFC 8881, 2.10.5).
				if !slices.ContainsFunc(s.Addresses, func(a string) bool { return strings.Contains(lines[0], "addr="+a) }) {
					t.Errorf("mount %q leads to none of %q", lines[0], s.Addresses)
				}
				must(t, os.WriteFile(filepath.Join(place, "file"), []byte("hello"), 0o640))
				must(t, os.Chown(filepath.Join(place, "file"), 1000, 1000))
				content, err := os.ReadFile(filepath.Join(dir, "team/data/file"))
				if err != nil || string(content) != "hello" {
					t.Errorf("on the server: %q, %v", content, err)
				}
				if _, err := os.Stat(filepath.Join(place, "../.quarry")); err == nil {
					t.Error("the records are seen")
				}
				u, err := usageOf(t, c, place)
				if err != nil || u.TotalBytes == 0 {
					t.Errorf("%+v, %v", u, err)
				}
				must(t, detach(t, c, place, false))
				if left := mounts(t, place); len(left) != 0 {
					t.Errorf("left %q", left)
				}
				r, err := c.RemoveDirectory(t.Context(), share, "pvc-1", "", "")
				if err != nil || !r.Done || r.Removed != 1 {
					t.Errorf("%+v, %v", r, err)
				}
				must(t, os.RemoveAll(filepath.Join(dir, ".quarry")))
			})
		}
	}
}

func mountTable(t *testing.T) []string {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	return slices.Collect(strings.Lines(string(table)))
}

// escapes tries to get at what is outside of a share, and outside of a volume.
func escapes(t *testing.T, s *nfsd.Server) {
	dir := s.Export("escape", "*", "rw,no_root_squash")
	outside := s.Export("outside", "*", "rw,no_root_squash")
	must(t, os.WriteFile(filepath.Join(outside, "precious"), []byte("x"), 0o600))
	c := realClient(t)
	share, v := made(t, c, realShare("escape"), "data", sharedvolume.Delete)
	must(t, os.Symlink("../outside", filepath.Join(dir, "link")))
	must(t, os.Symlink("/", filepath.Join(dir, "root")))
	must(t, os.Symlink(".quarry", filepath.Join(dir, "marks")))
	for i, directory := range []string{
		"link", "link/x", "root/etc", "root/tmp/x", "marks", "marks/volumes/x", "../outside", "..", "/outside", "data/../../outside/x", ".quarry/x", "data/inside",
		"./x", "a//b", "a/", "a\x00/../x", "link/../x", strings.Repeat("../", 20) + "tmp/x", "\xff", "a\nb", "lost+found", ".nfs0001", "link/precious",
	} {
		if d, err := c.EnsureDirectory(t.Context(), share, sharedvolume.Wish{Name: fmt.Sprintf("evil-%d", i), Directory: directory, OnDelete: sharedvolume.Delete}); err == nil {
			t.Errorf("directory %q: %+v", directory, d)
		}
		evil := v
		evil.Directory = directory
		place := t.TempDir()
		if err := attach(t, c, evil, place); err == nil {
			t.Errorf("directory %q is mounted", directory)
			must(t, detach(t, c, place, false))
		}
	}
	// The volume's own directory is replaced by a way out.
	must(t, os.Rename(filepath.Join(dir, "data"), filepath.Join(dir, "moved")))
	must(t, os.Symlink("../outside", filepath.Join(dir, "data")))
	if err := attach(t, c, v, t.TempDir()); !errors.Is(err, sharedvolume.ErrState) {
		t.Errorf("a link in the place of the directory: %v", err)
	}
	if _, err := c.RemoveDirectory(t.Context(), share, "pvc-1", "", ""); !errors.Is(err, sharedvolume.ErrState) {
		t.Errorf("removing a link in the place of the directory: %v", err)
	}
	must(t, os.Remove(filepath.Join(dir, "data")))
	must(t, os.Mkdir(filepath.Join(dir, "data"), 0o755))
	if err := attach(t, c, v, t.TempDir()); !errors.Is(err, sharedvolume.ErrState) {
		t.Errorf("another directory in the place: %v", err)
	}
	if content, err := os.ReadFile(filepath.Join(outside, "precious")); err != nil || string(content) != "x" {
		t.Errorf("outside: %q, %v", content, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside: %v, %v", entries, err)
	}
}

// problems names every way in which a share cannot be used.
func problems(t *testing.T, s *nfsd.Server) {
	s.Export("rw", "*", "rw,no_root_squash")
	s.Export("readonly", "*", "ro,no_root_squash")
	s.Export("squash", "*", "rw,root_squash")
	s.Export("allsquash", "*", "rw,all_squash,anonuid=1000,anongid=1000")
	must(t, os.Chmod(filepath.Join(s.Exports, "allsquash"), 0o777))
	s.Export("private", "192.0.2.1", "rw,no_root_squash")
	garbage := garbageServer(t)
	c := realClient(t)
	for name, p := range map[string]struct {
		share  sharedvolume.Share
		reason []string
	}{
		"read-only":              {realShare("readonly"), []string{sharedvolume.ReasonReadOnly}},
		"root_squash":            {realShare("squash"), []string{sharedvolume.ReasonRootSquashed}},
		"all_squash":             {realShare("allsquash"), []string{sharedvolume.ReasonRootSquashed}},
		"read-only, version 3":   {realShare("readonly", "vers=3"), []string{sharedvolume.ReasonReadOnly}},
		"root_squash, v3":        {realShare("squash", "vers=3"), []string{sharedvolume.ReasonRootSquashed}},
		"nothing exported":       {realShare("nothing"), []string{sharedvolume.ReasonNotExported}},
		"nothing exported, v3":   {realShare("nothing", "vers=3"), []string{sharedvolume.ReasonRefused, sharedvolume.ReasonNotExported}},
		"another's export":       {realShare("private"), []string{sharedvolume.ReasonNotExported, sharedvolume.ReasonRefused}},
		"another's export, v3":   {realShare("private", "vers=3"), []string{sharedvolume.ReasonRefused}},
		"nothing listens":        {realShare("rw", "port=2050"), []string{sharedvolume.ReasonUnreachable}},
		"garbage":                {realShare("rw", "port="+garbage), []string{sharedvolume.ReasonUnreachable}},
		"no such machine":        {sharedvolume.Share{Server: "10.77.0.99", Path: "/rw", Owner: owner}, []string{sharedvolume.ReasonUnreachable}},
		"an unknown name":        {sharedvolume.Share{Server: "nas.example", Path: "/rw", Owner: owner}, []string{sharedvolume.ReasonNameUnresolved}},
		"garbage on this host":   {sharedvolume.Share{Server: nfsd.ClientAddress, Path: "/rw", Owner: owner, MountOptions: []string{"port=" + garbage}}, []string{sharedvolume.ReasonNotNFS}},
		"silence on this host":   {sharedvolume.Share{Server: nfsd.ClientAddress, Path: "/rw", Owner: owner, MountOptions: []string{"port=" + silentServer(t)}}, []string{sharedvolume.ReasonUnreachable}},
		"a path with a comma":    {realShare("rw,suid"), []string{sharedvolume.ReasonNotExported}},
		"a path with a space":    {realShare("no such"), []string{sharedvolume.ReasonNotExported}},
		"a path below an export": {realShare("rw/none"), []string{sharedvolume.ReasonNotExported}},
	} {
		t.Run(name, func(t *testing.T) {
			takes(t, 20*time.Second, func() {
				seen, err := c.GetShare(t.Context(), p.share, true)
				must(t, err)
				if seen.Problem == nil || !slices.Contains(p.reason, seen.Problem.Reason) {
					t.Fatalf("%+v, want %v", seen.Problem, p.reason)
				}
				t.Logf("%s: %s", seen.Problem.Reason, seen.Problem.Message)
			})
		})
	}
	for _, name := range []string{"readonly", "squash", "rw"} {
		if entries, err := os.ReadDir(filepath.Join(s.Exports, name)); err != nil || len(entries) != 0 {
			t.Errorf("%s: left %v, %v", name, entries, err)
		}
	}
}

// garbageServer answers everything with what no NFS server says, and silentServer with nothing.
func garbageServer(t *testing.T) string {
	return listen(t, func(conn net.Conn) {
		buffer := make([]byte, 1024)
		for {
			if _, err := conn.Read(buffer); err != nil {
				return
			}
			if _, err := conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")); err != nil {
				return
			}
		}
	})
}

func silentServer(t *testing.T) string {
	return listen(t, func(conn net.Conn) {
		buffer := make([]byte, 1024)
		for {
			if _, err := conn.Read(buffer); err != nil {
				return
			}
		}
	})
}

func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", nfsd.ClientAddress+":0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); serve(conn) }()
		}
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	return port
}

// manyFiles removes a large directory in several calls.
func manyFiles(t *testing.T, s *nfsd.Server) {
	dir := s.Export("many", "*", "rw,no_root_squash")
	c := realClient(t)
	c.cfg.Limits.Slice = 2 * time.Second
	share, _ := made(t, c, realShare("many"), "data", sharedvolume.Delete)
	const files = 5000
	for i := range 50 {
		must(t, os.Mkdir(filepath.Join(dir, "data", fmt.Sprint("d", i)), 0o755))
	}
	for i := range files {
		must(t, os.WriteFile(filepath.Join(dir, "data", fmt.Sprint("d", i%50), fmt.Sprint(i)), nil, 0o600))
	}
	must(t, os.Symlink("/etc", filepath.Join(dir, "data/link")))
	begin, calls, last := time.Now(), 0, int64(0)
	for done := false; !done; calls++ {
		takes(t, 5*time.Second, func() {
			r, err := c.RemoveDirectory(t.Context(), share, "pvc-1", "", "")
			must(t, err)
			if r.Removed <= last {
				t.Fatalf("no progress: %+v", r)
			}
			last, done = r.Removed, r.Done
			if _, err := os.Lstat(filepath.Join(dir, "data")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("still to be seen: %v", err)
			}
		})
	}
	t.Logf("%d entries in %d calls, %s", last, calls, time.Since(begin))
	if last != files+50+1 {
		t.Errorf("%d entries", last)
	}
}

// archived renames while a pod still has the directory mounted.
func archived(t *testing.T, s *nfsd.Server) {
	dir := s.Export("arch", "*", "rw,no_root_squash")
	c := realClient(t)
	share, v := made(t, c, realShare("arch"), "team/data", sharedvolume.Archive)
	place := attached(t, c, v)
	must(t, os.WriteFile(filepath.Join(place, "file"), []byte("x"), 0o600))
	var as []string
	for range 2 {
		r, err := c.RemoveDirectory(t.Context(), share, "pvc-1", "", sharedvolume.Delete)
		if err != nil || !r.Done || r.ArchivedAs == "" || slices.Contains(as, r.ArchivedAs) {
			t.Fatalf("%+v, %v", r, err)
		}
		as = append(as, r.ArchivedAs)
		_, err = c.EnsureDirectory(t.Context(), share, sharedvolume.Wish{Name: "pvc-1", Directory: "team/data", OnDelete: sharedvolume.Archive})
		must(t, err)
	}
	if content, err := os.ReadFile(filepath.Join(dir, as[0], "file")); err != nil || string(content) != "x" {
		t.Errorf("%q, %v", content, err)
	}
	must(t, detach(t, c, place, false))
}

// pod runs a command in a process of its own, as pods do. In this one, every process that is started would wait for what is written to
// open files of the share.
func pod(t *testing.T, script string) (*os.Process, <-chan error) {
	t.Helper()
	c := exec.Command("sh", "-c", script)
	must(t, c.Start())
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	return c.Process, done
}

// deadServer cuts the cable: nothing takes longer than its bound, other servers are not concerned, and all goes on afterwards.
func deadServer(t *testing.T, s *nfsd.Server) { //nolint:gocyclo // one journey, told in its order
	dir := s.Export("dead", "*", "rw,no_root_squash")
	c := realClient(t)
	share, v := made(t, c, realShare("dead"), "data", sharedvolume.Delete)
	place := attached(t, c, v)
	must(t, os.WriteFile(filepath.Join(place, "before"), []byte("x"), 0o600))
	s.Cut()
	healed := false
	defer func() {
		if !healed {
			s.Heal()
		}
	}()
	// A pod's write waits.
	_, written := pod(t, "printf y > "+filepath.Join(place, "after"))
	var wait sync.WaitGroup
	wait.Go(func() {
		takes(t, sharedvolume.LookTime+5*time.Second, func() {
			seen, err := c.GetShare(t.Context(), share, true)
			if err != nil || seen.Problem == nil || seen.Problem.Reason != sharedvolume.ReasonUnreachable {
				t.Errorf("look: %+v, %v", seen, err)
				return
			}
			t.Logf("look: %s", seen.Problem.Message)
		})
	})
	wait.Go(func() {
		takes(t, 25*time.Second, func() {
			_, err := c.EnsureDirectory(t.Context(), share, sharedvolume.Wish{Name: "pvc-2", Directory: "other", OnDelete: sharedvolume.Delete})
			wantReason(t, err, sharedvolume.ReasonUnreachable)
			t.Logf("ensure: %v", err)
		})
	})
	wait.Go(func() {
		for range 2 {
			takes(t, 8*time.Second, func() {
				_, err := usageOf(t, c, place)
				var p *sharedvolume.Problem
				if !errors.As(err, &p) || p.Reason != sharedvolume.ReasonUnreachable {
					t.Errorf("measure: %v", err)
				}
			})
		}
	})
	wait.Go(func() {
		takes(t, 25*time.Second, func() {
			err := attach(t, c, v, t.TempDir())
			wantReason(t, err, sharedvolume.ReasonUnreachable)
			t.Logf("attach: %v", err)
		})
	})
	wait.Go(func() {
		takes(t, 20*time.Second, func() {
			wantReason(t, c.Reaches(t.Context(), nfsd.Address, nil), sharedvolume.ReasonUnreachable)
		})
	})
	wait.Wait()
	select {
	case err := <-written:
		t.Errorf("the write did not wait: %v", err)
	default:
	}
	s.Heal()
	healed = true
	back := time.Now()
	select {
	case err := <-written:
		must(t, err)
		t.Logf("the write went on %s after the server was back", time.Since(back))
	case <-time.After(2 * time.Minute):
		t.Fatal("the write waits on")
	}
	if content, err := os.ReadFile(filepath.Join(dir, "data/after")); err != nil || string(content) != "y" {
		t.Errorf("%q, %v", content, err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := c.EnsureDirectory(t.Context(), share, sharedvolume.Wish{Name: "pvc-2", Directory: "other", OnDelete: sharedvolume.Delete})
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	if _, err := usageOf(t, c, place); err != nil {
		t.Errorf("measure: %v", err)
	}
	must(t, detach(t, c, place, false))
}

// deadUnmount unmounts while the server is gone: in time, and by force only when told so.
func deadUnmount(t *testing.T, s *nfsd.Server) {
	s.Export("gone", "*", "rw,no_root_squash")
	c := realClient(t)
	c.cfg.Limits.Unmount = 5 * time.Second
	_, v := made(t, c, realShare("gone"), "data", sharedvolume.Delete)
	clean, dirty := attached(t, c, v), attached(t, c, v)
	// Writes that are not on the server yet.
	process, closed := pod(t, "exec dd if=/dev/zero bs=64k of="+filepath.Join(dirty, "file"))
	time.Sleep(time.Second)
	s.Cut()
	healed := false
	defer func() {
		if !healed {
			s.Heal()
		}
	}()
	time.Sleep(time.Second)
	takes(t, 10*time.Second, func() {
		_, err := usageOf(t, c, clean)
		wantReason(t, err, sharedvolume.ReasonUnreachable)
	})
	takes(t, 10*time.Second, func() {
		err := detach(t, c, clean, false)
		t.Logf("clean: %v", err)
		if errors.Is(err, ErrInUse) {
			t.Error("who measured the mount still holds it")
		}
	})
	t.Logf("%d processes wait", c.tasks.Len())
	takes(t, 10*time.Second, func() {
		err := detach(t, c, dirty, false)
		t.Logf("dirty: %v", err)
		if err == nil {
			t.Error("a mount in use is unmounted")
		}
	})
	must(t, process.Kill())
	c.cfg.Limits.Unmount = 15 * time.Second
	for _, place := range []string{clean, dirty} {
		if len(mounts(t, place)) == 0 {
			continue
		}
		takes(t, 20*time.Second, func() {
			t.Logf("%s by force: %v", place, detach(t, c, place, true))
		})
		if left := mounts(t, place); len(left) != 0 {
			t.Errorf("left %q", left)
		}
	}
	select {
	case err := <-closed:
		t.Logf("the writer: %v", err)
		return
	case <-time.After(10 * time.Second):
		t.Log("the kernel lets the writer go only when the server is back")
	}
	s.Heal()
	healed = true
	select {
	case err := <-closed:
		t.Logf("the writer: %v", err)
	case <-time.After(2 * time.Minute):
		t.Error("the writer still waits")
	}
}
