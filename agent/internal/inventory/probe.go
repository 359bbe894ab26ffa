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

// hungSet are the devices with a read under way that was given up on. They are not read again until that read returns, so
// that a dead disk costs one blocked thread, not one per observation.
type hungSet struct {
	mu    sync.Mutex
	paths map[string]bool
}

func (h *hungSet) has(path string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.paths[path]
}

func (h *hungSet) set(path string, hung bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if hung {
		h.paths[path] = true
	} else {
		delete(h.paths, path)
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
	d.probed = true
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
	i.hung.set(path, true)
	done := make(chan answer, 1)
	go func() {
		facts, err := i.cfg.Prober.Probe(ctx, path, inUse)
		i.hung.set(path, false)
		done <- answer{facts, err}
	}()
	select {
	case a := <-done:
		return a.facts, a.err
	case <-ctx.Done():
		return disk.Facts{}, context.Cause(ctx)
	}
}
