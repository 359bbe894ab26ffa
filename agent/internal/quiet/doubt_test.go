package quiet

import (
	"testing"
	"testing/synctest"
	"time"

	"quarry.storage/quarry/agent/internal/plan"
)

// stale is a disk that udev takes for what it was before it was released.
func stale() *node {
	n := newNode("sda")
	n.device("sda").UdevTags["ID_FS_TYPE"] = "LVM2_member"
	return n
}

func TestTrigger_mendsUdevsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := stale()
		n.look = func(d *plan.Device) { d.UdevTags, d.Version = map[string]string{}, d.Version+"+" }
		o, signals := start(t, n)
		o.look(t)
		time.Sleep(Time - time.Millisecond)
		if signals() != 0 || len(n.triggers) > 0 {
			t.Error("triggered before the disk was quiet")
		}
		time.Sleep(time.Millisecond)
		signals()
		if len(n.triggers) != 1 {
			t.Fatalf("triggers: %v", n.triggers)
		}
		o.look(t)
		time.Sleep(Time)
		signals()
		want(t, "mended", o, map[string]plan.Use{"sda": plan.Unused})
		time.Sleep(time.Hour)
		signals()
		if len(n.triggers) != 1 {
			t.Errorf("triggers: %v", n.triggers)
		}
		// It happens again, to the same disk.
		n.device("sda").UdevTags["ID_FS_TYPE"] = "ext4"
		o.look(t)
		time.Sleep(Time)
		signals()
		if len(n.triggers) != 2 {
			t.Errorf("triggers: %v", n.triggers)
		}
	})
}

func TestTrigger_acceptsWhatUdevInsistsOn(t *testing.T) {
	for name, look := range map[string]func(d *plan.Device){
		"udev sees it still":    func(d *plan.Device) { d.Version += "+" },
		"udev does not look":    nil,
		"udev drops the record": func(d *plan.Device) { d.Unreadable = []string{"udev: not yet in udev's database"} },
	} {
		synctest.Test(t, func(t *testing.T) {
			n := stale()
			n.look = look
			o, signals := start(t, n)
			o.look(t)
			total := 0
			for range 3600 {
				time.Sleep(time.Second)
				total += signals()
			}
			if got := len(n.triggers); got < 1 || got > len(pauses) || total > 4*len(pauses) {
				t.Errorf("%s: %d triggers and %d looks in an hour", name, got, total)
			}
		})
	}
}

func TestTrigger_leavesABusyUdevAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := stale()
		n.busy.Store(true)
		o, signals := start(t, n)
		o.look(t)
		total := 0
		for range 600 {
			time.Sleep(time.Second)
			total += signals()
		}
		if len(n.triggers) > 0 || total > 80 {
			t.Errorf("%d triggers and %d looks in 10 minutes while udev works", len(n.triggers), total)
		}
		n.busy.Store(false)
		time.Sleep(idlePatience + Time)
		signals()
		if len(n.triggers) != 1 {
			t.Errorf("triggers: %v", n.triggers)
		}
	})
}
