package pool

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	client "quarry.storage/quarry/controller/internal/gluster"
)

var errRefused = errors.New("refused")

// answers is a server that answers as it is told to. What nobody gave it an answer for ends the test, as the rest of the API is nil.
type answers struct {
	client.API
	peers     func() ([]client.Peer, error)
	snapshots func() ([]client.Snapshot, error)
	volumes   func() ([]client.Volume, error)
	devices   func(peer string) ([]client.Device, error)
	bricks    func(ctx context.Context, volume string) ([]client.BrickStatus, error)
	option    func(volume, option string) (string, error)
	heal      func(volume string) ([]client.BrickHeal, error)
}

func (a *answers) Peers(ctx context.Context) ([]client.Peer, error) { return within(ctx, a.peers) }
func (a *answers) Snapshots(ctx context.Context) ([]client.Snapshot, error) {
	return within(ctx, a.snapshots)
}

func (a *answers) Volumes(ctx context.Context) ([]client.Volume, error) {
	return within(ctx, a.volumes)
}

func (a *answers) Devices(ctx context.Context, peer string) ([]client.Device, error) {
	return within(ctx, func() ([]client.Device, error) { return a.devices(peer) })
}

func (a *answers) Bricks(ctx context.Context, volume string) ([]client.BrickStatus, error) {
	return within(ctx, func() ([]client.BrickStatus, error) { return a.bricks(ctx, volume) })
}

func (a *answers) VolumeOption(ctx context.Context, volume, option string) (string, error) {
	return within(ctx, func() (string, error) { return a.option(volume, option) })
}

func (a *answers) Heal(ctx context.Context, volume string) ([]client.BrickHeal, error) {
	return within(ctx, func() ([]client.BrickHeal, error) { return a.heal(volume) })
}

// within answers nothing to who does not listen any more.
func within[T any](ctx context.Context, do func() (T, error)) (out T, err error) {
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	return do()
}

// replica is a volume with a brick on each of the peers.
func replica(name string, peers ...string) client.Volume {
	s := client.Subvolume{Type: "Replicate"}
	for _, p := range peers {
		s.Bricks = append(s.Bricks, client.Brick{ID: name + "-" + p, Peer: p, Path: "/" + name, Host: p})
	}
	return client.Volume{ID: name + "-id", Name: name, State: "Started", Subvolumes: []client.Subvolume{s}}
}

// whole answers everything: two peers with a device each, a replicated volume v, a distributed one d, and a snapshot s.
func whole() *answers {
	volumes := []client.Volume{replica("v", "a", "b"), replica("d", "a")}
	volumes[1].Subvolumes[0].Type = "Distribute"
	return &answers{
		peers: func() ([]client.Peer, error) {
			return []client.Peer{{ID: "a", Zone: "za", Online: true, PeerAddresses: []string{"a:1"}}, {ID: "b", Zone: "zb", Online: true}}, nil
		},
		snapshots: func() ([]client.Snapshot, error) {
			return []client.Snapshot{{Name: "s", Parent: "v", Bricks: []client.Brick{{ID: "s-b", Peer: "b", Path: "/s"}}}}, nil
		},
		volumes: func() ([]client.Volume, error) { return volumes, nil },
		devices: func(peer string) ([]client.Device, error) {
			return []client.Device{{Peer: peer, Path: "/dev/vdb", Enabled: peer == "a", Free: 5, Total: 9}}, nil
		},
		bricks: func(_ context.Context, volume string) ([]client.BrickStatus, error) {
			var out []client.BrickStatus
			for _, b := range volumes[slices.IndexFunc(volumes, func(v client.Volume) bool { return v.Name == volume })].Subvolumes[0].Bricks {
				out = append(out, client.BrickStatus{Brick: b, Online: true, Capacity: 100, Used: 40})
			}
			return out, nil
		},
		option: func(_, option string) (string, error) { return map[string]string{client.SelfHeal: "on"}[option], nil },
		heal: func(volume string) ([]client.BrickHeal, error) {
			return []client.BrickHeal{{Path: "/" + volume, Host: "a", Known: true, Pending: 1, Healing: 2, SplitBrain: 3}, {Path: "/" + volume, Host: "b", Known: true, Pending: 4, SplitBrain: 5}}, nil
		},
	}
}

// wholePool is what is seen then.
func wholePool() *gluster.Pool {
	size := &gluster.Size{Capacity: 100, Used: 40}
	up := func(id, peer, path string) gluster.Brick {
		return gluster.Brick{ID: id, Peer: peer, Path: path, Online: gluster.Yes, Size: size}
	}
	return &gluster.Pool{
		Peers:     &[]gluster.Peer{{ID: "a", Zone: "za", Online: true, Addresses: []string{"a:1"}}, {ID: "b", Zone: "zb", Online: true}},
		Snapshots: &[]gluster.Volume{{Name: "s", Subvolumes: []gluster.Subvolume{{Bricks: []gluster.Brick{{ID: "s-b", Peer: "b", Path: "/s"}}}}}},
		Devices:   &[]gluster.Device{{Peer: "a", Path: "/dev/vdb", Enabled: true, Free: 5, Total: 9}, {Peer: "b", Path: "/dev/vdb", Free: 5, Total: 9}},
		Volumes: &[]gluster.Volume{{
			Name: "v", ID: "v-id", Started: true, SelfHeal: gluster.Yes, Heal: &gluster.Heal{Pending: 7, SplitBrain: 8},
			Subvolumes: []gluster.Subvolume{{Kind: gluster.Replicate, Bricks: []gluster.Brick{up("v-a", "a", "/v"), up("v-b", "b", "/v")}}},
		}, {
			Name: "d", ID: "d-id", Started: true, Subvolumes: []gluster.Subvolume{{Kind: gluster.Distribute, Bricks: []gluster.Brick{up("d-a", "a", "/d")}}},
		}},
	}
}

// TestObserve_unanswered takes one answer away, or spoils it, and everything else is seen as before.
func TestObserve_unanswered(t *testing.T) {
	vol := func(p *gluster.Pool) *gluster.Volume { return &(*p.Volumes)[0] }
	bare := func(v *gluster.Volume) {
		v.SelfHeal, v.Heal = gluster.Unknown, nil
		for i := range v.Subvolumes[0].Bricks {
			v.Subvolumes[0].Bricks[i].Online, v.Subvolumes[0].Bricks[i].Size = gluster.Unknown, nil
		}
	}
	bricks := func(change func([]client.BrickStatus) []client.BrickStatus) func(*answers) {
		return func(a *answers) {
			as := a.bricks
			a.bricks = func(ctx context.Context, volume string) ([]client.BrickStatus, error) {
				out, err := as(ctx, volume)
				if volume == "v" {
					out = change(out)
				}
				return out, err
			}
		}
	}
	heal := func(change func([]client.BrickHeal) []client.BrickHeal) func(*answers) {
		return func(a *answers) {
			as := a.heal
			a.heal = func(volume string) ([]client.BrickHeal, error) {
				out, err := as(volume)
				return change(out), err
			}
		}
	}
	option := func(value string) func(*answers) {
		return func(a *answers) { a.option = func(string, string) (string, error) { return value, nil } }
	}
	list := func(change func([]client.Volume)) func(*answers) {
		return func(a *answers) {
			all, _ := a.volumes()
			change(all)
		}
	}
	for name, row := range map[string]struct {
		spoil func(*answers)
		want  func(*gluster.Pool)
		fails bool
	}{
		"everything is answered": {},
		"no peers":               {func(a *answers) { a.peers = func() ([]client.Peer, error) { return nil, errRefused } }, func(p *gluster.Pool) { *p = gluster.Pool{} }, true},
		"no snapshots":           {func(a *answers) { a.snapshots = func() ([]client.Snapshot, error) { return nil, errRefused } }, func(p *gluster.Pool) { p.Snapshots = nil }, true},
		"no volumes":             {func(a *answers) { a.volumes = func() ([]client.Volume, error) { return nil, errRefused } }, func(p *gluster.Pool) { p.Volumes = nil }, true},
		"no devices of one peer": {func(a *answers) {
			as := a.devices
			a.devices = func(peer string) ([]client.Device, error) {
				if peer == "b" {
					return nil, errRefused
				}
				return as(peer)
			}
		}, func(p *gluster.Pool) { p.Devices = nil }, true},
		"no bricks of one volume": {func(a *answers) {
			as := a.bricks
			a.bricks = func(ctx context.Context, volume string) ([]client.BrickStatus, error) {
				if volume == "v" {
					return nil, errRefused
				}
				return as(ctx, volume)
			}
		}, func(p *gluster.Pool) { bare(vol(p)) }, true},
		"one brick is not listed": {bricks(func(all []client.BrickStatus) []client.BrickStatus { return all[1:] }), func(p *gluster.Pool) {
			b := &vol(p).Subvolumes[0].Bricks[0]
			b.Online, b.Size, vol(p).Heal = gluster.Unknown, nil, nil
		}, false},
		"bricks of others are listed": {bricks(func(all []client.BrickStatus) []client.BrickStatus {
			for i := range all {
				all[i].ID = "other"
			}
			return all
		}), func(p *gluster.Pool) { bare(vol(p)); vol(p).SelfHeal = gluster.Yes }, false},
		"one brick does not run": {bricks(func(all []client.BrickStatus) []client.BrickStatus { all[1].Online = false; return all }), func(p *gluster.Pool) {
			vol(p).Subvolumes[0].Bricks[1].Online, vol(p).Heal = gluster.No, nil
		}, false},
		"one brick has no size": {bricks(func(all []client.BrickStatus) []client.BrickStatus { all[1].Capacity = 0; return all }), func(p *gluster.Pool) {
			vol(p).Subvolumes[0].Bricks[1].Size = nil
		}, false},
		"whether it heals is not told": {func(a *answers) { a.option = func(string, string) (string, error) { return "", errRefused } }, func(p *gluster.Pool) { vol(p).SelfHeal = gluster.Unknown }, true},
		"it does not heal":             {option("off"), func(p *gluster.Pool) { vol(p).SelfHeal = gluster.No }, false},
		"a word that nobody knows":     {option("1"), func(p *gluster.Pool) { vol(p).SelfHeal = gluster.Unknown }, false},
		"no word on what is to be healed": {
			func(a *answers) { a.heal = func(string) ([]client.BrickHeal, error) { return nil, errRefused } },
			func(p *gluster.Pool) { vol(p).Heal = nil }, true,
		},
		"one brick has no numbers":       {heal(func(all []client.BrickHeal) []client.BrickHeal { all[1].Known = false; return all }), func(p *gluster.Pool) { vol(p).Heal = nil }, false},
		"one brick lacks in the numbers": {heal(func(all []client.BrickHeal) []client.BrickHeal { return all[:1] }), func(p *gluster.Pool) { vol(p).Heal = nil }, false},
		"there is one brick too many":    {heal(func(all []client.BrickHeal) []client.BrickHeal { return append(all, client.BrickHeal{Known: true}) }), func(p *gluster.Pool) { vol(p).Heal = nil }, false},
		"nothing is to be healed": {heal(func(all []client.BrickHeal) []client.BrickHeal {
			return []client.BrickHeal{{Known: true}, {Known: true}}
		}), func(p *gluster.Pool) { vol(p).Heal = &gluster.Heal{} }, false},
		"the volume is stopped": {list(func(all []client.Volume) { all[0].State = "Stopped" }), func(p *gluster.Pool) {
			vol(p).Started, vol(p).SelfHeal, vol(p).Heal = false, gluster.Unknown, nil
		}, false},
		"a kind that nobody knows": {list(func(all []client.Volume) { all[1].Subvolumes[0].Type = "Tier" }), func(p *gluster.Pool) { (*p.Volumes)[1].Subvolumes[0].Kind = gluster.OtherKind }, false},
		"no snapshot at all":       {func(a *answers) { a.snapshots = func() ([]client.Snapshot, error) { return nil, nil } }, func(p *gluster.Pool) { p.Snapshots = &[]gluster.Volume{} }, false},
		"a snapshot without bricks": {func(a *answers) {
			a.snapshots = func() ([]client.Snapshot, error) { return []client.Snapshot{{Name: "s"}}, nil }
		}, func(p *gluster.Pool) { (*p.Snapshots)[0].Subvolumes[0].Bricks = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			api, want := whole(), wholePool()
			if row.spoil != nil {
				row.spoil(api)
				row.want(want)
			}
			got, err := Observe(t.Context(), api)
			if !reflect.DeepEqual(got, *want) {
				t.Errorf("got\n%s\nwant\n%s", show(got), show(*want))
			}
			if row.fails != errors.Is(err, errRefused) || err != nil && !row.fails {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// show writes a pool with what its pointers point to.
func show(p gluster.Pool) string {
	out := ""
	for what, list := range map[string]any{"peers": p.Peers, "snapshots": p.Snapshots, "devices": p.Devices} {
		out += fmt.Sprintf("%s %+v\n", what, list)
	}
	if p.Volumes == nil {
		return out + "no volumes\n"
	}
	for _, v := range *p.Volumes {
		out += fmt.Sprintf("%+v heal %+v\n", v, v.Heal)
	}
	return out
}

// TestObserve_hungPeer: a peer hangs that counts as online still. Only what is asked of volumes with a brick there is not known, and the pass ends in its time.
func TestObserve_hungPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := whole()
		var volumes []client.Volume
		for i := range sideBySide + 4 {
			volumes = append(volumes, replica(fmt.Sprintf("v%d", i), "a", "b"), replica(fmt.Sprintf("w%d", i), "a", "c"))
		}
		api.peers = func() ([]client.Peer, error) {
			return []client.Peer{{ID: "a", Online: true}, {ID: "b", Online: true}, {ID: "c", Online: true}}, nil
		}
		api.volumes = func() ([]client.Volume, error) { return volumes, nil }
		api.bricks = func(ctx context.Context, volume string) ([]client.BrickStatus, error) {
			if volume[0] == 'v' {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			var out []client.BrickStatus
			for _, p := range []string{"a", "c"} {
				out = append(out, client.BrickStatus{Brick: client.Brick{ID: volume + "-" + p, Peer: p}, Online: true, Capacity: 1})
			}
			return out, nil
		}
		began := time.Now()
		got, err := Observe(t.Context(), api)
		if err == nil || time.Since(began) > observeLimit || got.Snapshots == nil || got.Devices == nil || got.Volumes == nil {
			t.Fatalf("after %s: %+v, %v", time.Since(began), got, err)
		}
		for _, v := range *got.Volumes {
			if known := v.Heal != nil && v.SelfHeal == gluster.Yes; known != (v.Name[0] == 'w') {
				t.Errorf("volume %s is known: %v", v.Name, known)
			}
		}
	})
}

// TestObserve_hungPeerOffline: once the peer counts as offline, it holds up no volume that has no brick there, however many have.
func TestObserve_hungPeerOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := whole()
		volumes, _ := api.volumes()
		for i := range 5 * sideBySide {
			volumes = slices.Insert(volumes, 0, replica(fmt.Sprintf("h%d", i), "a", "hung"))
		}
		as := api.bricks
		api.peers = func() ([]client.Peer, error) {
			return []client.Peer{{ID: "a", Online: true}, {ID: "b", Online: true}, {ID: "hung"}}, nil
		}
		api.volumes = func() ([]client.Volume, error) { return volumes, nil }
		api.bricks = func(ctx context.Context, volume string) ([]client.BrickStatus, error) {
			if volume[0] == 'h' {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return as(ctx, volume)
		}
		began := time.Now()
		got, err := Observe(t.Context(), api)
		if err == nil || time.Since(began) > observeLimit || got.Snapshots == nil || got.Volumes == nil {
			t.Fatalf("after %s: %+v, %v", time.Since(began), got, err)
		}
		if v, _ := got.Volume("v"); v.Heal == nil {
			t.Error("volume v is not known")
		}
	})
}
