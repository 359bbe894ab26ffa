package node

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"quarry.storage/quarry/test/lab/internal/network"
	"quarry.storage/quarry/test/lab/internal/spec"
)

const (
	clusterInterface    = "vec0"
	managementInterface = "vec1"
)

// setUpNetwork gives the node its address and routes to the other nodes' pods.
func setUpNetwork(c Config) error {
	if err := network.EnsureUp("lo"); err != nil {
		return err
	}
	if err := network.EnsureAddress(clusterInterface, c.IP+"/24"); err != nil {
		return err
	}
	if err := network.EnsureUp(clusterInterface); err != nil {
		return err
	}
	if err := network.EnsureRoute("0.0.0.0/0", spec.ControlPlane); err != nil {
		return err
	}
	for _, p := range c.Peers {
		if err := network.EnsureRoute(p.PodCIDR, p.IP); err != nil {
			return err
		}
	}
	sysctls := map[string]string{
		"net/ipv4/ip_forward": "1",
		"kernel/printk":       "3",
		// The kernel's default of 128 is soon used up by several kubelet
		// watchers in one small kernel.
		"fs/inotify/max_user_instances": "1024",
		"fs/inotify/max_user_watches":   "65536",
	}
	var errs []error
	for key, value := range sysctls {
		errs = append(errs, os.WriteFile("/proc/sys/"+key, []byte(value), 0o644))
	}
	return errors.Join(errs...)
}

// listenApart opens the exec server's listener in a network namespace of its
// own, into which it takes the management interface. The rest of the node sees
// one interface, as a real node would.
func listenApart(ip string) (net.Listener, error) {
	type result struct {
		listener net.Listener
		err      error
	}
	results := make(chan result)
	go func() {
		// Never unlocked: the thread ends with its goroutine, the listener
		// keeps the namespace alive.
		runtime.LockOSThread()
		l, err := listenInNewNamespace(ip)
		results <- result{l, err}
	}()
	r := <-results
	return r.listener, r.err
}

func listenInNewNamespace(ip string) (net.Listener, error) {
	outer, err := netns.Get()
	if err != nil {
		return nil, err
	}
	defer outer.Close()
	link, err := netlink.LinkByName(managementInterface)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", managementInterface, err)
	}
	inner, err := netns.New()
	if err != nil {
		return nil, err
	}
	defer inner.Close()
	handle, err := netlink.NewHandleAt(outer)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	if err := handle.LinkSetNsFd(link, int(inner)); err != nil {
		return nil, fmt.Errorf("set %s apart: %w", managementInterface, err)
	}
	if err := network.EnsureAddress(managementInterface, ip+"/24"); err != nil {
		return nil, err
	}
	if err := network.EnsureUp(managementInterface); err != nil {
		return nil, err
	}
	return net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(spec.ExecPort)))
}
