package iscsi

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"quarry.storage/quarry/test/lab/internal/spec"
)

// networkInterface has the addresses of all portals.
const networkInterface = "vec0"

// plug gives the node the addresses of those portals of a target that are not
// cut, and takes the others away. The kernel goes on listening there, nobody
// resolves the address any more, and what still comes is dropped without an
// answer, as where a cable was pulled.
func plug(t spec.Target) error {
	link, err := netlink.LinkByName(networkInterface)
	if err != nil {
		return err
	}
	for n, a := range t.Addresses() {
		if t.IsCut(n + 1) {
			if err := unplug(a, true); err != nil {
				return err
			}
			continue
		}
		if err := netlink.RouteDel(hole(a)); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("route to %s: %w", a, err)
		}
		if err := netlink.AddrReplace(link, address(a)); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
	}
	return nil
}

// unplug takes an address away. Silently, the node does not even say that it is
// not there.
func unplug(a string, silent bool) error {
	link, err := netlink.LinkByName(networkInterface)
	if err != nil {
		return err
	}
	if silent {
		if err := netlink.RouteReplace(hole(a)); err != nil {
			return fmt.Errorf("route to %s: %w", a, err)
		}
	}
	if err := netlink.AddrDel(link, address(a)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("address %s: %w", a, err)
	}
	return nil
}

// unplugOthers takes away the addresses of portals that no target has.
func unplugOthers(targets []spec.Target) error {
	link, err := netlink.LinkByName(networkInterface)
	if err != nil {
		return err
	}
	have, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return err
	}
	var wanted []string
	for _, t := range targets {
		wanted = append(wanted, t.Addresses()...)
	}
	var errs []error
	for _, a := range have {
		ones, bits := a.Mask.Size()
		if ip := a.IP.String(); ones == bits && strings.HasPrefix(ip, "10.99.0.") && !slices.Contains(wanted, ip) {
			errs = append(errs, unplug(ip, false))
		}
	}
	return errors.Join(errs...)
}

func address(a string) *netlink.Addr { return &netlink.Addr{IPNet: single(a)} }

func hole(a string) *netlink.Route {
	return &netlink.Route{Dst: single(a), Type: unix.RTN_BLACKHOLE}
}

func single(a string) *net.IPNet {
	return &net.IPNet{IP: net.ParseIP(a).To4(), Mask: net.CIDRMask(32, 32)}
}
