package nfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"quarry.storage/quarry/agent/internal/host/nfs/child"
	"quarry.storage/quarry/agent/internal/host/run/task"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// mounted is a share that a process of ours has mounted, out of everybody's sight, and works on.
type mounted struct {
	client  *Client
	key     string
	version string
	// ready is closed when process, address and err are set for good.
	ready   chan struct{}
	process task.Process
	address string
	err     error

	mu      sync.Mutex
	writing *json.Encoder
	reading *json.Decoder
	waiting map[uint64]pending
	last    uint64
	// killed is the time when the process was killed because it did not answer. Until it is gone nobody waits for the share.
	killed time.Time
	// ended is set when no more calls are taken, and why says what those get that are in progress then.
	ended bool
	why   error
	idle  *time.Timer
}

// pending is a call in progress.
type pending struct {
	answer chan child.Response
	// bounded is true for a call that counts against the most calls on a share.
	bounded bool
}

// share finds the mounted share, or mounts it. Everybody who asks meanwhile waits for the same attempt.
func (c *Client) share(ctx context.Context, m child.Mount) (*mounted, error) {
	key := fmt.Sprintf("%s %s %s %v", sharedvolume.Source(m.Host, m.Path), m.Options.Version, m.Options.Port, m.Options.Data)
	s, err := c.entry(key, m)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.ready:
		return s, s.err
	case <-ctx.Done():
		return nil, fmt.Errorf("mount %s: %w", sharedvolume.Source(m.Host, m.Path), context.Cause(ctx))
	}
}

func (c *Client) entry(key string, m child.Mount) (*mounted, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("the agent stops")
	}
	if s := c.shares[key]; s != nil {
		return s, s.refusal()
	}
	if !c.room.Take() {
		return nil, sharedvolume.NewProblem(sharedvolume.ReasonTooManyCalls, "%d processes of the agent work on shares already.", c.cfg.Limits.Processes)
	}
	s := &mounted{client: c, key: key, version: m.Options.Version, ready: make(chan struct{}), waiting: map[uint64]pending{}}
	c.shares[key] = s
	go s.mount(m)
	return s, nil
}

// refusal says that a process still hangs.
func (s *mounted) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killed.IsZero() {
		return nil
	}
	return sharedvolume.NewProblem(sharedvolume.ReasonUnreachable,
		"The server stopped answering at %s, and a process of this node still waits for it.", s.killed.UTC().Format(time.RFC3339))
}

// mount starts the process and waits until the share is mounted.
func (s *mounted) mount(m child.Mount) {
	s.err = s.start(m)
	if s.err != nil {
		s.retire(s.err)
	}
	close(s.ready)
	if s.err == nil {
		s.read()
	}
}

func (s *mounted) start(m child.Mount) error {
	limits := s.client.cfg.Limits
	ctx, cancel := context.WithTimeout(context.TODO(), limits.Resolve+time.Second)
	defer cancel()
	var err error
	if m.Addresses, err = s.client.addresses(ctx, m.Host); err != nil {
		return err
	}
	if s.process, err = s.client.cfg.Start(child.TaskServe); err != nil {
		return err
	}
	hello := make(chan child.Hello, 1)
	failed := make(chan error, 1)
	s.writing, s.reading = json.NewEncoder(s.process), json.NewDecoder(s.process)
	go func() {
		var h child.Hello
		err := s.writing.Encode(m)
		if err == nil {
			err = s.reading.Decode(&h)
		}
		if err != nil {
			failed <- err
			return
		}
		hello <- h
	}()
	timer := time.NewTimer(limits.Mount)
	defer timer.Stop()
	select {
	case h := <-hello:
		s.address = h.Address
		return h.Failure.Err()
	case err := <-failed:
		s.process.Kill()
		return fmt.Errorf("mount: %w%s", err, task.LastWords(s.process))
	case <-timer.C:
		return sharedvolume.NewProblem(sharedvolume.ReasonUnreachable,
			"The server of %s answers, and yet the share was not mounted within %s.", sharedvolume.Source(m.Host, m.Path), limits.Mount)
	}
}

// retire lets the share be mounted anew by the next call, as soon as the process is gone.
func (s *mounted) retire(why error) {
	s.mu.Lock()
	first := !s.ended
	if s.ended = true; first {
		s.why = why
	}
	s.mu.Unlock()
	if !first {
		return
	}
	if s.process == nil {
		s.forget()
		return
	}
	s.process.End()
	s.process.Kill()
	select {
	case <-s.process.Done():
		s.forget()
		return
	case <-time.After(task.Patience):
	}
	s.mu.Lock()
	s.killed = time.Now()
	s.mu.Unlock()
	s.client.cfg.Log.Info("Waiting for a process that waits for a server", "share", s.key)
	go func() {
		<-s.process.Done()
		s.client.cfg.Log.Info("A process that waited for a server is gone", "share", s.key)
		s.forget()
	}()
}

func (s *mounted) forget() {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if s.client.shares[s.key] == s {
		delete(s.client.shares, s.key)
		s.client.room.Give()
	}
}

// end asks the process to end. The client is locked.
func (s *mounted) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	select {
	case <-s.ready:
		if s.process != nil {
			s.process.End()
		}
	default:
		// It is being mounted: it ends with this process, whose end of the pipe is closed then.
	}
}
