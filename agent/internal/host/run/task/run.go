package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"
)

// Run runs a task to its end, and returns what its process said. Errors: a *Refusal when the task was not begun; context.DeadlineExceeded when it took longer than
// its limit, and was killed; any other when the process could not be started or died. The work goes on when the caller goes away.
func Run[Response any](ctx context.Context, t *Table, task *Task, message any, files ...*os.File) (Response, error) {
	var none Response
	if err := t.begin(task); err != nil {
		return none, err
	}
	p, err := t.start(task.Kind, files...)
	if err != nil {
		t.finish(task)
		return none, err
	}
	task.Started = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), task.Limit)
	defer cancel()
	type reply struct {
		said Response
		err  error
	}
	result := make(chan reply, 1)
	go func() {
		said, err := talk[Response](p, message)
		result <- reply{said, err}
	}()
	var out reply
	select {
	case out = <-result:
		p.End()
	case <-ctx.Done():
		out.err = fmt.Errorf("%s %s: it took longer than %s: %w", task.Kind, task.On, task.Limit, context.DeadlineExceeded)
		p.Kill()
	}
	select {
	case <-p.Done():
		t.finish(task)
	case <-time.After(grace):
		t.outlive(task, p)
	}
	return out.said, out.err
}

// talk hands a process its message and reads what it says. No error has a part of the message, which may be secret.
func talk[Response any](p Process, message any) (said Response, err error) {
	err = json.NewEncoder(p).Encode(message)
	if err == nil {
		err = json.NewDecoder(p).Decode(&said)
	}
	if err != nil {
		return said, fmt.Errorf("task: %w%s", err, LastWords(p))
	}
	return said, nil
}

// gcPercent keeps such a process small.
const gcPercent = 50

// Main is the whole of such a process; it returns the exit code.
func Main(work func() error) int {
	debug.SetGCPercent(gcPercent)
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return 1
	}
	return 0
}

// Once reads one message, does what it asks for, and says how that went. Its error has no part of the message, which may be secret.
func Once[Message, Response any](in io.Reader, out io.Writer, do func(Message) Response) error {
	var message Message
	if err := json.NewDecoder(in).Decode(&message); err != nil {
		return errors.New("the message cannot be read")
	}
	return json.NewEncoder(out).Encode(do(message))
}
