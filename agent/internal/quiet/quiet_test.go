package quiet

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/plan"
)

// node is a node with disks; it counts what is done to them.
type node struct {
	devices  []plan.Device
	err      error
	events   chan struct{}
	busy     atomic.Bool
	taken    map[string]bool
	users    map[string][]string
	usersErr error
	searches [][]string
	openErr  error
	opened   []string
	triggers []string
	// look is what udev does when it is triggered.
	look    func(d *plan.Device)
	holdErr error
	// onOpen happens while a device is open.
	onOpen func()
}

func (n *node) Observe(context.Context) (plan.Snapshot, error) {
	return plan.Snapshot{Devices: slices.Clone(n.devices)}, n.err
}
func (n *node) Watch(context.Context) (<-chan struct{}, error) { return n.events, n.err }
func (n *node) Idle() bool                                     { return !n.busy.Load() }

func (n *node) Exclusive(_ context.Context, d plan.Device) (bool, error) {
	n.opened = append(n.opened, d.KernelName)
	if n.onOpen != nil {
		n.onOpen()
	}
	return !n.taken[d.KernelName], n.openErr
}

func (n *node) Users(_ context.Context, devices []plan.Device) ([][]string, error) {
	var out [][]string
	var names []string
	for _, d := range devices {
		out, names = append(out, n.users[d.KernelName]), append(names, d.KernelName)
	}
	n.searches = append(n.searches, names)
	return out, n.usersErr
}

func (n *node) Trigger(d plan.Device) error {
	n.triggers = append(n.triggers, d.KernelName)
	if n.look != nil {
		n.look(n.device(d.KernelName))
	}
	return fs.ErrNotExist
}

func (n *node) Hold(context.Context, plan.Plan) (func(context.Context), error) {
	return func(context.Context) {}, n.holdErr
}

func (n *node) device(name string) *plan.Device {
	for i := range n.devices {
		if n.devices[i].KernelName == name {
			return &n.devices[i]
		}
	}
	return nil
}

// newNode makes a node with clean disks.
func newNode(names ...string) *node {
	n := &node{events: make(chan struct{}), taken: map[string]bool{}, users: map[string][]string{}}
	for i, name := range names {
		n.devices = append(n.devices, plan.Device{
			Path: "/dev/" + name, KernelName: name, Major: 8, Minor: uint32(16 * i), Type: "disk", SizeBytes: 1 << 30, Serial: name,
			HeadTailZero: true, ContentDigest: "c", Version: "1", UdevTags: map[string]string{},
		})
	}
	return n
}

// start watches the node; signals looks at each signal, and tells how many there were.
func start(t *testing.T, n *node) (o *Observer, signals func() int) {
	t.Helper()
	o = New(Config{Source: n, Devices: n, Guard: n, Quiet: Time})
	out, err := o.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(n.events) })
	count := 0
	return o, func() int {
		before := count
		for {
			synctest.Wait()
			select {
			case <-out:
				count++
				o.look(t)
			default:
				return count - before
			}
		}
	}
}

// look observes, and returns the uses of the devices.
func (o *Observer) look(t *testing.T) map[string]plan.Use {
	t.Helper()
	snap, err := o.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]plan.Use{}
	for _, d := range snap.Devices {
		out[d.KernelName] = d.Use
	}
	return out
}

func want(t *testing.T, what string, o *Observer, uses map[string]plan.Use) {
	t.Helper()
	if diff := cmp.Diff(uses, o.look(t)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestObserve_testsOnceAfterTheQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("sda", "sdb")
		n.device("sdb").Signatures = []plan.Signature{{Type: "ext4"}}
		o, signals := start(t, n)
		want(t, "plugged", o, map[string]plan.Use{"sda": plan.Untested, "sdb": plan.Untested})
		time.Sleep(Time - time.Millisecond)
		want(t, "a moment too early", o, map[string]plan.Use{"sda": plan.Untested, "sdb": plan.Untested})
		if signals() != 0 || len(n.opened) > 0 {
			t.Errorf("tested early: %v", n.opened)
		}
		time.Sleep(time.Millisecond)
		if got := signals(); got != 1 {
			t.Errorf("%d signals after the quiet", got)
		}
		for range 3 {
			time.Sleep(time.Hour)
			want(t, "quiet", o, map[string]plan.Use{"sda": plan.Unused, "sdb": plan.Untested})
		}
		if diff := cmp.Diff([]string{"sda"}, n.opened); diff != "" || signals() != 0 {
			t.Errorf("tested more than once, or more than what is clean (-want +got):\n%s", diff)
		}
	})
}

func TestObserve_beginsAnewWithEveryChange(t *testing.T) {
	for name, change := range map[string]func(d *plan.Device){
		"an event":       func(d *plan.Device) { d.Version = "2" },
		"a write":        func(d *plan.Device) { d.ContentDigest = "d" },
		"another disk":   func(d *plan.Device) { d.Serial = "x" },
		"another path":   func(d *plan.Device) { d.Path = "/dev/disk/by-id/x" },
		"another number": func(d *plan.Device) { d.Minor++ },
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode("sda")
			o, signals := start(t, n)
			o.look(t)
			time.Sleep(Time)
			signals()
			want(t, name+", before", o, map[string]plan.Use{"sda": plan.Unused})
			change(n.device("sda"))
			for range 5 {
				want(t, name, o, map[string]plan.Use{"sda": plan.Untested})
				time.Sleep(Time / 2)
				n.device("sda").Version += "+"
				signals()
			}
			want(t, name+" and more of them", o, map[string]plan.Use{"sda": plan.Untested})
			time.Sleep(Time)
			if signals() != 1 || len(n.opened) != 2 {
				t.Errorf("%s: %d tests", name, len(n.opened))
			}
		})
	}
}

func TestObserve_forgetsWhatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("sda")
		o, signals := start(t, n)
		o.look(t)
		time.Sleep(Time)
		signals()
		n.device("sda").Unreadable = []string{"x"}
		want(t, "unreadable", o, map[string]plan.Use{"sda": plan.Untested})
		n.device("sda").Unreadable = nil
		want(t, "readable again", o, map[string]plan.Use{"sda": plan.Untested})
	})
}

func TestObserve_waitsForUdev(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("sda")
		n.busy.Store(true)
		o, signals := start(t, n)
		o.look(t)
		time.Sleep(Time + idlePatience/2)
		if signals() != 0 || len(n.opened) > 0 {
			t.Error("tested while udev works")
		}
		n.busy.Store(false)
		time.Sleep(idlePause)
		if signals() != 1 || len(n.opened) != 1 {
			t.Error("not tested when udev has come to rest")
		}

		n.busy.Store(true)
		n.device("sda").Version = "2"
		o.look(t)
		time.Sleep(Time + idlePatience + idlePause)
		if got := signals(); got != 1 || len(n.opened) != 2 {
			t.Errorf("a udev that never rests: %d signals, %d tests", got, len(n.opened))
		}
	})
}

func TestObserve_testsAgainWhatIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("sda")
		n.taken["sda"] = true
		o, signals := start(t, n)
		o.look(t)
		time.Sleep(Time)
		signals()
		want(t, "in use", o, map[string]plan.Use{"sda": plan.Used})
		time.Sleep(firstAgain)
		signals()
		if len(n.opened) != 2 {
			t.Errorf("%d tests", len(n.opened))
		}
		for range 1000 {
			time.Sleep(lastAgain / 10)
			signals()
		}
		if got := len(n.opened); got < 100 || got > 120 {
			t.Errorf("%d tests in 500 minutes", got)
		}
		n.taken["sda"] = false
		time.Sleep(lastAgain)
		signals()
		want(t, "free again", o, map[string]plan.Use{"sda": plan.Unused})
	})
}

func TestObserve_testThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("sda")
		n.openErr = errors.New("no medium")
		o, signals := start(t, n)
		o.look(t)
		time.Sleep(Time)
		signals()
		for range 2 {
			snap, err := o.Observe(t.Context())
			if err != nil || !cmp.Equal(snap.Devices[0].Unreadable, []string{"exclusive open: no medium"}) {
				t.Errorf("%+v, %v", snap, err)
			}
		}
		n.openErr = nil
		time.Sleep(firstAgain)
		signals()
		want(t, "readable again", o, map[string]plan.Use{"sda": plan.Unused})
	})
}

// TestObserve_findsUsersThatKeepNobodyAway: they are looked for once, for all devices that are due and can be opened exclusively.
func TestObserve_findsUsersThatKeepNobodyAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("sda", "sdb", "sdc")
		n.taken["sda"], n.users["sdb"] = true, []string{"process qemu (pid 7)"}
		o, signals := start(t, n)
		o.look(t)
		time.Sleep(Time)
		signals()
		want(t, "one of them has a user", o, map[string]plan.Use{"sda": plan.Used, "sdb": plan.Used, "sdc": plan.Unused})
		if diff := cmp.Diff([][]string{{"sdb", "sdc"}}, n.searches); diff != "" {
			t.Errorf("searches (-want +got):\n%s", diff)
		}
		snap, err := o.Observe(t.Context())
		if err != nil || !slices.Equal(snap.Devices[1].Users, n.users["sdb"]) || len(snap.Devices[2].Users) > 0 {
			t.Errorf("%+v, %v", snap.Devices, err)
		}
		n.users["sdb"] = nil
		time.Sleep(firstAgain)
		signals()
		want(t, "the user is gone", o, map[string]plan.Use{"sda": plan.Used, "sdb": plan.Unused, "sdc": plan.Unused})
	})
}

// TestObserve_searchThatFails: a search that did not see everything does not call a device free, and one user that it saw is enough.
func TestObserve_searchThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("sda", "sdb")
		n.usersErr, n.users["sdb"] = errors.New("process 7: permission denied"), []string{"loop device loop0"}
		o, signals := start(t, n)
		o.look(t)
		time.Sleep(Time)
		signals()
		snap, err := o.Observe(t.Context())
		if err != nil || !slices.Equal(snap.Devices[0].Unreadable, []string{"users: process 7: permission denied"}) || snap.Devices[1].Use != plan.Used {
			t.Errorf("%+v, %v", snap.Devices, err)
		}
		if got := snap.Devices[1].Users; !slices.Equal(got, []string{"loop device loop0", "others, maybe: process 7: permission denied"}) {
			t.Errorf("what was found is told as all that there is: %q", got)
		}
		n.usersErr = nil
		time.Sleep(firstAgain)
		signals()
		want(t, "readable again", o, map[string]plan.Use{"sda": plan.Unused, "sdb": plan.Used})
	})
}

func removing(path string) plan.Plan {
	return plan.Plan{Steps: []plan.Step{plan.RemoveVG{GroupDevices: []string{path}}}}
}

func TestHold_forgetsTheDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode("sda", "sdb")
		o, signals := start(t, n)
		o.look(t)
		time.Sleep(Time)
		signals()
		release, err := o.Hold(t.Context(), removing("/dev/sda"))
		if err != nil {
			t.Fatal(err)
		}
		want(t, "held", o, map[string]plan.Use{"sda": plan.Unused, "sdb": plan.Unused})
		release(t.Context())
		want(t, "released", o, map[string]plan.Use{"sda": plan.Untested, "sdb": plan.Unused})
		n.holdErr = errors.New("locked by another program")
		if _, err := o.Hold(t.Context(), removing("/dev/sdb")); !errors.Is(err, n.holdErr) {
			t.Errorf("error %v", err)
		}
		want(t, "not to be had", o, map[string]plan.Use{"sda": plan.Untested, "sdb": plan.Untested})

		// A test that runs while the device is held says nothing about it afterwards.
		time.Sleep(Time)
		n.onOpen = func() { o.forget([]string{"/dev/sda"}) }
		want(t, "held during its test", o, map[string]plan.Use{"sda": plan.Untested, "sdb": plan.Unused})
	})
}

func TestObserver_withoutQuiet(t *testing.T) {
	n := newNode("sda")
	o := New(Config{Source: n, Devices: n, Guard: n})
	want(t, "at the first sight", o, map[string]plan.Use{"sda": plan.Unused})
	n.err = errors.New("no sysfs")
	if _, err := o.Observe(t.Context()); !errors.Is(err, n.err) {
		t.Errorf("observe: %v", err)
	}
	if _, err := o.Watch(t.Context()); !errors.Is(err, n.err) {
		t.Errorf("watch: %v", err)
	}
	n.err = nil
	out, err := o.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n.events <- struct{}{}
	if _, ok := <-out; !ok {
		t.Error("an event of the source is lost")
	}
	close(n.events)
	if _, ok := <-out; ok {
		t.Error("the watch goes on without its source")
	}
}
