// Package network makes the way to a target longer, as that to a SAN is. It delays what this node sends, and needs root.
package network

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
)

const (
	// queue is how many packets may be on the way at once; more are lost.
	queue = 20000
	// drained is the time after which nothing is left to be sent of requests that were answered: the kernel acknowledges what it got after 40 ms at the latest.
	drained = 100 * time.Millisecond
	// kind is the queueing discipline that delays.
	kind = "netem"
)

// Way is what leads from here to some addresses.
type Way struct {
	links []int
}

// To finds the way to portals, each ADDRESS:PORT.
func To(portals []string) (Way, error) {
	var w Way
	for _, p := range portals {
		host, _, err := net.SplitHostPort(p)
		if err != nil {
			return Way{}, fmt.Errorf("portal %q: %w", p, err)
		}
		ip := net.ParseIP(host)
		if ip == nil {
			return Way{}, fmt.Errorf("portal %q: want an address, not a name", p)
		}
		routes, err := netlink.RouteGet(ip)
		if err != nil {
			return Way{}, fmt.Errorf("way to %s: %w", host, err)
		}
		for _, r := range routes {
			if !slices.Contains(w.links, r.LinkIndex) {
				w.links = append(w.links, r.LinkIndex)
			}
		}
	}
	if len(w.links) == 0 {
		return Way{}, errors.New("no interface leads to the target")
	}
	return w, nil
}

// Delay has each packet leave later by a time, and no delay at all with zero. It is for a moment in which no request is under way.
func (w Way) Delay(by time.Duration) error {
	for _, index := range w.links {
		link, err := netlink.LinkByIndex(index)
		if err != nil {
			return fmt.Errorf("interface %d: %w", index, err)
		}
		if err := delay(link, by); err != nil {
			return fmt.Errorf("interface %s: %w", link.Attrs().Name, err)
		}
	}
	return nil
}

func delay(link netlink.Link, by time.Duration) error {
	there, err := delayed(link)
	if err != nil {
		return err
	}
	discipline := netlink.NewNetem(
		netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(1, 0)},
		netlink.NetemQdiscAttrs{Latency: uint32(by.Microseconds()), Limit: queue})
	if by > 0 {
		if out, err := exec.Command("modprobe", "sch_"+kind).CombinedOutput(); err != nil {
			return fmt.Errorf("modprobe sch_%s: %w: %s", kind, err, strings.TrimSpace(string(out)))
		}
		return netlink.QdiscReplace(discipline)
	}
	if !there {
		return nil
	}
	// What waits there is lost with the discipline.
	time.Sleep(drained)
	return netlink.QdiscDel(discipline)
}

// delayed reports whether packets are delayed. It is an error if somebody has set another discipline: that would be lost.
func delayed(link netlink.Link) (bool, error) {
	all, err := netlink.QdiscList(link)
	if err != nil {
		return false, err
	}
	for _, q := range all {
		a := q.Attrs()
		// The kernel's own choice has no handle.
		if a.Parent != netlink.HANDLE_ROOT || a.Handle == 0 {
			continue
		}
		if q.Type() != kind {
			return false, fmt.Errorf("it has a queueing discipline already: %s; remove it, `tc qdisc del dev %s root`", q.Type(), link.Attrs().Name)
		}
		return true, nil
	}
	return false, nil
}
