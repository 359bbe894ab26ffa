package child

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/nfs/share"
	"quarry.storage/quarry/pkg/sharedvolume"
)

const owner = "0f3b2c1d-1111-2222-3333-444455556666"

// TestFailure carries every kind of error to the other side.
func TestFailure(t *testing.T) {
	if failure(nil) != nil || (*Failure)(nil).Err() != nil {
		t.Error("no error is one")
	}
	over := func(err error) error { return carry(t, err) }
	for _, k := range kinds {
		err := over(fmt.Errorf("something: %w", k.Err))
		if !errors.Is(err, k.Err) || err.Error() != "something: "+k.Err.Error() {
			t.Errorf("%s: %v", k.Name, err)
		}
		for _, other := range kinds {
			if other.Name != k.Name && errors.Is(err, other.Err) {
				t.Errorf("%s is %s too", k.Name, other.Name)
			}
		}
	}
	var p *sharedvolume.Problem
	err := over(fmt.Errorf("look: %w", sharedvolume.NewProblem(sharedvolume.ReasonReadOnly, "No.")))
	if !errors.As(err, &p) || p.Reason != sharedvolume.ReasonReadOnly || p.Message != "No." {
		t.Errorf("%v", err)
	}
	if err := over(errors.New("other")); err.Error() != "other" || errors.As(err, &p) {
		t.Errorf("%v", err)
	}
}

// carry sends an error to the other side.
func carry(t *testing.T, err error) error {
	t.Helper()
	var f Failure
	text, marshalErr := json.Marshal(failure(err))
	if err := errors.Join(marshalErr, json.Unmarshal(text, &f)); err != nil {
		t.Fatal(err)
	}
	return f.Err()
}

// directory is a site in a directory.
type directory string

func (d directory) Open() (*share.Share, error) {
	fd, err := unix.Open(string(d), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return share.New(fd, share.Config{}), nil
}

func TestServe(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	in, requests := io.Pipe()
	answers, out := io.Pipe()
	done := make(chan error, 1)
	dir := t.TempDir()
	go func() {
		done <- Serve(in, out, func(m Mount) (Site, string, error) { return directory(dir), "at " + m.Host, nil })
	}()
	to, from := json.NewEncoder(requests), json.NewDecoder(answers)
	ask := func(message, answer any) {
		t.Helper()
		if err := errors.Join(to.Encode(message), from.Decode(answer)); err != nil {
			t.Fatal(err)
		}
	}
	var m Mount
	m.Host = "nas"
	var hello Hello
	if ask(m, &hello); hello.Address != "at nas" || hello.Failure != nil {
		t.Fatalf("%+v", hello)
	}
	for id, r := range []Request{
		{Operation: Prepare},
		{Operation: Ensure, Volume: "a", Directory: "d", OnDelete: sharedvolume.Delete},
		{Operation: List, Limit: 5},
		{Operation: Look},
		{Operation: Remove, Volume: "a", Budget: 1 << 40},
		{Operation: Abandon, Volume: "a"},
		{Operation: "purge"},
		{Operation: Ensure, Volume: "../a", Directory: "d"},
	} {
		r.ID, r.Target.Owner = uint64(id), owner
		var got Response
		if ask(r, &got); got.ID != r.ID || (got.Failure != nil) != (id >= 6) {
			t.Errorf("%s: %+v", r.Operation, got)
		}
	}
	if err := errors.Join(requests.Close(), <-done); err != nil {
		t.Error(err)
	}
}

func TestServe_cannotMount(t *testing.T) {
	var out bytes.Buffer
	err := Serve(strings.NewReader("{}"), &out, func(Mount) (Site, string, error) {
		return nil, "", sharedvolume.NewProblem(sharedvolume.ReasonRefused, "No.")
	})
	var hello Hello
	if err != nil || json.Unmarshal(out.Bytes(), &hello) != nil || hello.Failure == nil || hello.Failure.Reason != sharedvolume.ReasonRefused {
		t.Errorf("%v, %s", err, out.String())
	}
	if err := Serve(strings.NewReader("no message"), &out, nil); err == nil {
		t.Error("garbage is a message")
	}
}

func TestUnreadable(t *testing.T) {
	for errno, isStale := range map[unix.Errno]bool{unix.ESTALE: true, unix.EIO: false, unix.EACCES: false, unix.ETIMEDOUT: false} {
		if err := carry(t, unreadable("a", errno)); errors.Is(err, ErrStale) != isStale || !strings.Contains(err.Error(), errno.Error()) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}

func TestOnce(t *testing.T) {
	var out bytes.Buffer
	err := Once(strings.NewReader(`{"Name":"a","Force":true}`), &out, func(u Unmounting) (Response, error) {
		if u.Name != "a" || !u.Force {
			t.Errorf("%+v", u)
		}
		return Response{}, ErrInUse
	})
	var r Response
	if err != nil || json.Unmarshal(out.Bytes(), &r) != nil || !errors.Is(r.Failure.Err(), ErrInUse) {
		t.Errorf("%v, %s", err, out.String())
	}
	if err := Once(strings.NewReader(""), &out, func(Unmounting) (Response, error) { return Response{}, nil }); err == nil {
		t.Error("nothing is a message")
	}
}

func TestMain_refuses(t *testing.T) {
	for _, argv := range [][]string{nil, {"agent"}, {"agent", Command}, {"agent", Command, "nothing", "/proc/self/ns/net"}, {"agent", Command, TaskServe, "/nonexistent"}} {
		if code := Main(argv, strings.NewReader(""), io.Discard); code != 1 {
			t.Errorf("%v: code %d", argv, code)
		}
	}
}
