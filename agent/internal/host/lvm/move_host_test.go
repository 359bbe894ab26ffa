//go:build hostroot

package lvm

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/host/run"
)

// throttle is a percentage of the time that the kernel copies for mirrors.
const throttle = "/sys/module/dm_mirror/parameters/raid1_resync_throttle"

// TestHost_killedInsideAMove: pvmove is killed while the kernel copies. The volume keeps what was written, the move is seen, and is finished, even
// if the volume is not active any more.
func TestHost_killedInsideAMove(t *testing.T) {
	if _, err := os.Stat("/sys/class/misc/device-mapper"); err != nil {
		t.Skip("this kernel has no device-mapper, so nothing can be moved; make conformance runs it on one that has")
	}
	for name, meanwhile := range map[string]func(*testing.T, *LVM, []string){
		"active":                func(*testing.T, *LVM, []string) {},
		"inactive afterwards":   inactive,
		"after a disk was away": awayAndBack,
	} {
		t.Run(name, func(t *testing.T) { killedMove(t, meanwhile) })
	}
}

func inactive(t *testing.T, l *LVM, both []string) {
	_, err := l.run(t.Context(), both, "vgchange", "-an", testGroup)
	must(t, err)
}

// awayAndBack: LVM finishes no move in a group that was changed without a disk, and takes none back. It does take the disk back.
func awayAndBack(t *testing.T, l *LVM, both []string) {
	_, err := l.run(t.Context(), both[:1], "vgchange", "--addtag", "changed", testGroup)
	must(t, err)
	if err := l.MovePV(t.Context(), testGroup, both, both[0], both[1:], 0, true); err == nil {
		t.Error("the move is finished while LVM takes a disk for missing")
	}
	if _, err := l.run(t.Context(), both[:1], "pvmove", "--abort", both[0]); err == nil {
		t.Error("the move is taken back without the disk that it moves to")
	}
	must(t, l.RestorePV(t.Context(), testGroup, both, both[1]))
}

func killedMove(t *testing.T, meanwhile func(*testing.T, *LVM, []string)) {
	const bytesOf = 64 << 20
	l, _ := realLVM(t)
	ctx, a, b := t.Context(), loop(t), loop(t)
	both := []string{a, b}
	must(t, l.CreatePV(ctx, a, uuidA, testSize), l.CreateVG(ctx, testGroup, []string{tag}, []string{a}),
		l.CreateLV(ctx, Owned{Name: testGroup, Devices: []string{a}, Tag: tag}, NewVolume{Name: "linear", Tags: []string{volumeTag}, SizeBytes: bytesOf}),
		l.CreatePV(ctx, b, uuidB, testSize), l.ExtendVG(ctx, testGroup, []string{a}, []string{b}))
	t.Cleanup(func() {
		_, err := l.run(context.Background(), both, "lvremove", "-y", testGroup)
		must(t, err, l.RemoveVG(context.Background(), testGroup, both))
	})
	device := "/dev/" + testGroup + "/linear"
	want := bytes.Repeat([]byte("kept"), bytesOf/4)
	must(t, os.WriteFile(device, want, 0), slow(t))
	// An earlier pvmove that was killed before it was on record leaves its device.
	_, err := run.Real{}.Run(ctx, run.Command{
		Path: dmsetup, Args: []string{"create", "--notable", mapped(testGroup) + "-pvmove0"}, Env: []string{"DM_DISABLE_UDEV=1"},
	})
	must(t, err)
	untilKilled, kill := context.WithCancel(ctx)
	go killOnceMoving(untilKilled, kill)
	if err := l.MovePV(untilKilled, testGroup, both, a, []string{b}, 1024, false); untilKilled.Err() == nil {
		t.Fatalf("the move was over before it was killed: %v", err)
	}
	vgs, _, err := l.Report(ctx, both)
	must(t, err)
	if len(vgs) != 1 || len(vgs[0].Volumes) != 1 || vgs[0].Moving == nil || *vgs[0].Moving != (Moving{FromUUID: uuidA, Bytes: bytesOf}) {
		t.Fatalf("after the kill: %+v", vgs)
	}
	meanwhile(t, l, both)
	must(t, l.MovePV(ctx, testGroup, both, a, []string{b}, 0, true))
	vgs, pvs, err := l.Report(ctx, both)
	must(t, err)
	for _, pv := range pvs {
		if pv.UUID == uuidA && pv.UsedBytes != 0 || vgs[0].Moving != nil || vgs[0].Volumes[0].Suspended {
			t.Errorf("after the move was finished: %+v, %+v", vgs, pv)
		}
	}
	// Nothing is left to be finished: LVM is not to begin a move of all that is on a device.
	must(t, l.MovePV(ctx, testGroup, both, b, []string{a}, 0, true))
	_, pvs, err = l.Report(ctx, both)
	must(t, err)
	for _, pv := range pvs {
		if pv.UUID == uuidA && pv.UsedBytes != 0 {
			t.Errorf("a move was begun: %+v", pv)
		}
	}
	got, err := os.ReadFile(device)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Error("the volume does not hold what was written")
	}
}

// killOnceMoving kills as soon as the kernel copies: by then the move is on record.
func killOnceMoving(ctx context.Context, kill func()) {
	defer kill()
	for ctx.Err() == nil {
		res, _ := run.Real{}.Run(ctx, run.Command{Path: dmsetup, Args: []string{"table", mapped(testGroup) + "-pvmove0"}})
		if bytes.Contains(res.Stdout, []byte(" mirror ")) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// slow makes the kernel copy slowly, until the test ends.
func slow(t *testing.T) error {
	t.Helper()
	was, err := os.ReadFile(throttle)
	if err != nil {
		return err
	}
	t.Cleanup(func() { must(t, os.WriteFile(throttle, was, 0)) })
	return os.WriteFile(throttle, []byte("1"), 0)
}

// twoDisks makes a group on two devices with a linear volume on the first, of which the kernel copies slowly. What is left of the group goes at the end.
func twoDisks(t *testing.T) (l *LVM, both []string) {
	t.Helper()
	if _, err := os.Stat("/sys/class/misc/device-mapper"); err != nil {
		t.Skip("this kernel has no device-mapper, so nothing can be moved; make conformance runs it on one that has")
	}
	l, _ = realLVM(t)
	ctx := t.Context()
	both = []string{loop(t), loop(t)}
	must(t, l.CreatePV(ctx, both[0], uuidA, testSize), l.CreatePV(ctx, both[1], uuidB, testSize), l.CreateVG(ctx, testGroup, []string{tag}, both),
		l.CreateLV(ctx, Owned{Name: testGroup, Devices: both, Tag: tag}, NewVolume{Name: "linear", Tags: []string{volumeTag}, SizeBytes: 64 << 20}))
	t.Cleanup(func() {
		ctx := context.Background()
		vgs, _, err := l.Report(ctx, both)
		if must(t, err); len(vgs) > 0 {
			_, err := l.run(ctx, both, "vgremove", "--yes", "--force", testGroup)
			must(t, err)
		}
	})
	must(t, slow(t))
	return l, both
}

// TestHost_hinderedMove: somebody has pvmove's own volume open, so that pvmove cannot remove it after it has moved everything. What is left is no
// volume and no move, and goes when it is not open any more. One that is at work stays. LVM hides what is left here; where it was killed with the
// volume suspended, it shows it (TestParseReport_emptied).
func TestHost_hinderedMove(t *testing.T) {
	l, both := twoDisks(t)
	ctx, a, b := t.Context(), both[0], both[1]
	moved := make(chan error, 1)
	go func() { moved <- l.MovePV(ctx, testGroup, both, a, []string{b}, 1024, false) }()
	held := openWhenThere(t, "/dev/mapper/"+mapped(testGroup)+"-pvmove0")
	if err := l.DropEmptied(ctx, testGroup, both, "pvmove0"); err == nil {
		t.Error("the volume of a move that is under way is removed")
	}
	if err := <-moved; err == nil {
		t.Error("LVM removed a volume that is open")
	}
	vgs, _, err := l.Report(ctx, both)
	must(t, err)
	if vgs[0].Moving != nil || len(vgs[0].Volumes) != 1 {
		t.Fatalf("after the move: %+v", vgs)
	}
	if err := l.DropEmptied(ctx, testGroup, both, "pvmove0"); err == nil {
		t.Error("it is removed while it is open")
	}
	must(t, held.Close(), l.DropEmptied(ctx, testGroup, both, "pvmove0"))
	if err := l.DropEmptied(ctx, testGroup, both, "pvmove0"); err == nil {
		t.Error("it is removed twice")
	}
	_, err = l.run(ctx, both, "lvremove", "--yes", testGroup+"/linear")
	must(t, err, l.RemoveVG(ctx, testGroup, both))
}

// TestHost_atomicMove: the extents of a move that a person began with --atomic are those of other volumes. It is told as a move nevertheless, and not as
// something that one has left.
func TestHost_atomicMove(t *testing.T) {
	l, both := twoDisks(t)
	ctx, a, b := t.Context(), both[0], both[1]
	t.Cleanup(func() {
		_, err := l.run(context.Background(), both, "pvmove", "--abort")
		must(t, err)
	})
	brief, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := l.run(brief, both, "pvmove", "--atomic", "--interval", "+60", a, b)
		ended <- err
	}()
	// It is killed once it is on record. With a plus it first looks after a minute whether it is done, even if the kernel has copied all by then.
	vgs, _, err := l.Report(ctx, both)
	for end := time.Now().Add(time.Minute); err == nil && vgs[0].Moving == nil && time.Now().Before(end); vgs, _, err = l.Report(ctx, both) {
		time.Sleep(50 * time.Millisecond)
	}
	cancel()
	must(t, err)
	if err := <-ended; err == nil {
		t.Fatal("the move was over before it was killed")
	}
	vgs, _, err = l.Report(ctx, both)
	must(t, err)
	if vgs[0].Moving == nil || *vgs[0].Moving != (Moving{}) || vgs[0].Emptied != "" || len(vgs[0].Volumes) != 1 {
		t.Errorf("after the kill: %+v", vgs)
	}
	if err := l.DropEmptied(ctx, testGroup, both, "pvmove0"); err == nil {
		t.Error("the volume of a move that was cut off is removed")
	}
}

// openWhenThere opens a device as soon as it exists.
func openWhenThere(t *testing.T, path string) *os.File {
	t.Helper()
	for range 1000 {
		if f, err := os.Open(path); err == nil {
			return f
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s was never there", path)
	return nil
}
