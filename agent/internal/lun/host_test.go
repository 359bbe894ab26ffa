//go:build hostroot

package lun_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/agenttest/iscsi"
	"quarry.storage/quarry/agent/internal/host/block"
	hostiscsi "quarry.storage/quarry/agent/internal/host/iscsi"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/host/occupant"
	"quarry.storage/quarry/agent/internal/host/reservation"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/lun"
	"quarry.storage/quarry/pkg/sharedlun"
	"quarry.storage/quarry/test/lio"
)

const (
	boot    = "4f3c1f3e-0000-4000-8000-000000000001"
	realIQN = "iqn.2026-01.storage.quarry.lab:lun"
)

// realNode is this node, as the initiator of an interface of open-iscsi.
func realNode(t *testing.T, iface string) *lun.Node {
	t.Helper()
	lio.Iface(t, iface)
	return lun.New(lun.Config{
		NodeName: iface, BootID: boot, Dev: "/dev", Reservations: reservation.New(),
		Initiator: hostiscsi.New(hostiscsi.Config{Runner: run.Real{}, NodeName: iface, Iface: iface}),
		Uses: lun.HostUses{Tools: lun.Tools{
			Sys: "/sys", Dev: "/dev", Block: block.New(block.Config{}), Mounts: mount.New(mount.Config{}),
			Occupants: occupant.New(occupant.Config{}),
		}},
	})
}

// path is the device of the LUN on a node.
func path(t *testing.T, a iscsi.Agent, target sharedlun.Target) string {
	t.Helper()
	seen, err := a.GetTarget(t.Context(), target, false)
	if err != nil || len(seen.Luns) != 1 {
		t.Fatalf("%+v, %v", seen, err)
	}
	return "/dev/" + seen.Luns[0].Device
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRealContract holds this node, with a target of its own kernel, to what the model is held to.
func TestRealContract(t *testing.T) {
	iscsi.Contract(t, func(t *testing.T) iscsi.Site {
		target := lio.New(t, realIQN)
		a, b := settled{realNode(t, "quarry-a"), t}, settled{realNode(t, "quarry-b"), t}
		name := sharedlun.Target{IQN: realIQN, Portals: lio.Portals[:1]}
		return iscsi.Site{
			A: a, B: b, NameA: lio.InitiatorName("quarry-a"), NameB: lio.InitiatorName("quarry-b"), BootID: boot,
			Target: name, Stop: target.Stop, Start: target.Start, Reservations: target.Reservations,
			Reserve: func(who iscsi.Agent, key uint64, kind uint32) { lio.Reserve(t, path(t, who, name), key, kind) },
			Release: func(who iscsi.Agent, key uint64) { release(t, path(t, who, name), key) },
			Chap:    func(c sharedlun.Chap) { target.Chap(c.Username, c.Password, c.MutualUsername, c.MutualPassword) },
			LoseKeys: func() {
				lio.Run(t, "sg_persist", "--out", "--clear", "--param-rk=0xa1", path(t, a, name))
			},
			Swap: func() {
				target.DropLun(0)
				target.AddLun(0, "another")
			},
			Restart: func() { lio.RestartDaemon(t) },
			Cut: func(who iscsi.Agent) {
				seen, err := who.GetTarget(t.Context(), name, false)
				must(t, err)
				lio.Run(t, "iscsiadm", "-m", "session", "-r", fmt.Sprint(seen.Luns[0].Paths[0].Session), "--logout")
			},
			Use:  func(sharedlun.Identity) func() { return opened(t, path(t, a, name)) },
			Hold: func(sharedlun.Identity) func() { return held(t, path(t, a, name)) },
			Write: func(who iscsi.Agent, _ sharedlun.Identity) bool {
				return written(path(t, who, name)) == nil
			},
		}
	})
}

// settled is a node on which nobody looks at a new device any more once a login has ended: whoever does uses it.
type settled struct {
	*lun.Node
	t *testing.T
}

// Login implements iscsi.Agent.
func (s settled) Login(ctx context.Context, t sharedlun.Target, c *sharedlun.Chap, renew *sharedlun.Renewal) (sharedlun.Seen, error) {
	seen, err := s.Node.Login(ctx, t, c, renew)
	lio.Run(s.t, "udevadm", "settle")
	return seen, err
}

// release ends the reservation of a LUN, whatever its type is.
func release(t *testing.T, device string, key uint64) {
	t.Helper()
	r, err := reservation.New().Read(t.Context(), device)
	must(t, err)
	lio.Run(t, "sg_persist", "--out", "--release", fmt.Sprintf("--param-rk=%#x", key), fmt.Sprintf("--prout-type=%d", r.Type), device)
}

// granted is what the first of the nodes is granted.
func granted(key uint64) sharedlun.Grant {
	return sharedlun.Grant{Key: key, BootID: boot, Initiator: lio.InitiatorName("quarry-a"), Reserve: true}
}

// opened lets a process that is not of this one have a device open.
func opened(t *testing.T, device string) (end func()) {
	t.Helper()
	out, err := exec.Command("sh", "-c", "sleep 1000 <"+device+" >/dev/null 2>&1 & echo $!").Output()
	must(t, err)
	time.Sleep(200 * time.Millisecond)
	return func() { lio.Run(t, "kill", strings.TrimSpace(string(out))) }
}

// held builds something on a device.
func held(t *testing.T, device string) (end func()) {
	t.Helper()
	lio.Run(t, "dmsetup", "create", "quarry-hold", "--table", fmt.Sprintf("0 2048 linear %s 0", device))
	return func() { lio.Run(t, "dmsetup", "remove", "--retry", "quarry-hold") }
}

// written writes a page with zeroes, past the page cache.
func written(device string) error {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(page) }() // Nothing is lost.
	fd, err := unix.Open(device, unix.O_WRONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, page)
	return err
}

// joined waits until multipathd has joined both paths to the LUN.
func joined(t *testing.T, n *lun.Node, target sharedlun.Target) sharedlun.Lun {
	t.Helper()
	for range 100 {
		seen, err := n.GetTarget(t.Context(), target, false)
		must(t, err)
		if len(seen.Luns) == 1 && len(seen.Luns[0].Paths) == 2 && seen.Luns[0].Paths[0].Map != "" && seen.Luns[0].Paths[1].Map != "" {
			return seen.Luns[0]
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("multipathd does not join the paths")
	return sharedlun.Lun{}
}

// TestRealPaths joins two paths by multipathd, and logs out of both.
func TestRealPaths(t *testing.T) {
	lio.New(t, realIQN)
	lio.Multipathd(t)
	n := realNode(t, "quarry-a")
	name := sharedlun.Target{IQN: realIQN, Portals: lio.Portals}
	_, err := n.Login(t.Context(), name, nil, nil)
	must(t, err)
	l := joined(t, n, name)
	if !strings.HasPrefix(l.Device, "dm-") {
		t.Fatalf("%+v", l)
	}
	_, err = n.Register(t.Context(), l.Identity, granted(0x71))
	must(t, err)
	device, err := n.Device(t.Context(), l.Identity)
	must(t, err)
	if _, err := n.Confirm(t.Context(), l.Identity, 0x71); err != nil || device != "/dev/"+l.Device {
		t.Errorf("%s, %v", device, err)
	}
	for range 4 {
		must(t, written(device))
	}
	end := held(t, device)
	if err := n.Logout(t.Context(), name); err == nil || !strings.Contains(err.Error(), "in use by device dm-") {
		t.Errorf("%v", err)
	}
	// A session that is made anew would carry I/O before its path has a key.
	if _, err := n.Login(t.Context(), name, nil, &sharedlun.Renewal{}); err == nil || !strings.Contains(err.Error(), "before it has a key") {
		t.Errorf("%v", err)
	}
	must(t, written("/dev/mapper/quarry-hold"))
	end()
	// The map does without one path at a time.
	if _, err := n.Login(t.Context(), name, nil, &sharedlun.Renewal{}); err != nil {
		t.Errorf("%v", err)
	}
	_, err = n.Register(t.Context(), l.Identity, granted(0x71))
	must(t, err)
	must(t, n.Logout(t.Context(), name))
	for range 100 {
		if _, err := os.Stat("/sys/block/" + l.Device); os.IsNotExist(err) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("the map is left")
}

// TestRealOffline: a LUN that its target does not have any more is taken offline by the kernel, which lets nobody open it then. It is logged out of, unless
// something is built on it.
func TestRealOffline(t *testing.T) {
	lio.New(t, realIQN)
	n := realNode(t, "quarry-a")
	name := sharedlun.Target{IQN: realIQN, Portals: lio.Portals[:1]}
	seen, err := n.Login(t.Context(), name, nil, nil)
	must(t, err)
	l := seen.Luns[0]
	end := held(t, "/dev/"+l.Device)
	state := "/sys/block/" + l.Device + "/device/state"
	must(t, os.WriteFile(state, []byte("offline\n"), 0))
	if err := n.Logout(t.Context(), name); err == nil || !strings.Contains(err.Error(), "in use by device dm-") {
		t.Errorf("%v", err)
	}
	end()
	if _, err := os.Open("/dev/" + l.Device); !errors.Is(err, unix.ENXIO) {
		t.Errorf("opening it: %v", err)
	}
	must(t, n.Logout(t.Context(), name))
}

// TestRealStaleMap: a map that lost its paths is joined with the next one that comes, and with it what is built on the map.
func TestRealStaleMap(t *testing.T) {
	target := lio.New(t, realIQN)
	lio.Multipathd(t)
	n := realNode(t, "quarry-a")
	_, err := n.Login(t.Context(), sharedlun.Target{IQN: realIQN, Portals: lio.Portals}, nil, nil)
	must(t, err)
	l := joined(t, n, sharedlun.Target{IQN: realIQN, Portals: lio.Portals})
	_, err = n.Register(t.Context(), l.Identity, granted(0x71))
	must(t, err)
	t.Cleanup(func() { lio.Run(t, "dmsetup", "remove", "--retry", "/dev/"+l.Device) })
	defer held(t, "/dev/"+l.Device)()
	// The sessions end, and nobody is there to join new paths: the map stays.
	lio.Run(t, "multipathd", "shutdown")
	lio.Run(t, "iscsiadm", "-m", "node", "-T", realIQN, "-u")
	target.Login("quarry-a")
	next := granted(0x72)
	next.Old = []uint64{0x71}
	if _, err := n.Register(t.Context(), l.Identity, next); !errors.Is(err, sharedlun.ErrInUse) {
		t.Errorf("a node with something on a map of before got a key: %v", err)
	}
}
