package agents

import (
	"context"
	"sync"
)

// subscription hands names to one reader without ever holding up who adds them.
type subscription struct {
	out  chan string
	wake chan struct{}

	mu      sync.Mutex
	queue   []string
	waiting map[string]bool
}

func newSubscription() *subscription {
	return &subscription{out: make(chan string), wake: make(chan struct{}, 1), waiting: map[string]bool{}}
}

func (s *subscription) add(name string) {
	s.mu.Lock()
	if !s.waiting[name] {
		s.waiting[name] = true
		s.queue = append(s.queue, name)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscription) next() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return "", false
	}
	name := s.queue[0]
	s.queue = s.queue[1:]
	delete(s.waiting, name)
	return name, true
}

func (s *subscription) run(ctx context.Context) {
	defer close(s.out)
	for {
		name, ok := s.next()
		if !ok {
			select {
			case <-s.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case s.out <- name:
		case <-ctx.Done():
			return
		}
	}
}
