package sharedgroup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	// guardEvery is how often the agent asks by itself which LUN devices stand on. What they write in between goes to a LUN that took the place of theirs.
	guardEvery = 5 * time.Second
	// guardPatience is how long a caller waits for that. The look goes on without it.
	guardPatience = 3 * time.Second
	// cutPatience bounds the cut of one device: another call may work on its volume, or its I/O may hang.
	cutPatience = 40 * time.Second
)

// guard is the look at one group's LUN.
type guard struct {
	ref sharedlun.Ref
	// says is what the last look found that could tell.
	says string
	// running ends with the look that is under way; nil when none is.
	running chan struct{}
}

// Guard asks the target which LUN the group's devices stand on. Those that stand on another one than the recorded one return errors from then on, so that nothing more
// is written there. It returns which paths lead to another LUN, in words that are empty when none is known to. A path that does not answer tells nothing, and nothing
// is cut for it.
//
// The devices stay, and so does what is known of them: whoever has them open gets errors, and an order to map or to unmap makes them what they should be. Killed at any
// instant, it leaves devices that are as they were, hold I/O back, or are cut: the next look finds the first two again.
func (s *Service) Guard(ctx context.Context, ref sharedlun.Ref) (says string) {
	if ref.Check() != nil {
		return ""
	}
	s.watch(ref)
	s.mu.Lock()
	g := s.guards[ref.UUID]
	if g.running == nil {
		g.running = make(chan struct{})
		s.work.Go(func() { s.guard(g, ref) })
	}
	running := g.running
	s.mu.Unlock()
	select {
	case <-running:
	case <-ctx.Done():
	case <-time.After(guardPatience):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.says
}

// watch remembers a group of which devices may be here.
func (s *Service) watch(ref sharedlun.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.guards[ref.UUID]; g == nil {
		s.guards[ref.UUID] = &guard{ref: ref}
	} else {
		g.ref = ref
	}
}

// Watch looks after the devices of all groups that the agent was asked about, until the context ends: the controller may be away, and pods write on.
func (s *Service) Watch(ctx context.Context) {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		var refs []sharedlun.Ref
		for _, g := range s.guards {
			refs = append(refs, g.ref)
		}
		s.mu.Unlock()
		for _, ref := range refs {
			s.Guard(ctx, ref)
		}
	}
}

// guard makes one look.
func (s *Service) guard(g *guard, ref sharedlun.Ref) {
	volumes, says, err := s.cfg.Luns.Astray(s.background, ref.Lun, ref.UUID)
	log := s.cfg.Log.WithValues("lun", ref.Lun.WWID, "group", ref.UUID)
	if len(volumes) > 0 {
		log.Info("Cutting the devices of volumes: they stand on another LUN by now", "volumes", volumes, "says", says)
		if failed := s.cut(ref, volumes); len(failed) > 0 {
			log.Info("Devices write to another LUN", "failed", failed)
			says += "; " + strings.Join(failed, "; ")
		}
	}
	if err != nil {
		log.V(1).Info("Not every path tells which LUN it leads to", "error", err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if says != "" || err == nil {
		// A path that led to another LUN, and does not answer now, is as it was.
		g.says = says
	}
	close(g.running)
	g.running = nil
}

// cut makes the devices of volumes return errors, and tells of those that it could not. One that hangs keeps no other one.
func (s *Service) cut(ref sharedlun.Ref, volumes []string) (failed []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, v := range volumes {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(s.background, cutPatience)
			defer cancel()
			unlock, err := s.lock(ctx, key(ref.UUID, v))
			if err == nil {
				defer unlock()
				err = s.cfg.Devices.Cut(ctx, ref.UUID, v)
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, fmt.Sprintf("the device of volume %s could not be cut: %v", v, err))
			}
		})
	}
	all.Wait()
	slices.Sort(failed)
	return failed
}
