package cephfs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/host/cephfs/child"
	"quarry.storage/quarry/agent/internal/host/run/task"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/cephvolume"
)

const (
	fsid   = "7a1c6d1e-0000-4000-8000-000000000001"
	aes    = "AQBDzQVrmkueLhAAX1mFwjHJGUCpFWeoSk/A1w=="
	aes256 = "AgA/zQVrqvXeHSAAgZ2iSC7w+mPNaDL9ttX4bJTe7Cvib0Ukv85XRW+GY7I="
)

// fake is a process that answers with a response, or hangs until it is killed, and perhaps longer.
type fake struct {
	io.Reader
	out    *io.PipeWriter
	got    bytes.Buffer
	answer *child.Response
	// stuck: the kernel does not let it go.
	stuck bool
	done  chan struct{}
	ended bool
}

func newFake(answer *child.Response) *fake {
	r, w := io.Pipe()
	return &fake{Reader: r, out: w, answer: answer, done: make(chan struct{})}
}

func (f *fake) Write(b []byte) (int, error) {
	n, err := f.got.Write(b)
	if f.answer != nil {
		go func() { _ = json.NewEncoder(f.out).Encode(f.answer) }()
	}
	return n, err
}

func (f *fake) End() { f.free() }

// Kill ends it, unless it is stuck.
func (f *fake) Kill() {
	if !f.stuck {
		f.free()
	}
}

func (f *fake) free() {
	if !f.ended {
		f.ended = true
		_ = f.out.Close()
		close(f.done)
	}
}

func (f *fake) Done() <-chan struct{} { return f.done }

func (f *fake) LastWords() string { return "it went" }

// client is a Client whose processes are given.
func client(t *testing.T, release string, processes ...*fake) (*Client, *[]string) {
	t.Helper()
	var tasks []string
	return New(Config{
		Log: logr.Discard(), Mount: 50 * time.Millisecond, Unmount: 50 * time.Millisecond, Measure: 50 * time.Millisecond,
		Release: func() (string, error) { return release, nil },
		Start: func(kind string, files ...*os.File) (task.Process, error) {
			if len(tasks) >= len(processes) || len(files) != 1 {
				t.Errorf("task %s with %d files was not expected", kind, len(files))
				return nil, errors.New("not expected")
			}
			tasks = append(tasks, kind)
			return processes[len(tasks)-1], nil
		},
	}), &tasks
}

func volume(t *testing.T, key string) Volume {
	t.Helper()
	c, err := cephvolume.ParseCredential(map[string]string{cephname.KeyUser: cephname.ClientUser, cephname.KeySecret: key})
	if err != nil {
		t.Fatal(err)
	}
	id := cephvolume.ID{FSID: fsid, Name: "pvc-11111111-2222-4333-8444-555555555555"}
	return Volume{ID: id, Path: "/volumes/quarry/" + id.Name + "/" + fsid, Monitors: []string{"10.0.0.1:3300"}, Credential: c}
}

// TestAttach_theKeyGoesThroughThePipe and nowhere else.
func TestAttach_theKeyGoesThroughThePipe(t *testing.T) {
	v, p := volume(t, aes), newFake(&child.Response{})
	c, tasks := client(t, "6.1.0-1-amd64", p)
	if err := c.Attach(t.Context(), v, os.Stdin); err != nil {
		t.Fatal(err)
	}
	var got child.Attachment
	if err := json.Unmarshal(p.got.Bytes(), &got); err != nil || got.Secret != aes || got.User != cephname.ClientUser || got.Path != v.Path || fmt.Sprint(*tasks) != "[attach]" {
		t.Errorf("%+v, %v, %v", got.Path, *tasks, err)
	}
	refusal := newFake(&child.Response{Failure: &task.Failure{Kind: "refused", Message: "no"}})
	c, _ = client(t, "6.1.0", refusal, newFake(nil))
	if err := c.Attach(t.Context(), v, os.Stdin); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	if err := c.Attach(t.Context(), v, os.Stdin); !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), aes) {
		t.Errorf("nobody answers: %v", err)
	}
}

// TestAttach_keysThatTheKernelDoesNotKnow are refused in words, before anything is tried.
func TestAttach_keysThatTheKernelDoesNotKnow(t *testing.T) {
	for release, ok := range map[string]bool{"6.1.176": false, "6.18.0-rc1": false, "7.0.0": true, "7.2.7-quarry": true, "10.1": true, "": false, "next": false} {
		p := newFake(&child.Response{})
		c, tasks := client(t, release, p)
		err := c.Attach(t.Context(), volume(t, aes256), os.Stdin)
		if (err == nil) != ok || !ok && (!errors.Is(err, ErrKernel) || len(*tasks) > 0 || strings.Contains(err.Error(), aes256)) {
			t.Errorf("%q: %v", release, err)
		}
	}
}

// TestUnmount_hangs: the volume is not mounted anew while an earlier unmount of it writes, and no second process is started for the same.
func TestUnmount_hangs(t *testing.T) {
	v, stuck := volume(t, aes), newFake(nil)
	stuck.stuck = true
	c, tasks := client(t, "6.1.0", stuck, newFake(&child.Response{}))
	at := Mounted{Dir: os.Stdin, Name: "a", What: "volume at a", Volume: v.ID.String()}
	for range 2 {
		if err := c.Unmount(t.Context(), at); !errors.Is(err, ErrHangs) {
			t.Error(err)
		}
	}
	if err := c.Attach(t.Context(), v, os.Stdin); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	if len(*tasks) != 1 {
		t.Errorf("tasks %v", *tasks)
	}
	stuck.free()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		err := c.Attach(t.Context(), v, os.Stdin)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrBusy) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestUnmount_inUse(t *testing.T) {
	c, _ := client(t, "6.1.0", newFake(&child.Response{Failure: &task.Failure{Kind: "inUse", Message: "busy"}}), newFake(&child.Response{Measured: Usage{TotalBytes: 5, UsedInodes: 2}}))
	at := Mounted{Dir: os.Stdin, Name: "a", What: "a"}
	if err := c.Unmount(t.Context(), at); !errors.Is(err, ErrInUse) {
		t.Error(err)
	}
	if u, err := c.Measure(t.Context(), at); err != nil || u.TotalBytes != 5 || u.UsedInodes != 2 {
		t.Errorf("%+v, %v", u, err)
	}
}

// TestMeasure_shutOut: a client that Ceph shut out is told from daemons that do not answer, which a process waits for until it is killed.
func TestMeasure_shutOut(t *testing.T) {
	c, _ := client(t, "6.1.0", newFake(&child.Response{Failure: &task.Failure{Kind: "shutOut", Message: "permission denied"}}), newFake(nil))
	at := Mounted{Dir: os.Stdin, Name: "a", What: "a"}
	if _, err := c.Measure(t.Context(), at); !errors.Is(err, ErrShutOut) {
		t.Error(err)
	}
	if _, err := c.Measure(t.Context(), at); !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrShutOut) {
		t.Error(err)
	}
}
