package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/occupant"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/pvuuid"
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
			d.unreadable(contentFact, why)
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
	case d.block.Held != "":
		// A process with a thread that waits for it cannot end: a new agent would not start until the kernel gives the disk up.
		return fmt.Sprintf("its connection is lost (%s), and the kernel keeps all requests", d.block.Held)
	case d.block.Pending:
		// udev looks at it right now. Reading it too would slow both down, and the device is refused until udev is done anyway.
		return "udev has not finished with the device"
	case d.SizeBytes == 0:
		return "the device has no size"
	case d.Type == "partition" && d.UdevTags["ID_FS_TYPE"] != "LVM2_member":
		// While a partition is open the kernel does not read the partition table again: sgdisk and its like would fail on the disk.
		// Only a group that is on one matters, for its name.
		return "partitions are not opened"
	}
	return ""
}

// probeOne reads one device, no longer than the timeout.
func (i *Inventory) probeOne(ctx context.Context, d *observed) {
	facts, err := bounded(ctx, i, d.block.Node, i.cfg.ProbeTimeout, func(ctx context.Context) (disk.Facts, error) {
		return i.cfg.Prober.Probe(ctx, d.block.Node)
	})
	if err != nil {
		d.unreadable(contentFact, err)
		return
	}
	d.read(facts)
}

// contentFact names what a read of a device tells, among facts that could not be read.
const contentFact = "content"

// bounded gives up on a read after a while; the read itself cannot be interrupted and goes on in the background.
func bounded[T any](ctx context.Context, i *Inventory, path string, limit time.Duration, work func(context.Context) (T, error)) (T, error) {
	var none T
	if i.hung.has(path) {
		return none, errHung
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errHung)
	defer cancel()
	type answer struct {
		result T
		err    error
	}
	r := &read{}
	done := make(chan answer, 1)
	go func() {
		result, err := work(ctx)
		i.hung.finish(path, r)
		done <- answer{result, err}
	}()
	select {
	case a := <-done:
		return a.result, a.err
	case <-ctx.Done():
		i.hung.giveUp(path, r)
		return none, context.Cause(ctx)
	}
}

// Exclusive reports whether the device can be opened exclusively. It is not part of an observation: another program that wants the
// device for itself at that moment fails.
func (i *Inventory) Exclusive(ctx context.Context, d plan.Device) (bool, error) {
	return bounded(ctx, i, pvuuid.Kernel(d.KernelName), i.cfg.ProbeTimeout, func(ctx context.Context) (bool, error) { return i.cfg.Prober.Exclusive(ctx, d.Path) })
}

// Users names who uses each of the devices, or a partition of it, although it can be opened exclusively. It is not part of an observation:
// all processes of the host are looked at. An error means that there may be more users than those.
func (i *Inventory) Users(ctx context.Context, devices []plan.Device) ([][]string, error) {
	disks := make([]occupant.Device, 0, len(devices))
	for _, d := range devices {
		disks = append(disks, occupant.Device{Major: d.Major, Minor: d.Minor})
	}
	return i.cfg.Occupants.Find(ctx, disks)
}

// Idle reports whether udev has no event left to handle.
func (i *Inventory) Idle() bool { return i.cfg.Block.Idle() }

// Trigger makes udev look at the device again.
func (i *Inventory) Trigger(d plan.Device) error {
	return i.cfg.Block.Trigger(fmt.Sprintf("%d:%d", d.Major, d.Minor))
}
