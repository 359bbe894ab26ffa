// Package task runs what may wait for ever in processes of their own. A process does one thing: it reads one message, says how that went, and ends. One that does not
// end in time is killed; while the kernel does not let it go, nothing else is begun on the same thing. So no server that is gone keeps the agent, and a mount can be
// unmounted even if somebody waits in it.
package task

import (
	"cmp"
	"io"
	"os"
	"time"

	"quarry.storage/quarry/agent/internal/host/run"
)

// Process is a process that is talked to: it reads messages and writes messages.
type Process interface {
	io.Reader
	io.Writer
	// End closes its input, which asks it to end.
	End()
	// Kill ends it, as soon as the kernel lets it go.
	Kill()
	// Done is closed when it is gone.
	Done() <-chan struct{}
	// LastWords are what it said when it went.
	LastWords() string
}

// Start starts a process of a kind. The files are open in it as 3, 4 and so on; they stay the caller's.
type Start func(kind string, files ...*os.File) (Process, error)

// Program starts the agent's own program. Its first argument is the command, the second the kind, the third the network namespace to work in: this process's own
// without one.
func Program(command, namespace string) Start {
	return func(kind string, files ...*os.File) (Process, error) {
		p, err := run.Real{}.Start(run.Command{Path: "/proc/self/exe", Args: []string{command, kind, cmp.Or(namespace, "/proc/self/ns/net")}}, files...)
		if err != nil {
			return nil, err
		}
		return &program{p}, nil
	}
}

type program struct{ *run.Process }

// Read reads what it writes.
func (p *program) Read(b []byte) (int, error) { return p.Stdout.Read(b) }

// Write writes what it reads.
func (p *program) Write(b []byte) (int, error) { return p.Stdin.Write(b) }

// End closes its input.
func (p *program) End() { p.Stdin.Close() }

// Patience is how long somebody waits for a process that is about to be gone.
const Patience = 100 * time.Millisecond

// grace is how long a process that ends, or was killed, has before it counts as one that the kernel does not let go.
const grace = time.Second

// LastWords returns what a process said that is gone, or goes at this moment, after a colon; nothing if it said nothing.
func LastWords(p Process) string {
	select {
	case <-p.Done():
	case <-time.After(Patience):
	}
	if words := p.LastWords(); words != "" {
		return ": " + words
	}
	return ""
}
