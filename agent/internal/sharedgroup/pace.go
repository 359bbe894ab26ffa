package sharedgroup

import (
	"context"
	"sync"
	"time"
)

// pacer lets all copies of one group together go at most so fast, so that pods that use other volumes of the LUN have their part of it.
type pacer struct {
	mu             sync.Mutex
	bytesPerSecond int64
	// free is when the next bytes may go.
	free time.Time
}

// pacer is that of a group.
func (s *Service) pacer(group string) *pacer {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pacers[group]
	if p == nil {
		p = &pacer{}
		s.pacers[group] = p
	}
	return p
}

// limit says how fast the copies of the group go from now on.
func (p *pacer) limit(bytesPerSecond int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytesPerSecond = bytesPerSecond
}

// reserve takes the time that so many bytes need, and returns how long they have to wait. A time in which nothing was copied is not made up for.
func (p *pacer) reserve(now time.Time, bytes int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free.Before(now) {
		p.free = now
	}
	wait := p.free.Sub(now)
	if p.bytesPerSecond > 0 {
		p.free = p.free.Add(time.Duration(float64(bytes) / float64(p.bytesPerSecond) * float64(time.Second)))
	}
	return wait
}

// wait returns when so many bytes may be copied, or with the error of the context.
func (p *pacer) wait(ctx context.Context, bytes int64) error {
	wait := p.reserve(time.Now(), bytes)
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
