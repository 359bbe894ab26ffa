package sharedgroup

import (
	"context"
	"fmt"
	"maps"
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
	// recordStands is how long it is believed that a LUN is that of an Iscsi. The controller says so every 15 seconds.
	recordStands = 2 * time.Minute
)

// guard is the look at one group's LUN.
type guard struct {
	ref sharedlun.Ref
	// told is when the controller last said that this group is on this LUN.
	told time.Time
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
	return s.await(ctx, s.watch(ref))
}

// await waits for a look at a group's LUN, and begins one if none is under way.
func (s *Service) await(ctx context.Context, g *guard) (says string) {
	s.mu.Lock()
	if g.running == nil {
		g.running = make(chan struct{})
		ref := g.ref
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

// watch remembers a group of which devices may be here, as the controller has it on record.
func (s *Service) watch(ref sharedlun.Ref) *guard {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guards[ref.UUID]
	if g == nil {
		g = &guard{}
		s.guards[ref.UUID] = g
	}
	g.ref, g.told = ref, time.Now()
	return g
}

// Recorded are the LUNs that have the group of an Iscsi on them, by what the controller said a moment ago. It asks about each of them all the time: of one that it does
// not ask about any more nobody knows what it is used for.
func (s *Service) Recorded() []sharedlun.Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []sharedlun.Identity
	for _, g := range s.guards {
		if time.Since(g.told) < recordStands {
			out = append(out, g.ref.Lun)
		}
	}
	return out
}

// unrecord forgets that a group is on a LUN: it was removed.
func (s *Service) unrecord(ref sharedlun.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.guards[ref.UUID]; g != nil {
		g.told = time.Time{}
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
		all := slices.Collect(maps.Values(s.guards))
		s.mu.Unlock()
		for _, g := range all {
			s.await(ctx, g)
		}
	}
}

// guard makes one look.
func (s *Service) guard(g *guard, ref sharedlun.Ref) {
	volumes, says, err := s.cfg.Luns.Astray(s.background, ref.Lun, ref.UUID)
	log := s.cfg.Log.WithValues("lun", ref.Lun.WWID, "group", ref.UUID)
	if err != nil {
		log.V(1).Info("Not every path tells which LUN it leads to", "error", err.Error())
	}
	if says != "" || err == nil {
		// A path that led to another LUN, and does not answer now, is as it was. It is told before anything is cut: that may take long.
		s.say(g, says)
	}
	if len(volumes) > 0 {
		log.Info("Cutting the devices of volumes: they stand on another LUN by now", "volumes", volumes, "says", says)
		if failed := s.cut(ref, volumes); len(failed) > 0 {
			log.Info("Devices write to another LUN", "failed", failed)
			s.say(g, says+"; "+strings.Join(failed, "; "))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(g.running)
	g.running = nil
}

func (s *Service) say(g *guard, says string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.says = says
}

// cut makes the devices of volumes return errors, and tells of those that it could not. One that hangs keeps no other one.
func (s *Service) cut(ref sharedlun.Ref, volumes []string) (failed []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, v := range volumes {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(s.background, cutPatience)
			defer cancel()
			if err := s.cutOne(ctx, ref, v); err != nil {
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

// cutOne cuts the device of one volume. While another call worked on the volume the recorded LUN may have come back, and the device may have been made anew on it.
func (s *Service) cutOne(ctx context.Context, ref sharedlun.Ref, v string) error {
	unlock, ok := s.locks.Try(key(ref.UUID, v))
	if !ok {
		var err error
		if unlock, err = s.lock(ctx, key(ref.UUID, v)); err != nil {
			return err
		}
	}
	defer unlock()
	if !ok {
		if still, _, err := s.cfg.Luns.Astray(ctx, ref.Lun, ref.UUID); err == nil && !slices.Contains(still, v) {
			return nil
		}
	}
	return s.cfg.Devices.Cut(ctx, ref.UUID, v)
}
