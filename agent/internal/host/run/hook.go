package run

import (
	"context"
	"sync"
)

// Hook is a Runner around another one. Tests use it to count commands, or to die between two of them.
type Hook struct {
	// Next runs the command.
	Next Runner
	// Before is called first, if set; its error is returned and the command not started.
	Before func(ctx context.Context, cmd Command) error
	// After is called with the outcome, if set; its error replaces the outcome's.
	After func(ctx context.Context, cmd Command, res Result, err error) error
}

var _ Runner = Hook{}

// Run calls Before, the next Runner and After.
func (h Hook) Run(ctx context.Context, cmd Command) (Result, error) {
	if h.Before != nil {
		if err := h.Before(ctx, cmd); err != nil {
			return Result{}, err
		}
	}
	res, err := h.Next.Run(ctx, cmd)
	if h.After != nil {
		err = h.After(ctx, cmd, res, err)
	}
	return res, err
}

// Counting is a Runner that records what passes through it.
type Counting struct {
	// Next runs the command.
	Next Runner

	mu    sync.Mutex
	calls []Command
}

var _ Runner = (*Counting)(nil)

// Run records the command and hands it on.
func (c *Counting) Run(ctx context.Context, cmd Command) (Result, error) {
	c.mu.Lock()
	c.calls = append(c.calls, cmd)
	c.mu.Unlock()
	return c.Next.Run(ctx, cmd)
}

// Calls are the commands so far, in the order in which they started.
func (c *Counting) Calls() []Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Command(nil), c.calls...)
}

// Count is the number of commands so far.
func (c *Counting) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls)
}
