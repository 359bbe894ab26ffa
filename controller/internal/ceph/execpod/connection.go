package execpod

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/ceph"
)

// program is what runs in the pod. The image has Python and Ceph's library for it, since the program ceph is made of them.
//
//go:embed connection.py
var program string

const (
	// maxLine bounds an answer as it is on its way: what a command prints is in base64 there, so nearly 24 MiB of it fit. The largest one, a dump of all OSDs, has about
	// a kilobyte for each.
	maxLine = 32 << 20
	// idle is how long a connection is kept for the next command. A Cluster where nothing happens is asked every half minute.
	idle = 90 * time.Second
	// leaving is how long a program may take to end by itself.
	leaving = 10 * time.Second
	// exitAlarm is the exit code of a program that was ended by its alarm.
	exitAlarm = 128 + int(syscall.SIGALRM)
)

// connection is one program that runs in a pod, and performs one command after the other. It is used by one caller at a time.
type connection struct {
	pod     types.UID
	name    string
	out     *lines
	in      *io.PipeWriter
	end     context.CancelCauseFunc
	ended   chan struct{}
	err     error // Why it ended; set before ended is closed.
	number  int
	expires time.Time
}

// greeting is the first line that the program prints.
type greeting struct {
	Ready  bool   `json:"ready"`
	Failed string `json:"failed"`
	Errno  int    `json:"errno"`
}

type question struct {
	ID      int      `json:"id"`
	Seconds int      `json:"seconds"`
	Args    []string `json:"args"`
	Input   []byte   `json:"input,omitempty"`
}

type answer struct {
	ID   int    `json:"id"`
	Code *int   `json:"code"`
	Out  []byte `json:"out"`
	Said string `json:"said"`
}

// seconds is what a program in the pod may take: four fifths of the time that is left. A busy node takes seconds to start it, and to tell of its end.
func seconds(ctx context.Context) int {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(patience)
	}
	return max(1, int(time.Until(deadline).Seconds()*4/5))
}

// connect starts the program in a pod, and waits until it has reached the monitors. The connection outlives ctx. An error is ErrNotStarted if another pod
// may do better; no command was performed in any case.
func connect(ctx context.Context, start Starter, pod corev1.Pod, container string) (*connection, error) {
	lasting, end := context.WithCancelCause(context.WithoutCancel(ctx))
	in, out := io.Pipe()
	c := &connection{pod: pod.UID, name: pod.Namespace + "/" + pod.Name, out: newLines(maxLine, end), in: out, end: end, ended: make(chan struct{})}
	args := []string{"python3", "-c", program, strconv.Itoa(seconds(ctx)), strconv.Itoa(int(idle.Seconds()) + 30)}
	go func() {
		code, err := start(lasting, Program{
			Namespace: pod.Namespace, Pod: pod.Name, Container: container, Args: args, Stdin: in, Stdout: c.out, Stderr: io.Discard,
		})
		switch cause := context.Cause(lasting); {
		case cause != nil:
			err = cause
		case err == nil && code == exitAlarm:
			err = fmt.Errorf("ended by its alarm: %w", context.DeadlineExceeded)
		case err == nil:
			// A connection that broke looks like a program that ended well.
			err = fmt.Errorf("the connection ended (exit code %d)", code)
		}
		if code == exitNoSuch-1 || code == exitNoSuch {
			err = fmt.Errorf("%w: no python3 in the container (exit code %d)", ErrNotStarted, code)
		}
		c.err = err
		_ = out.Close()
		close(c.ended)
	}()
	var g greeting
	line, err := c.line(ctx)
	if err == nil {
		err = json.Unmarshal(line, &g)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("connect: %w", err)
	case g.Failed != "":
		err = fmt.Errorf("%s: %w", g.Failed, syscall.Errno(g.Errno))
	case !g.Ready:
		err = errors.New("the program said something else before it was ready")
	}
	if err != nil {
		c.close()
		return nil, err
	}
	c.expires = time.Now().Add(idle)
	return c, nil
}

// line returns the next line that the program prints.
func (c *connection) line(ctx context.Context) ([]byte, error) {
	select {
	case line := <-c.out.whole:
		return line, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.ended:
	}
	select {
	case line := <-c.out.whole: // It came before the end.
		return line, nil
	default:
		return nil, c.err
	}
}

// run performs a command. After an error the connection is of no use any more: what comes next could be the answer that was waited for. sent is false if
// the command certainly did not get there.
func (c *connection) run(ctx context.Context, cmd ceph.Command) (r ceph.Result, sent bool, err error) {
	c.number++
	line, err := json.Marshal(question{ID: c.number, Seconds: seconds(ctx), Args: cmd.Args, Input: cmd.Input})
	if err != nil {
		return r, false, err
	}
	stop := context.AfterFunc(ctx, func() { c.end(ctx.Err()) })
	defer stop()
	if n, err := c.in.Write(append(line, '\n')); err != nil {
		return r, n > 0, fmt.Errorf("the connection is closed: %w", err)
	}
	line, err = c.line(ctx)
	if err != nil {
		return r, true, fmt.Errorf("the answer is not known: %w", err)
	}
	var a answer
	// No error quotes the line: a key may be in it.
	if json.Unmarshal(line, &a) != nil || a.ID != c.number || a.Code == nil {
		return r, true, errors.New("what came is not the answer to the command")
	}
	c.expires = time.Now().Add(idle)
	return ceph.Result{Stdout: a.Out, Stderr: []byte(a.Said), ExitCode: *a.Code}, true, nil
}

// alive reports whether the program still runs, as far as anybody knows, and was used a short time ago.
func (c *connection) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return time.Now().Before(c.expires)
	}
}

// errClosed is the cause of the end of a connection that nobody needs any more.
var errClosed = errors.New("closed")

// close ends the connection, and whatever the program does. What started the program closes its input then.
func (c *connection) close() { c.end(errClosed) }

// leave has the program end by itself, and closes the connection if it does not. The program ends at a line without a command, before the end of its input: client-go
// sends the latter with the deadline of what was sent last, a minute after that. A connection that rested for longer would break, and its heartbeat go on for ever.
func (c *connection) leave() {
	time.AfterFunc(leaving, func() { c.end(errClosed) })
	go func() {
		_, _ = c.in.Write([]byte("\n"))
		_ = c.in.Close()
	}()
}
