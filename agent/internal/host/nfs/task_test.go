package nfs

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/host/nfs/child"
	"quarry.storage/quarry/pkg/sharedvolume"
)

func volume() Volume {
	return Volume{
		ID:         sharedvolume.ID{Owner: owner, Name: "pvc-1"},
		Attributes: sharedvolume.Attributes{Server: "one", Path: "/export", Directory: "data", OnDelete: sharedvolume.Delete},
	}
}

func TestAttach(t *testing.T) {
	w := newWorld(t)
	c := w.client(quick)
	place, err := os.Open(t.TempDir())
	must(t, err)
	defer place.Close()
	var got []*os.File
	w.tasks[child.TaskAttach] = func(files []*os.File) error { got = files; return nil }
	must(t, c.Attach(t.Context(), volume(), place))
	if len(got) != 1 || got[0] != place {
		t.Errorf("files %v", got)
	}
	w.tasks[child.TaskAttach] = func([]*os.File) error {
		return sharedvolume.NewProblem(sharedvolume.ReasonRefused, "No.")
	}
	wantReason(t, c.Attach(t.Context(), volume(), place), sharedvolume.ReasonRefused, "No.")
	w.tasks[child.TaskAttach] = func([]*os.File) error { return os.ErrNotExist }
	if err := c.Attach(t.Context(), volume(), place); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	before := w.started.Load()
	v := volume()
	v.Options = []string{"suid"}
	if err := c.Attach(t.Context(), v, place); !errors.Is(err, sharedvolume.ErrInvalid) {
		t.Errorf("%v", err)
	}
	v = volume()
	v.Server = "nowhere"
	wantReason(t, c.Attach(t.Context(), v, place), sharedvolume.ReasonNameUnresolved)
	if w.started.Load() != before {
		t.Error("a process was started")
	}
}

// TestTask_hangs kills a task that does not end, and refuses another on the same thing while the kernel keeps the first.
func TestTask_hangs(t *testing.T) {
	w := newWorld(t)
	c := w.client(quick)
	dir, err := os.Open(t.TempDir())
	must(t, err)
	defer dir.Close()
	mounted := Mounted{Dir: dir, Name: "a", What: "volume a", Server: "one"}
	waits := make(chan struct{})
	var calls atomic.Int64
	w.stop(child.TaskUnmount)
	w.stubborn[child.TaskUnmount] = true
	w.tasks[child.TaskUnmount] = func([]*os.File) error { calls.Add(1); <-waits; return nil }
	takes(t, 20*time.Second, func() {
		if err := c.Unmount(t.Context(), mounted, false); !errors.Is(err, ErrHangs) {
			t.Errorf("%v", err)
		}
	})
	for range 10 {
		takes(t, time.Second, func() {
			if err := c.Unmount(t.Context(), mounted, false); !errors.Is(err, ErrHangs) {
				t.Errorf("%v", err)
			}
		})
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d processes wait", n)
	}
	if n := w.running.Load(); n != 1 {
		t.Errorf("%d processes", n)
	}
	close(waits)
	w.release()
	w.tasks[child.TaskUnmount] = func([]*os.File) error { return child.ErrInUse }
	back(t, func() error {
		if err := c.Unmount(t.Context(), mounted, false); !errors.Is(err, ErrInUse) {
			return errors.Join(err, errors.New("not in use"))
		}
		return nil
	})
}

// TestAttach_unmountHangs refuses to mount a volume while an unmount of it waits for its server. Other volumes are mounted.
func TestAttach_unmountHangs(t *testing.T) {
	w := newWorld(t)
	c := w.client(quick)
	dir, err := os.Open(t.TempDir())
	must(t, err)
	defer dir.Close()
	v := volume()
	waits := make(chan struct{})
	w.stop(child.TaskUnmount)
	w.stubborn[child.TaskUnmount] = true
	w.tasks[child.TaskUnmount] = func([]*os.File) error { <-waits; return nil }
	w.tasks[child.TaskAttach] = func([]*os.File) error { return nil }
	at := Mounted{Dir: dir, Name: "a", What: "volume at a", Volume: v.ID.String(), Server: "one"}
	if err := c.Unmount(t.Context(), at, false); !errors.Is(err, ErrHangs) {
		t.Errorf("%v", err)
	}
	if err := c.Attach(t.Context(), v, dir); !errors.Is(err, sharedvolume.ErrBusy) {
		t.Errorf("mounted beside a mount that still has to write: %v", err)
	}
	second := volume()
	second.Name = "pvc-2"
	must(t, c.Attach(t.Context(), second, dir))
	close(waits)
	w.release()
	back(t, func() error { return c.Attach(t.Context(), v, dir) })
}

func TestReaches(t *testing.T) {
	w := newWorld(t)
	c := w.client(quick)
	w.tasks[child.TaskProbe] = func([]*os.File) error { return nil }
	must(t, c.Reaches(t.Context(), "one", nil))
	w.tasks[child.TaskProbe] = func([]*os.File) error { return sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "Nothing.") }
	wantReason(t, c.Reaches(t.Context(), "one", nil), sharedvolume.ReasonUnreachable)
	hold := make(chan struct{})
	w.tasks[child.TaskProbe] = func([]*os.File) error { <-hold; return nil }
	wantReason(t, c.Reaches(t.Context(), "one", nil), sharedvolume.ReasonUnreachable, "does not answer")
	close(hold)
}

// TestMeasure measures in a process, that holds the mount no longer than the limit says.
func TestMeasure(t *testing.T) {
	w := newWorld(t)
	c := w.client(quick)
	dir, err := os.Open(t.TempDir())
	must(t, err)
	defer dir.Close()
	at := Mounted{Dir: dir, Name: "mount", What: "/pods/a/mount", Server: "one"}
	w.usage = Usage{TotalBytes: 100, UsedBytes: 40, FreeBytes: 60, TotalInodes: 10}
	var got []*os.File
	w.tasks[child.TaskMeasure] = func(files []*os.File) error { got = files; return nil }
	u, err := c.Measure(t.Context(), at)
	if err != nil || u != w.usage || len(got) != 1 || got[0] != dir {
		t.Errorf("%+v, %v of %v", u, err, got)
	}
	w.tasks[child.TaskMeasure] = func([]*os.File) error { return os.ErrNotExist }
	if _, err := c.Measure(t.Context(), at); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing is measured: %v", err)
	}
	hold := make(chan struct{})
	var held atomic.Bool
	held.Store(true)
	w.tasks[child.TaskMeasure] = func([]*os.File) error {
		if held.Load() {
			<-hold
		}
		return nil
	}
	takes(t, 5*time.Second, func() {
		_, err := c.Measure(t.Context(), at)
		wantReason(t, err, sharedvolume.ReasonUnreachable, "server one does not answer")
	})
	back(t, func() error {
		if n := w.running.Load(); n != 0 {
			return fmt.Errorf("%d processes hold the mount", n)
		}
		return nil
	})
	held.Store(false)
	close(hold)
	_, err = c.Measure(t.Context(), at)
	must(t, err)
}

// wantNotAsked expects that a server could not be asked, which does not mean that it is gone.
func wantNotAsked(t *testing.T, c *Client, server string) {
	t.Helper()
	var problem *sharedvolume.Problem
	if err := c.Reaches(t.Context(), server, nil); !errors.Is(err, sharedvolume.ErrBusy) || errors.As(err, &problem) {
		t.Errorf("the server was not asked: %v", err)
	}
}

// TestTask_full takes a bound of this node for no sign of a server.
func TestTask_full(t *testing.T) {
	w := newWorld(t)
	limits := quick
	limits.Processes, limits.Mount = 1, 20*time.Second
	c := w.client(limits)
	dir, err := os.Open(t.TempDir())
	must(t, err)
	defer dir.Close()
	begun, hold, done := make(chan struct{}), make(chan struct{}), make(chan error)
	w.tasks[child.TaskProbe] = func([]*os.File) error { close(begun); <-hold; return nil }
	go func() { done <- c.Reaches(t.Context(), "two", nil) }()
	<-begun
	wantNotAsked(t, c, "one")
	wantNotAsked(t, c, "two")
	m := Mounted{Dir: dir, Name: "a", What: "volume a", Server: "one"}
	if err := c.Unmount(t.Context(), m, false); !errors.Is(err, sharedvolume.ErrBusy) || errors.Is(err, ErrHangs) {
		t.Errorf("nothing was unmounted: %v", err)
	}
	close(hold)
	must(t, <-done)
}

// TestReaches_hangs refuses to ask a server while an earlier probe does not go: nobody knows then.
func TestReaches_hangs(t *testing.T) {
	w := newWorld(t)
	c := w.client(quick)
	waits := make(chan struct{})
	w.stop(child.TaskProbe)
	w.stubborn[child.TaskProbe] = true
	w.tasks[child.TaskProbe] = func([]*os.File) error { <-waits; return nil }
	wantReason(t, c.Reaches(t.Context(), "one", nil), sharedvolume.ReasonUnreachable)
	wantNotAsked(t, c, "one")
	close(waits)
}

// TestTask_bounds keeps what hangs because of one server from using up the room of the others.
func TestTask_bounds(t *testing.T) {
	w := newWorld(t)
	limits := quick
	limits.Hanging, limits.Processes = 2, 10
	c := w.client(limits)
	dir, err := os.Open(t.TempDir())
	must(t, err)
	defer dir.Close()
	waits := make(chan struct{})
	w.stop(child.TaskUnmount)
	w.stubborn[child.TaskUnmount] = true
	w.tasks[child.TaskUnmount] = func([]*os.File) error { <-waits; return nil }
	for i := range 4 {
		most := 3 * time.Second
		if i >= limits.Hanging {
			most = 50 * time.Millisecond
		}
		takes(t, 10*most, func() {
			m := Mounted{Dir: dir, Name: "a", What: fmt.Sprintf("volume %d", i), Server: "one"}
			tried := i < limits.Hanging
			err := c.Unmount(t.Context(), m, false)
			if errors.Is(err, ErrHangs) != tried || errors.Is(err, sharedvolume.ErrBusy) == tried {
				t.Errorf("%d: %v, tried %t", i, err, tried)
			}
		})
	}
	wantNotAsked(t, c, "one")
	if n := w.running.Load(); n != int64(limits.Hanging) {
		t.Errorf("%d processes", n)
	}
	_, err = c.GetShare(t.Context(), shareOf("two"), true)
	must(t, err)
	close(waits)
}
