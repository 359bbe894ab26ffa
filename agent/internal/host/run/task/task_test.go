package task

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
)

type said struct{ Text string }

// fake is a process that says something, or hangs until it is killed, and perhaps longer.
type fake struct {
	io.Reader
	out *io.PipeWriter
	// says is what it says to any message; nothing when nil.
	says *said
	// stuck: the kernel does not let it go.
	stuck bool
	once  sync.Once
	done  chan struct{}
}

func newFake(says *said) *fake {
	r, w := io.Pipe()
	return &fake{Reader: r, out: w, says: says, done: make(chan struct{})}
}

func (f *fake) Write(b []byte) (int, error) {
	if f.says != nil {
		go func() { _ = json.NewEncoder(f.out).Encode(f.says) }() // Whoever does not read any more has gone.
	}
	return len(b), nil
}

func (f *fake) End() { f.free() }

// Kill ends it, unless it is stuck.
func (f *fake) Kill() {
	if !f.stuck {
		f.free()
	}
}

func (f *fake) free() {
	f.once.Do(func() {
		_ = f.out.Close() // A pipe in memory closes.
		close(f.done)
	})
}

func (f *fake) Done() <-chan struct{} { return f.done }

func (f *fake) LastWords() string { return "its last words" }

// table is a Table with room for so many of the processes that are given, which are started one after the other.
func table(t *testing.T, size, hanging int, processes ...*fake) *Table {
	t.Helper()
	return NewTable(func(kind string, _ ...*os.File) (Process, error) {
		if len(processes) == 0 {
			return nil, fmt.Errorf("no process for %s", kind)
		}
		p := processes[0]
		processes = processes[1:]
		return p, nil
	}, NewRoom(size), hanging, logr.Discard())
}

func wantWhy(t *testing.T, err error, why Why, says string) {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) || r.Why != why || !strings.Contains(r.Message, says) {
		t.Errorf("%v, want %s with %q", err, why, says)
	}
}

func TestRun(t *testing.T) {
	dies := newFake(nil)
	dies.free()
	tab := table(t, 1, 1, newFake(&said{"well"}), dies)
	for _, want := range []string{"well", "task: EOF: its last words", "no process for look"} {
		task := &Task{Kind: "look", On: "a", For: "server one", Limit: time.Minute}
		out, err := Run[said](t.Context(), tab, task, "secret")
		got := out.Text
		if err != nil {
			got = err.Error()
		}
		if got != want || task.Started != (want != "no process for look") {
			t.Errorf("%s, started %t, want %s", got, task.Started, want)
		}
		if tab.Len() != 0 {
			t.Errorf("%d tasks are left", tab.Len())
		}
	}
}

// TestRun_callerGoes: the work goes on when its caller goes away.
func TestRun_callerGoes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := Run[said](ctx, table(t, 1, 1, newFake(&said{"well"})), &Task{Kind: "look", On: "a", Limit: time.Minute}, ""); err != nil || out.Text != "well" {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestRun_stuck: a process that the kernel does not let go keeps its thing, a mount of its volume, and its room; nobody else's.
func TestRun_stuck(t *testing.T) { synctest.Test(t, testStuck) }

func testStuck(t *testing.T) {
	stuck := newFake(nil)
	stuck.stuck = true
	tab := table(t, 2, 1, stuck, newFake(&said{"well"}), newFake(&said{"well"}))
	run := func(task Task) error {
		_, err := Run[said](t.Context(), tab, &task, "")
		return err
	}
	unmount := Task{Kind: "unmount", On: "volume v at a", For: "server one", Volume: "v", Writes: true, Limit: time.Minute}
	if err := run(unmount); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	wantWhy(t, run(unmount), Waits, "waits for server one since 2000-01-01T00:01:01Z")
	mount := Task{Kind: "attach", On: "v", For: "server one", Volume: "v", Mounts: true, Limit: time.Minute}
	wantWhy(t, run(mount), Writing, "still has to write to server one")
	other := Task{Kind: "attach", On: "w", For: "server one", Volume: "w", Mounts: true, Limit: time.Minute}
	wantWhy(t, run(other), Hanging, "1 processes of this node wait for server one")
	other.For = "server two"
	if err := run(other); err != nil {
		t.Errorf("another server: %v", err)
	}
	if !tab.room.Take() {
		t.Fatal("there is no room")
	}
	wantWhy(t, run(other), Full, "2 processes")
	tab.room.Give()
	stuck.free()
	if synctest.Wait(); tab.Len() > 0 {
		t.Error("the task is not forgotten")
	}
	if err := run(mount); err != nil {
		t.Errorf("%v", err)
	}
}

// TestRun_sameThing: two tasks on one thing are never there at once.
func TestRun_sameThing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newFake(nil)
		tab := table(t, 5, 5, slow, newFake(&said{"well"}))
		done := make(chan error)
		go func() {
			_, err := Run[said](t.Context(), tab, &Task{Kind: "attach", On: "v", Limit: time.Minute}, "")
			done <- err
		}()
		synctest.Wait() // The first one waits for what its process says.
		_, err := Run[said](t.Context(), tab, &Task{Kind: "attach", On: "v", Limit: time.Minute}, "")
		wantWhy(t, err, Busy, "attach v: attach of it is in progress")
		slow.free()
		if err := <-done; err == nil {
			t.Error("a process that says nothing has done its work")
		}
	})
}

func TestKinds(t *testing.T) {
	kinds := Kinds{{"first", os.ErrNotExist}, {"second", os.ErrPermission}}
	for name, c := range map[string]struct{ err, is error }{
		"nil is nil":        {nil, nil},
		"a kind is kept":    {fmt.Errorf("it: %w", os.ErrPermission), os.ErrPermission},
		"the first wins":    {errors.Join(os.ErrPermission, os.ErrNotExist), os.ErrNotExist},
		"others are a text": {io.EOF, nil},
	} {
		text, err := json.Marshal(kinds.Failure(c.err))
		var f *Failure
		if err := errors.Join(err, json.Unmarshal(text, &f)); err != nil {
			t.Fatal(err)
		}
		got := kinds.Err(f)
		if (got == nil) != (c.err == nil) || got != nil && got.Error() != c.err.Error() || c.is != nil && !errors.Is(got, c.is) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestOnce tells nobody what a message was that cannot be read.
func TestOnce(t *testing.T) {
	var out bytes.Buffer
	again := func(m said) said { return said{m.Text + m.Text} }
	if err := Once(strings.NewReader(`{"Text":"a"}`), &out, again); err != nil || out.String() != "{\"Text\":\"aa\"}\n" {
		t.Errorf("%s, %v", out.String(), err)
	}
	for _, message := range []string{"", `{"Text":"secret`, `{"Text":secret}`} {
		if err := Once(strings.NewReader(message), &out, again); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", message, err)
		}
	}
}
