package execpod

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// bounded keeps what is written, up to a limit. More than that ends the command: half an answer must not be taken for a whole one. The connection may
// write to it after the command was given up.
type bounded struct {
	mu    sync.Mutex
	kept  []byte
	limit int
	end   context.CancelCauseFunc
}

func newBounded(limit int, end context.CancelCauseFunc) *bounded {
	return &bounded{limit: limit, end: end}
}

// Write keeps p. It never fails: a writer that fails makes the connection log what it could not write, and that may be a key.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.kept)+len(p) > b.limit {
		b.end(fmt.Errorf("the program printed more than %d bytes", b.limit))
		return len(p), nil
	}
	b.kept = append(b.kept, p...)
	return len(p), nil
}

func (b *bounded) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.kept)
}
