package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/plan"
)

// errHung means that a device has not answered an earlier read yet.
var errHung = errors.New("the device does not answer")

// hungSet counts, by device, the reads under way that were given up on. Such a device is not read again until they return, so
// that a dead disk costs one blocked thread, not one per observation.
type hungSet struct {
	mu    sync.Mutex
	paths map[string]int
}

func (h *hungSet) has(path string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.paths[path] > 0
}

// read is one read under way.
type read struct{ finished, givenUp bool }

// finish is called when the read returns.
func (h *hungSet) finish(path string, r *read) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.finished = true
	if r.givenUp {
		if h.paths[path]--; h.paths[path] == 0 {
			delete(h.paths, path)
		}
	}
}

// giveUp is called when nobody waits for the read any more.
func (h *hungSet) giveUp(path string, r *read) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !r.finished {
		r.givenUp = true
		h.paths[path]++
	}
}

// probe reads the content of the devices, some at a time.
func (i *Inventory) probe(ctx context.Context, devices []*observed) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, i.cfg.Parallel)
	for _, d := range devices {
		if why := i.unprobed(d); why != "" {
			d.unreadable("content", why)
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			i.probeOne(ctx, d)
		})
	}
	wg.Wait()
}

// unprobed tells why the content of a device is not read; empty when it is.
func (i *Inventory) unprobed(d *observed) string {
	switch {
	case !slices.Contains(i.cfg.ProbeTypes, d.Type):
		return fmt.Sprintf("devices of type %s are not opened", d.Type)
	case d.Suspended:
		return "the device is suspended"
	case d.block.Pending:
		// udev looks at it right now. Reading it too would slow both down, and the device is refused until udev is done anyway.
		return "udev has not finished with the device"
	case d.SizeBytes == 0:
		return "the device has no size"
	}
	return ""
}

// probeOne reads one device, no longer than the timeout.
func (i *Inventory) probeOne(ctx context.Context, d *observed) {
	inUse := len(d.Mounts) > 0 || len(d.Holders) > 0
	facts, err := i.bounded(ctx, d.block.Node, inUse)
	if err != nil {
		d.unreadable("content", err)
		return
	}
	if facts.SizeBytes != d.SizeBytes {
		d.unreadable("size", fmt.Sprintf("sysfs says %d bytes, the device %d", d.SizeBytes, facts.SizeBytes))
	}
	d.HeadTailZero, d.ContentDigest, d.ExclusiveOK = facts.HeadTailZero, facts.ContentDigest, facts.ExclusiveOK
	d.PVUUID = facts.PVUUID
	if inUse {
		d.ContentDigest = ""
	}
	if facts.Wipe != nil {
		d.Wipe = &plan.WipeMark{Digest: facts.Wipe.Digest}
	}
	for _, s := range facts.Signatures {
		d.Signatures = append(d.Signatures, plan.Signature{Type: s.Type, Offset: s.Offset, UUID: s.UUID, Label: s.Label})
	}
}

// bounded gives up on a read after the timeout; the read itself cannot be interrupted and goes on in the background.
func (i *Inventory) bounded(ctx context.Context, path string, inUse bool) (disk.Facts, error) {
	if i.hung.has(path) {
		return disk.Facts{}, errHung
	}
	ctx, cancel := context.WithTimeoutCause(ctx, i.cfg.ProbeTimeout, errHung)
	defer cancel()
	type answer struct {
		facts disk.Facts
		err   error
	}
	r := &read{}
	done := make(chan answer, 1)
	go func() {
		facts, err := i.cfg.Prober.Probe(ctx, path, inUse)
		i.hung.finish(path, r)
		done <- answer{facts, err}
	}()
	select {
	case a := <-done:
		return a.facts, a.err
	case <-ctx.Done():
		i.hung.giveUp(path, r)
		return disk.Facts{}, context.Cause(ctx)
	}
}
