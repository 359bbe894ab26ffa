package nfs

import (
	"context"
	"errors"
	"time"

	"quarry.storage/quarry/agent/internal/host/nfs/child"
	"quarry.storage/quarry/agent/internal/host/run/task"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// call asks for one operation. One that is not answered within the limit takes the whole process with it: no other call on the share would be
// answered. The end of the caller's context takes nothing with it. It calls unlock when nobody works on the operation any more.
func (s *mounted) call(ctx context.Context, r child.Request, limit time.Duration, unlock func()) (child.Response, error) {
	goesOn := false
	defer func() {
		if !goesOn {
			unlock()
		}
	}()
	answer, err := s.send(r)
	if err != nil {
		return child.Response{}, err
	}
	late := time.After(limit)
	select {
	case out, ok := <-answer:
		return s.answered(out, ok)
	case <-late:
		return child.Response{}, s.silent(limit)
	case <-ctx.Done():
	}
	// The caller went away, or has no more time. The server may be slow, and other calls may wait for it. The work goes on, and until it is over
	// another call on the same thing is refused.
	goesOn = true
	go func() {
		defer unlock()
		select {
		case out, ok := <-answer:
			_, _ = s.answered(out, ok) // What it says of the share counts. Nobody waits for the rest.
		case <-late:
			_ = s.silent(limit)
		}
	}()
	return child.Response{}, context.Cause(ctx)
}

// answered returns what an answer says, and draws from it what it means for the share. ok is false when the process ended without an answer.
func (s *mounted) answered(out child.Response, ok bool) (child.Response, error) {
	if !ok {
		return child.Response{}, s.reason()
	}
	s.rest()
	err := out.Failure.Err()
	var problem *sharedvolume.Problem
	if errors.As(err, &problem) && problem.Reason == sharedvolume.ReasonUnreachable {
		// The next call connects anew, perhaps to another address.
		s.retire(err)
	}
	return out, err
}

// silent ends the process of a server that did not answer within the limit of a call, and returns the problem.
func (s *mounted) silent(limit time.Duration) error {
	err := sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "The server did not answer within %s.", limit)
	s.retire(err)
	return err
}

// reason says why a call in progress got no answer.
func (s *mounted) reason() error {
	s.mu.Lock()
	why := s.why
	s.mu.Unlock()
	if why == nil {
		why = sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "The process that worked on the share is gone%s.", task.LastWords(s.process))
	}
	return why
}

func (s *mounted) send(r child.Request) (chan child.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended && s.why != nil {
		return nil, s.why
	}
	if s.ended {
		return nil, sharedvolume.NewProblem(sharedvolume.ReasonTooManyCalls, "The agent is unmounting the share, which nobody used: ask again.")
	}
	most := s.client.cfg.Limits.most(r.Operation)
	if n := s.bounded(); most > 0 && n >= most {
		return nil, sharedvolume.NewProblem(sharedvolume.ReasonTooManyCalls, "%d calls on the share are in progress.", n)
	}
	s.last++
	r.ID = s.last
	answer := make(chan child.Response, 1)
	s.waiting[r.ID] = pending{answer, most > 0}
	if s.idle != nil {
		s.idle.Stop()
	}
	if err := s.writing.Encode(r); err != nil {
		delete(s.waiting, r.ID)
		return nil, sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "The process that worked on the share is gone: %v.", err)
	}
	return answer, nil
}

// bounded counts the calls in progress that count against the most. The share is locked.
func (s *mounted) bounded() int {
	n := 0
	for _, p := range s.waiting {
		if p.bounded {
			n++
		}
	}
	return n
}

// rest follows the last of the calls in progress: the share stays mounted for a while.
func (s *mounted) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) > 0 || s.ended {
		return
	}
	if s.idle != nil {
		s.idle.Stop()
	}
	s.idle = time.AfterFunc(s.client.cfg.Limits.Idle, func() {
		s.mu.Lock()
		unused := len(s.waiting) == 0
		s.mu.Unlock()
		if unused {
			s.retire(nil)
		}
	})
}

// read hands answers to those who wait for them, until the process is gone.
func (s *mounted) read() {
	for {
		var r child.Response
		if err := s.reading.Decode(&r); err != nil {
			break
		}
		s.mu.Lock()
		to := s.waiting[r.ID].answer
		delete(s.waiting, r.ID)
		s.mu.Unlock()
		if to != nil {
			to <- r
		}
	}
	s.mu.Lock()
	waiting := s.waiting
	s.waiting = map[uint64]pending{}
	s.mu.Unlock()
	for _, p := range waiting {
		close(p.answer)
	}
	s.retire(nil)
}
