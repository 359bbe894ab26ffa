package nfs

import (
	"context"
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

// TestMeasure keeps at most one thread waiting for one mount, and a bounded number in all.
func TestMeasure(t *testing.T) {
	w := newWorld(t)
	c := w.client(quick)
	u, err := c.Measure(t.Context(), w.dir)
	if err != nil || u.TotalBytes == 0 {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := c.Measure(t.Context(), w.dir+"/nothing"); err == nil {
		t.Error("nothing is measured")
	}
	hold := make(chan struct{})
	var calls atomic.Int64
	c.statfs = func(string) (Usage, error) { calls.Add(1); <-hold; return Usage{TotalBytes: 1}, nil }
	for i := range 10 {
		for n, path := range []string{"/a", "/b", "/c"} {
			most := 30 * time.Millisecond
			if i == 0 && n < 2 {
				most = time.Second
			}
			takes(t, 10*most, func() {
				_, err := c.Measure(context.WithoutCancel(t.Context()), path)
				var p *sharedvolume.Problem
				if !errors.As(err, &p) || p.Reason != sharedvolume.ReasonUnreachable {
					t.Errorf("%s: %v", path, err)
				}
			})
		}
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("%d threads wait", n)
	}
	close(hold)
	back(t, func() error {
		_, err := c.Measure(t.Context(), "/c")
		return err
	})
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
			if err := c.Unmount(t.Context(), m, false); !errors.Is(err, ErrHangs) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	if n := w.running.Load(); n != int64(limits.Hanging) {
		t.Errorf("%d processes", n)
	}
	_, err = c.GetShare(t.Context(), shareOf("two"), true)
	must(t, err)
	close(waits)
}
