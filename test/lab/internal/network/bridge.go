package network

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/vishvananda/netlink"
)

// The functions of this file act on the namespace of the calling thread: call
// them through Inside.

// EnsureUp brings an interface up.
func EnsureUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	return netlink.LinkSetUp(link)
}

// EnsureBridge makes a bridge with addresses and brings it up.
func EnsureBridge(name string, cidrs ...string) error {
	link, err := ensureLink(&netlink.Bridge{LinkAttrs: attrs(name)})
	if err != nil {
		return err
	}
	for _, cidr := range cidrs {
		addr, err := netlink.ParseAddr(cidr)
		if err != nil {
			return err
		}
		if err := netlink.AddrReplace(link, addr); err != nil {
			return fmt.Errorf("address %s on %s: %w", cidr, name, err)
		}
	}
	return netlink.LinkSetUp(link)
}

// EnsureTap makes a persistent tap device on a bridge and brings it up.
func EnsureTap(name, bridge string) error {
	link, err := ensureLink(&netlink.Tuntap{
		LinkAttrs: attrs(name),
		Mode:      netlink.TUNTAP_MODE_TAP,
		Flags:     netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR,
	})
	if err != nil {
		return err
	}
	if err := Plug(name, bridge); err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// Remove deletes an interface; one that is not there is fine.
func Remove(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}

// EnsureDeadBridge makes a bridge that forwards nothing because it stays down.
func EnsureDeadBridge(name string) error {
	_, err := ensureLink(&netlink.Bridge{LinkAttrs: attrs(name)})
	return err
}

// Plug moves a tap to a bridge.
func Plug(tap, bridge string) error {
	link, err := netlink.LinkByName(tap)
	if err != nil {
		return fmt.Errorf("interface %s: %w", tap, err)
	}
	master, err := netlink.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", bridge, err)
	}
	if err := netlink.LinkSetMaster(link, master); err != nil {
		return fmt.Errorf("put %s on %s: %w", tap, bridge, err)
	}
	return nil
}

// IsPlugged tells whether a tap is on a bridge.
func IsPlugged(tap, bridge string) (bool, error) {
	link, err := netlink.LinkByName(tap)
	if err != nil {
		return false, fmt.Errorf("interface %s: %w", tap, err)
	}
	master, err := netlink.LinkByName(bridge)
	if err != nil {
		return false, fmt.Errorf("bridge %s: %w", bridge, err)
	}
	return link.Attrs().MasterIndex == master.Attrs().Index, nil
}

// EnsureAddress gives an interface an address.
func EnsureAddress(name, cidr string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	addr, err := netlink.ParseAddr(cidr)
	if err != nil {
		return err
	}
	return netlink.AddrReplace(link, addr)
}

// EnsureRoute sends a destination range through a gateway.
func EnsureRoute(cidr, gateway string) error {
	_, dst, err := net.ParseCIDR(cidr)
	if err != nil {
		return err
	}
	route := &netlink.Route{Dst: dst, Gw: net.ParseIP(gateway)}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("route %s via %s: %w", cidr, gateway, err)
	}
	return nil
}

func attrs(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name = name
	return a
}

func ensureLink(link netlink.Link) (netlink.Link, error) {
	name := link.Attrs().Name
	// Making a tap that a kernel has open is another error than that it exists.
	if present, err := netlink.LinkByName(name); err == nil {
		return present, nil
	}
	if err := netlink.LinkAdd(link); err != nil && !errors.Is(err, syscall.EEXIST) {
		return nil, fmt.Errorf("create %s %s: %w", link.Type(), name, err)
	}
	return netlink.LinkByName(name)
}
