package block

import (
	"fmt"
	"sync"
)

// heard counts the kernel's events by device, for as long as somebody listens to them.
type heard struct {
	mu     sync.Mutex
	events map[string]uint64
	// lost counts the overruns, each of which may have been an event of any device.
	lost uint64
}

func (h *heard) one(number string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.events == nil {
		h.events = map[string]uint64{}
	}
	h.events[number]++
}

func (h *heard) all() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost++
}

func (h *heard) count(number string) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events[number] + h.lost
}

// stamp gives the device its version: the number of the kernel's events and the version of udev's record.
func (h *Host) stamp(d *Device) {
	number := fmt.Sprintf("%d:%d", d.Major, d.Minor)
	record, err := h.version(number)
	if err != nil {
		d.fail("udev", err)
	}
	d.Version = fmt.Sprintf("%d/%s", h.heard.count(number), record)
}
