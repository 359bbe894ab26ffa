package nfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"golang.org/x/sys/unix"

	model "quarry.storage/quarry/agent/agenttest/nfs"
	"quarry.storage/quarry/agent/internal/host/nfs/child"
	"quarry.storage/quarry/agent/internal/host/nfs/share"
	"quarry.storage/quarry/agent/internal/host/run/task"
	"quarry.storage/quarry/pkg/sharedvolume"
)

const owner = "0f3b2c1d-1111-2222-3333-444455556666"

// world is a model of servers, each with one share, and of the processes that work on them. Directories are real.
type world struct {
	t   *testing.T
	dir string

	mu sync.Mutex
	// down are the servers that do not answer: every change and every mount of theirs waits until they are up again.
	down map[string]chan struct{}
	// failing are the servers that answer with an error.
	failing map[string]error
	// stubborn are the tasks, and the servers, whose processes cannot be killed while something waits.
	stubborn map[string]bool
	started  atomic.Int64
	running  atomic.Int64
	// tasks answer what is not a server.
	tasks map[string]func(files []*os.File) error
	// usage is what every mount of a pod measures.
	usage Usage
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	w := &world{t: t, dir: t.TempDir(), down: map[string]chan struct{}{}, failing: map[string]error{}, stubborn: map[string]bool{}, tasks: map[string]func([]*os.File) error{}}
	for _, server := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(w.dir, server), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// quick are limits that a test can wait for.
var quick = Limits{
	Resolve: 200 * time.Millisecond, Mount: 600 * time.Millisecond, Call: 600 * time.Millisecond, Slice: 100 * time.Millisecond,
	Unmount: 400 * time.Millisecond, Idle: time.Minute, Measure: 200 * time.Millisecond, Processes: 4, Calls: 3,
}

func (w *world) client(limits Limits) *Client {
	c := New(Config{
		NodeName: "n1", Start: w.start, Limits: limits, Log: testr.New(w.t),
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			if _, err := os.Stat(filepath.Join(w.dir, host)); err != nil {
				return nil, errors.New("no such host")
			}
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		},
	})
	w.t.Cleanup(func() {
		w.release()
		c.Close()
		for deadline := time.Now().Add(5 * time.Second); w.running.Load() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				w.t.Errorf("%d processes are left", w.running.Load())
				return
			}
		}
	})
	return c
}

// stop lets a server answer nothing any more.
func (w *world) stop(server string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[server] = make(chan struct{})
}

// fail lets a server answer with an error, or as it should when that is nil.
func (w *world) fail(server string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing[server] = err
}

func (w *world) failure(server string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failing[server]
}

// release lets all servers answer again.
func (w *world) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for server, waits := range w.down {
		close(waits)
		delete(w.down, server)
	}
}

func (w *world) waits(server string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := w.down[server]; ok {
		return c
	}
	up := make(chan struct{})
	close(up)
	return up
}

// modelProcess is a process of the model.
type modelProcess struct {
	io.Reader
	io.Writer
	end    func()
	kill   func()
	killed chan struct{}
	done   chan struct{}
	words  string
}

func (p *modelProcess) End()                  { p.end() }
func (p *modelProcess) Kill()                 { p.kill() }
func (p *modelProcess) Done() <-chan struct{} { return p.done }
func (p *modelProcess) LastWords() string     { return p.words }

func (w *world) start(kind string, files ...*os.File) (task.Process, error) {
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	p := &modelProcess{Reader: outRead, Writer: inWrite, killed: make(chan struct{}), done: make(chan struct{})}
	p.end = func() { _ = inWrite.Close() } // A pipe in memory closes.
	var once sync.Once
	p.kill = func() {
		once.Do(func() {
			close(p.killed)
			inRead.CloseWithError(errors.New("killed"))
			outWrite.CloseWithError(errors.New("killed"))
		})
	}
	w.started.Add(1)
	w.running.Add(1)
	var server atomic.Value
	server.Store(kind)
	go func() {
		defer w.running.Add(-1)
		defer close(p.done)
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			defer func() { _ = outWrite.Close() }() // As above.
			if kind != child.TaskServe {
				w.task(kind, files, inRead, outWrite)
				return
			}
			_ = child.Serve(inRead, outWrite, func(m child.Mount) (child.Site, string, error) {
				server.Store(m.Host)
				return w.open(m, p)
			}) // A killed process says nothing.
		}()
		select {
		case <-finished:
		case <-p.killed:
			if name := server.Load().(string); w.stubborn[name] {
				<-w.waits(name)
			}
		}
	}()
	return p, nil
}

func (w *world) open(m child.Mount, p *modelProcess) (child.Site, string, error) {
	s := &modelSite{world: w, host: m.Host, process: p}
	return s, "10.0.0.1:2049", s.answers()
}

// modelSite is a share of the model, as one process has it.
type modelSite struct {
	*world
	host    string
	process *modelProcess
	placing sync.Mutex
}

// answers waits for the server.
func (s *modelSite) answers() error {
	<-s.waits(s.host)
	select {
	case <-s.process.killed:
		return errors.New("killed")
	default:
		return nil
	}
}

func (s *modelSite) Open() (*share.Share, error) {
	if err := errors.Join(s.answers(), s.failure(s.host)); err != nil {
		return nil, err
	}
	fd, err := unix.Open(filepath.Join(s.dir, s.host), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return share.New(fd, share.Config{Placing: &s.placing, Hook: func(string, bool) error { return s.answers() }}), nil
}

func (w *world) task(kind string, files []*os.File, in io.Reader, out io.Writer) {
	err := child.Once(in, out, func(any) (child.Response, error) {
		return child.Response{Measured: w.usage}, w.tasks[kind](files)
	})
	if err != nil {
		w.t.Logf("%s: %v", kind, err)
	}
}

func shareOf(server string) sharedvolume.Share {
	return sharedvolume.Share{Server: server, Path: "/export", Owner: owner}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantReason(t *testing.T, err error, reason string, says ...string) {
	t.Helper()
	var p *sharedvolume.Problem
	if !errors.As(err, &p) || p.Reason != reason {
		t.Errorf("%v, want reason %s", err, reason)
		return
	}
	for _, s := range append(says, "node n1") {
		if !strings.Contains(p.Message, s) {
			t.Errorf("%q does not say %q", p.Message, s)
		}
	}
}

// takes runs something that must not take long.
func takes(t *testing.T, most time.Duration, do func()) {
	t.Helper()
	begin := time.Now()
	do()
	if took := time.Since(begin); took > most {
		t.Errorf("it took %s", took)
	}
}

func TestClient_lifecycle(t *testing.T) {
	w := newWorld(t)
	c := w.client(Limits{})
	s := shareOf("one")
	seen, err := c.GetShare(t.Context(), s, true)
	must(t, err)
	if seen.Problem != nil || seen.Total < seen.Used || seen.Address != "10.0.0.1:2049" || seen.Version != "4.2" {
		t.Errorf("prepared: %+v", seen)
	}
	s.ID = seen.ID
	d, err := c.EnsureDirectory(t.Context(), s, sharedvolume.Wish{Name: "pvc-1", Directory: "team/data", OnDelete: sharedvolume.Delete})
	if err != nil || d.State != sharedvolume.Made || d.ShareID != s.ID {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := c.AbandonDirectory(t.Context(), s, "pvc-1"); !errors.Is(err, sharedvolume.ErrState) {
		t.Errorf("a volume that was made is abandoned: %v", err)
	}
	r, err := c.RemoveDirectory(t.Context(), s, "pvc-1", "", "")
	if err != nil || !r.Done || r.OnDelete != sharedvolume.Delete {
		t.Errorf("%+v, %v", r, err)
	}
	if n := w.started.Load(); n != 1 {
		t.Errorf("%d processes were started", n)
	}
}

func TestClient_errors(t *testing.T) {
	w := newWorld(t)
	c := w.client(Limits{})
	s := shareOf("one")
	_, err := c.EnsureDirectory(t.Context(), s, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	wantReason(t, err, sharedvolume.ReasonNotPrepared)
	_, err = c.GetShare(t.Context(), s, true)
	must(t, err)
	_, err = c.EnsureDirectory(t.Context(), s, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	must(t, err)
	_, err = c.EnsureDirectory(t.Context(), s, sharedvolume.Wish{Name: "pvc-2", Directory: "data", OnDelete: sharedvolume.Delete})
	if !errors.Is(err, sharedvolume.ErrTaken) {
		t.Errorf("%v", err)
	}
	must(t, os.Rename(filepath.Join(w.dir, "one/data"), filepath.Join(w.dir, "one/other")))
	_, err = c.EnsureDirectory(t.Context(), s, sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	if !errors.Is(err, sharedvolume.ErrState) {
		t.Errorf("%v", err)
	}
	s.ID = "00000000-0000-0000-0000-000000000000"
	_, err = c.RemoveDirectory(t.Context(), s, "pvc-1", "", "")
	wantReason(t, err, sharedvolume.ReasonOtherShare)
	_, err = c.EnsureDirectory(t.Context(), shareOf("nowhere"), sharedvolume.Wish{Name: "pvc-1", Directory: "data", OnDelete: sharedvolume.Delete})
	wantReason(t, err, sharedvolume.ReasonNameUnresolved, "nowhere")
	seen, err := c.GetShare(t.Context(), shareOf("nowhere"), true)
	if err != nil || seen.Problem == nil || seen.Problem.Reason != sharedvolume.ReasonNameUnresolved {
		t.Errorf("%+v, %v", seen, err)
	}
}

func TestClient_invalid(t *testing.T) {
	w := newWorld(t)
	c := w.client(Limits{})
	before := w.started.Load()
	for name, s := range map[string]sharedvolume.Share{
		"no server": {Path: "/a", Owner: owner}, "a relative path": {Server: "one", Path: "a", Owner: owner}, "no owner": {Server: "one", Path: "/a"},
		"an option": {Server: "one", Path: "/a", Owner: owner, MountOptions: []string{"suid"}}, "an identity": {Server: "one", Path: "/a", Owner: owner, ID: "x"},
	} {
		_, getErr := c.GetShare(t.Context(), s, true)
		_, ensureErr := c.EnsureDirectory(t.Context(), s, sharedvolume.Wish{Name: "pvc-1", Directory: "a", OnDelete: sharedvolume.Delete})
		_, removeErr := c.RemoveDirectory(t.Context(), s, "pvc-1", "", "")
		_, _, listErr := c.ListDirectories(t.Context(), s, "", 1, false)
		abandonErr := c.AbandonDirectory(t.Context(), s, "pvc-1")
		for _, err := range []error{getErr, ensureErr, removeErr, abandonErr, listErr} {
			if !errors.Is(err, sharedvolume.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, name := range []string{"", "../a", "A", "a/b"} {
		if _, err := c.EnsureDirectory(t.Context(), shareOf("one"), sharedvolume.Wish{Name: name, Directory: "a", OnDelete: sharedvolume.Delete}); !errors.Is(err, sharedvolume.ErrInvalid) {
			t.Errorf("volume %q: %v", name, err)
		}
		if _, err := c.EnsureDirectory(t.Context(), shareOf("one"), sharedvolume.Wish{Name: "a", Directory: name + "/", OnDelete: sharedvolume.Delete}); !errors.Is(err, sharedvolume.ErrInvalid) {
			t.Errorf("directory %q: %v", name, err)
		}
	}
	if w.started.Load() != before {
		t.Error("a process was started for a wrong request")
	}
}

// TestClient_hangingServer stops one server in the middle of a call: that call fails at its deadline, others on the share at once, and
// the other server's are not delayed.
func TestClient_hangingServer(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		t.Run(fmt.Sprintf("stubborn %t", stubborn), func(t *testing.T) {
			w := newWorld(t)
			w.stubborn["one"] = stubborn
			c := w.client(quick)
			for _, server := range []string{"one", "two"} {
				_, err := c.GetShare(t.Context(), shareOf(server), true)
				must(t, err)
			}
			w.stop("one")
			var wait sync.WaitGroup
			for i := range 2 {
				wait.Go(func() {
					takes(t, 10*time.Second, func() {
						_, err := c.EnsureDirectory(t.Context(), shareOf("one"), sharedvolume.Wish{Name: fmt.Sprintf("pvc-%d", i), Directory: fmt.Sprintf("d%d", i), OnDelete: sharedvolume.Delete})
						wantReason(t, err, sharedvolume.ReasonUnreachable)
					})
				})
			}
			takes(t, 2*time.Second, func() {
				_, err := c.EnsureDirectory(t.Context(), shareOf("two"), sharedvolume.Wish{Name: "pvc-8", Directory: "d", OnDelete: sharedvolume.Delete})
				must(t, err)
			})
			wait.Wait()
			if stubborn {
				// A process that was killed before it came to wait is gone at once: then the next one hangs, in its mount.
				for deadline := time.Now().Add(5 * time.Second); ; {
					var err error
					takes(t, time.Second, func() {
						_, err = c.EnsureDirectory(t.Context(), shareOf("one"), sharedvolume.Wish{Name: "pvc-9", Directory: "d9", OnDelete: sharedvolume.Delete})
					})
					if err != nil && strings.Contains(err.Error(), "still waits") || time.Now().After(deadline) {
						wantReason(t, err, sharedvolume.ReasonUnreachable, "still waits")
						break
					}
					wantReason(t, err, sharedvolume.ReasonUnreachable)
				}
			}
			seen, err := c.GetShare(t.Context(), shareOf("one"), false)
			if err != nil || seen.Problem == nil || seen.Problem.Reason != sharedvolume.ReasonUnreachable {
				t.Errorf("%+v, %v", seen, err)
			}
			if n := w.running.Load(); n > 3 {
				t.Errorf("%d processes", n)
			}
			w.release()
			back(t, func() error {
				_, err := c.EnsureDirectory(t.Context(), shareOf("one"), sharedvolume.Wish{Name: "pvc-0", Directory: "d0", OnDelete: sharedvolume.Delete})
				return err
			})
		})
	}
}

// back waits until something works again.
func back(t *testing.T, do func() error) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		err := do()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestClient_crash(t *testing.T) {
	w := newWorld(t)
	c := w.client(quick)
	_, err := c.GetShare(t.Context(), shareOf("one"), true)
	must(t, err)
	w.stop("one")
	failed := make(chan error, 1)
	go func() {
		_, err := c.EnsureDirectory(t.Context(), shareOf("one"), sharedvolume.Wish{Name: "pvc-1", Directory: "d", OnDelete: sharedvolume.Delete})
		failed <- err
	}()
	time.Sleep(20 * time.Millisecond)
	c.mu.Lock()
	for _, s := range c.shares {
		s.process.Kill()
	}
	c.mu.Unlock()
	wantReason(t, <-failed, sharedvolume.ReasonUnreachable, "gone")
	w.release()
	back(t, func() error {
		_, err := c.EnsureDirectory(t.Context(), shareOf("one"), sharedvolume.Wish{Name: "pvc-1", Directory: "d", OnDelete: sharedvolume.Delete})
		return err
	})
}

// TestClient_idle unmounts a share that nobody asks for, and mounts it again.
func TestClient_idle(t *testing.T) {
	w := newWorld(t)
	limits := quick
	limits.Idle = 30 * time.Millisecond
	c := w.client(limits)
	for round := range 3 {
		back(t, func() error {
			seen, err := c.GetShare(t.Context(), shareOf("one"), true)
			if err == nil && seen.Problem != nil {
				return seen.Problem
			}
			return err
		})
		if n := w.started.Load(); n != int64(round+1) {
			t.Errorf("%d processes were started in round %d", n, round)
		}
		for deadline := time.Now().Add(5 * time.Second); w.running.Load() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the share stays mounted")
			}
		}
	}
}

// TestClient_oneCallPerVolume refuses a second call on a volume, and serves it after the first.
func TestClient_oneCallPerVolume(t *testing.T) {
	w := newWorld(t)
	c := w.client(Limits{})
	_, err := c.GetShare(t.Context(), shareOf("one"), true)
	must(t, err)
	w.stop("one")
	first := make(chan error)
	go func() {
		_, err := c.EnsureDirectory(t.Context(), shareOf("one"), sharedvolume.Wish{Name: "pvc-1", Directory: "d", OnDelete: sharedvolume.Delete})
		first <- err
	}()
	for c.lockedNothing() {
		time.Sleep(time.Millisecond)
	}
	_, err = c.RemoveDirectory(t.Context(), shareOf("one"), "pvc-1", "", "")
	if !errors.Is(err, sharedvolume.ErrBusy) {
		t.Errorf("%v", err)
	}
	w.release()
	must(t, <-first)
	r, err := c.RemoveDirectory(t.Context(), shareOf("one"), "pvc-1", "", "")
	if err != nil || !r.Done {
		t.Errorf("%+v, %v", r, err)
	}
}

func (c *Client) lockedNothing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.busy) == 0
}

// TestClient_callerGoes lets the work go on when nobody waits for it, and meanwhile refuses other work on the same volume.
func TestClient_callerGoes(t *testing.T) {
	w := newWorld(t)
	c := w.client(Limits{})
	_, err := c.GetShare(t.Context(), shareOf("one"), true)
	must(t, err)
	w.stop("one")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		time.Sleep(20 * time.Millisecond)
		cancel()
	}()
	_, err = c.EnsureDirectory(ctx, shareOf("one"), sharedvolume.Wish{Name: "pvc-1", Directory: "d", OnDelete: sharedvolume.Delete})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	takes(t, time.Second, func() {
		if _, err := c.RemoveDirectory(t.Context(), shareOf("one"), "pvc-1", "", ""); !errors.Is(err, sharedvolume.ErrBusy) {
			t.Errorf("another call works on the volume: %v", err)
		}
	})
	w.release()
	back(t, func() error {
		_, err := os.Stat(filepath.Join(w.dir, "one/d"))
		return err
	})
	back(t, func() error {
		r, err := c.RemoveDirectory(t.Context(), shareOf("one"), "pvc-1", "", "")
		if err == nil && !r.Done {
			err = errors.New("not done")
		}
		return err
	})
}

// TestClient_callerGoesForGood ends the lock of a volume when a server does not answer what nobody waits for.
func TestClient_callerGoesForGood(t *testing.T) {
	w := newWorld(t)
	c := w.client(quick)
	_, err := c.GetShare(t.Context(), shareOf("one"), true)
	must(t, err)
	w.stop("one")
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	go func() {
		time.Sleep(20 * time.Millisecond)
		cancel()
	}()
	_, err = c.EnsureDirectory(ctx, shareOf("one"), sharedvolume.Wish{Name: "pvc-1", Directory: "d", OnDelete: sharedvolume.Delete})
	if !errors.Is(err, context.Canceled) || c.lockedNothing() {
		t.Errorf("%v", err)
	}
	for deadline := time.Now().Add(5 * time.Second); !c.lockedNothing(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the volume stays locked")
		}
	}
}

// TestClient_callerHasNoMoreTime lets the work of all go on when the time of one caller is over: only the limit of the agent itself ends a process.
func TestClient_callerHasNoMoreTime(t *testing.T) {
	w := newWorld(t)
	c := w.client(Limits{})
	_, err := c.GetShare(t.Context(), shareOf("one"), true)
	must(t, err)
	w.stop("one")
	other := ensuring(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.EnsureDirectory(ctx, shareOf("one"), sharedvolume.Wish{Name: "pvc-2", Directory: "e", OnDelete: sharedvolume.Delete}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := c.RemoveDirectory(t.Context(), shareOf("one"), "pvc-2", "", ""); !errors.Is(err, sharedvolume.ErrBusy) {
		t.Errorf("another call works on the volume: %v", err)
	}
	w.release()
	must(t, <-other)
	back(t, func() error {
		_, err := c.EnsureDirectory(t.Context(), shareOf("one"), sharedvolume.Wish{Name: "pvc-2", Directory: "e", OnDelete: sharedvolume.Delete})
		return err
	})
	if n := w.started.Load(); n != 1 {
		t.Errorf("%d processes were started", n)
	}
}

// ensuring makes a volume on server one, which does not answer, and returns where the outcome comes.
func ensuring(t *testing.T, c *Client) <-chan error {
	t.Helper()
	made := make(chan error, 1)
	go func() {
		_, err := c.EnsureDirectory(t.Context(), shareOf("one"), sharedvolume.Wish{Name: "pvc-1", Directory: "d", OnDelete: sharedvolume.Delete})
		made <- err
	}()
	for c.lockedNothing() {
		time.Sleep(time.Millisecond)
	}
	return made
}

// TestClient_lateLook says of each look at a server that does not answer what was tried, soon, and ends no other work on the share.
func TestClient_lateLook(t *testing.T) {
	for name, there := range map[string]bool{"mounted": true, "not mounted yet": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.client(Limits{Look: time.Second})
			var other <-chan error
			if there {
				back(t, func() error { return looked(t, c) })
				w.stop("one")
				other = ensuring(t, c)
			} else {
				w.stop("one")
			}
			for range 2 {
				takes(t, 5*time.Second, func() { wantReason(t, looked(t, c), sharedvolume.ReasonUnreachable, "one:/export", "within 1s") })
			}
			w.release()
			if there {
				must(t, <-other)
			}
			back(t, func() error { return looked(t, c) })
			if n := w.started.Load(); n != 1 {
				t.Errorf("%d processes were started", n)
			}
		})
	}
}

// looked looks at the share of server one, and returns what is wrong with it.
func looked(t *testing.T, c *Client) error {
	t.Helper()
	seen, err := c.GetShare(t.Context(), shareOf("one"), true)
	must(t, err)
	if seen.Problem == nil {
		return nil
	}
	return seen.Problem
}

// TestClient_lateAnswer connects anew once a server says too late, when nobody waits any more, that it cannot be reached.
func TestClient_lateAnswer(t *testing.T) {
	w := newWorld(t)
	c := w.client(Limits{Look: time.Second})
	back(t, func() error { return looked(t, c) })
	w.stop("one")
	wantReason(t, looked(t, c), sharedvolume.ReasonUnreachable)
	w.fail("one", sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "The server stopped answering."))
	w.release()
	back(t, func() error {
		if n := w.running.Load(); n > 0 {
			return fmt.Errorf("%d processes", n)
		}
		return nil
	})
	w.fail("one", nil)
	back(t, func() error { return looked(t, c) })
	if n := w.started.Load(); n != 2 {
		t.Errorf("%d processes were started", n)
	}
}

func TestClient_slices(t *testing.T) {
	w := newWorld(t)
	limits := Limits{Slice: time.Millisecond}
	c := w.client(limits)
	_, err := c.GetShare(t.Context(), shareOf("one"), true)
	must(t, err)
	_, err = c.EnsureDirectory(t.Context(), shareOf("one"), sharedvolume.Wish{Name: "pvc-1", Directory: "d", OnDelete: sharedvolume.Delete})
	must(t, err)
	for i := range 500 {
		must(t, os.WriteFile(filepath.Join(w.dir, "one/d", fmt.Sprint(i)), nil, 0o600))
	}
	calls := 0
	for done := false; !done; calls++ {
		r, err := c.RemoveDirectory(t.Context(), shareOf("one"), "pvc-1", "", "")
		must(t, err)
		done = r.Done
		if done && r.Removed != 500 {
			t.Errorf("%+v", r)
		}
	}
	if calls < 2 {
		t.Errorf("%d calls", calls)
	}
}

// TestContract holds the client, over real directories, to what its model in package agenttest/nfs does.
func TestContract(t *testing.T) {
	model.Contract(t, func(t *testing.T) model.Site {
		w := newWorld(t)
		root := filepath.Join(w.dir, "one")
		return model.Site{
			Directories: w.client(Limits{}), Share: shareOf("one"),
			Put: func(directory string) { must(t, os.MkdirAll(filepath.Join(root, directory), 0o755)) },
			Take: func(directory string) {
				// Moved, not removed: its inode stays taken.
				must(t, os.Rename(filepath.Join(root, directory), filepath.Join(w.dir, filepath.Base(directory))))
			},
			Forget: func() {
				must(t, os.RemoveAll(filepath.Join(root, sharedvolume.MarkDirectory, "volumes", shareOf("one").Owner)))
			},
			List: func() []string {
				entries, err := os.ReadDir(root)
				must(t, err)
				var out []string
				for _, e := range entries {
					if e.Name() != sharedvolume.MarkDirectory {
						out = append(out, e.Name())
					}
				}
				return out
			},
		}
	})
}
