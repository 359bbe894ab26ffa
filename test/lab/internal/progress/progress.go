// Package progress prints what a long command is doing, one line per step with
// the time since the command began. It knows nothing about the steps.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Reporter writes progress lines. It is safe for parallel use.
type Reporter struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
}

// New starts the clock of a command that reports to out.
func New(out io.Writer) *Reporter {
	return &Reporter{out: out, start: time.Now()}
}

// Step prints one line.
func (r *Reporter) Step(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "[%6.1fs] %s\n", time.Since(r.start).Seconds(), fmt.Sprintf(format, args...))
}

// While repeats a line every few seconds for as long as a slow step runs, so
// that nobody takes it for stuck. The returned function ends it.
func (r *Reporter) While(format string, args ...any) (stop func()) {
	r.Step(format, args...)
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(15 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				r.Step("still "+format, args...)
			}
		}
	}()
	return sync.OnceFunc(func() { close(done) })
}
