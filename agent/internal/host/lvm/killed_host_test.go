//go:build hostroot && amd64

package lvm

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/run"
)

// dmSuspend is the ioctl that suspends a device of device-mapper, or resumes it.
const dmSuspend = 0xc138fd06

// killing runs commands, and kills each at a suspension or resumption of a device, the first one unless some are to be passed over: before the
// kernel has done that, or right after.
type killing struct {
	after bool
	pass  int
}

// Run traces the command. The thread that starts it is the one that has to trace it.
func (k killing) Run(_ context.Context, c run.Command) (run.Result, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return run.Result{}, err
	}
	defer null.Close()
	pid, err := syscall.ForkExec(c.Path, c.Argv(), &syscall.ProcAttr{
		Env: append([]string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, c.Env...), Dir: "/",
		Files: []uintptr{null.Fd(), null.Fd(), null.Fd()}, Sys: &syscall.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		return run.Result{}, err
	}
	for entered := false; ; entered = !entered {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
			return run.Result{}, err
		}
		if status.Exited() || status.Signaled() {
			return run.Result{ExitCode: status.ExitStatus()}, os.ErrDeadlineExceeded
		}
		var regs syscall.PtraceRegs
		if err := syscall.PtraceGetRegs(pid, &regs); err != nil {
			return run.Result{}, err
		}
		// The first stop is that of the start, then entries and exits of system calls take turns.
		if regs.Orig_rax == unix.SYS_IOCTL && regs.Rsi == dmSuspend && entered != k.after {
			k.pass--
		}
		if k.pass < 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // It stands still, and is there.
			_, err := syscall.Wait4(pid, nil, 0, nil)
			return run.Result{ExitCode: -1}, err
		}
		if err := syscall.PtraceSyscall(pid, 0); err != nil {
			return run.Result{}, err
		}
	}
}

// TestHost_killedInsideACommand: what a command leaves that is killed while it changes a device is seen, and goes.
func TestHost_killedInsideACommand(t *testing.T) {
	if _, err := os.Stat("/sys/class/misc/device-mapper"); err != nil {
		t.Skip("this kernel has no device-mapper, so no volume has a device that could be suspended; make conformance runs it on one that has")
	}
	for name, c := range map[string]struct {
		after bool
		// left is the volume that the command changed.
		left string
		call func(context.Context, *LVM, Owned) error
	}{
		"extend, with the new table loaded": {false, "linear", func(ctx context.Context, l *LVM, g Owned) error { return l.ExtendLV(ctx, g, "linear", 16<<20, 0) }},
		"extend, with the volume suspended": {true, "linear", func(ctx context.Context, l *LVM, g Owned) error { return l.ExtendLV(ctx, g, "linear", 16<<20, 0) }},
		"snapshot, with its origin suspended": {true, "thin", func(ctx context.Context, l *LVM, g Owned) error {
			return l.CreateLV(ctx, g, NewVolume{Name: "snap", Tags: []string{volumeTag}, Source: "thin", Snapshot: true})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := realLVM(t)
			ctx, a := t.Context(), loop(t)
			g := Owned{Name: testGroup, Devices: []string{a}, Tag: tag}
			must(t, l.CreatePV(ctx, a, uuidA, testSize), l.CreateVG(ctx, testGroup, []string{tag}, []string{a}),
				l.CreateLV(ctx, g, NewVolume{Name: "linear", Tags: []string{volumeTag}, SizeBytes: 8 << 20}),
				l.CreatePool(ctx, g, NewPool{Name: "pool", Tags: []string{volumeTag}, SizeBytes: 16 << 20, MetadataBytes: 4 << 20, ChunkBytes: 64 << 10}),
				l.CreateLV(ctx, g, NewVolume{Name: "thin", Tags: []string{volumeTag}, Pool: "pool", SizeBytes: 8 << 20}))
			t.Cleanup(func() {
				_, err := l.run(context.Background(), []string{a}, "lvremove", "-y", testGroup)
				must(t, err, l.RemoveVG(context.Background(), testGroup, []string{a}))
			})
			victim := *l
			victim.runner = killing{after: c.after}
			must(t, c.call(ctx, &victim, g))
			if v := reported(t, l, a, c.left); !v.Suspended {
				t.Fatalf("after the kill: %+v", v)
			}
			must(t, l.RefreshLV(ctx, g, c.left, volumeTag))
			v := reported(t, l, a, c.left)
			if size := deviceSize(t, c.left); v.Suspended || size != v.SizeBytes {
				t.Errorf("refreshed: %+v, its device has %d bytes", v, size)
			}
		})
	}
}

// TestHost_killedExtendingAPool: the extension of a pool suspends its devices one after the other. Killed after one of them, it leaves nothing
// that holds back the volumes in the pool and is not seen, and the repeated extension ends. Every third moment is tried: all take minutes.
func TestHost_killedExtendingAPool(t *testing.T) {
	if _, err := os.Stat("/sys/class/misc/device-mapper"); err != nil {
		t.Skip("this kernel has no device-mapper; make conformance runs it on one that has")
	}
	const poolBytes, metadataBytes = 32 << 20, 8 << 20
	for pass, done := 0, false; !done; pass += 3 {
		l, _ := realLVM(t)
		ctx, a := t.Context(), loop(t)
		g := Owned{Name: testGroup, Devices: []string{a}, Tag: tag}
		must(t, l.CreatePV(ctx, a, uuidA, testSize), l.CreateVG(ctx, testGroup, []string{tag}, []string{a}),
			l.CreatePool(ctx, g, NewPool{Name: "pool", Tags: []string{volumeTag}, SizeBytes: 16 << 20, MetadataBytes: 4 << 20, ChunkBytes: 64 << 10}),
			l.CreateLV(ctx, g, NewVolume{Name: "thin", Tags: []string{volumeTag}, Pool: "pool", SizeBytes: 8 << 20}))
		victim := *l
		victim.runner = killing{after: true, pass: pass}
		done = errors.Is(victim.ExtendLV(ctx, g, "pool", poolBytes, metadataBytes), os.ErrDeadlineExceeded)
		pool := reported(t, l, a, "pool")
		if held := heldBack(t); !pool.Suspended && len(held) > 0 {
			t.Errorf("killed after %d: %v are suspended, and LVM reports %+v", pass, held, pool)
		}
		if pool.Suspended {
			must(t, l.RefreshLV(ctx, g, "pool", volumeTag))
		}
		if pool = reported(t, l, a, "pool"); pool.SizeBytes < poolBytes || pool.MetadataBytes < metadataBytes {
			must(t, l.ExtendLV(ctx, g, "pool", poolBytes, metadataBytes))
		}
		pool = reported(t, l, a, "pool")
		if held := heldBack(t); len(held) > 0 || pool.Suspended || pool.SizeBytes != poolBytes || pool.MetadataBytes != metadataBytes {
			t.Errorf("killed after %d and repeated: %v are suspended, %+v", pass, held, pool)
		}
		_, err := l.run(ctx, []string{a}, "lvremove", "-y", testGroup)
		must(t, err, l.RemoveVG(ctx, testGroup, []string{a}))
		if pass > 40 {
			t.Fatal("the extension never ends")
		}
	}
}

// heldBack are the devices of the test's group that are suspended and that its thin volumes stand on. Nothing reads or writes through the
// pool's own node.
func heldBack(t *testing.T) []string {
	t.Helper()
	res, err := run.Real{}.Run(t.Context(), run.Command{Path: dmsetup, Args: []string{"info", "-c", "--noheadings", "--separator", " ", "-o", "name,suspended"}})
	must(t, err)
	var out []string
	for line := range strings.Lines(string(res.Stdout)) {
		name, state, _ := strings.Cut(strings.TrimSpace(line), " ")
		if state == "Suspended" && strings.HasPrefix(name, mapped(testGroup)+"-") && name != mapped(testGroup)+"-pool" {
			out = append(out, name)
		}
	}
	return out
}

// reported is a volume as LVM reports it.
func reported(t *testing.T, l *LVM, dev, name string) LV {
	t.Helper()
	vgs, _, err := l.Report(t.Context(), []string{dev})
	must(t, err)
	i := slices.IndexFunc(vgs[0].Volumes, func(v LV) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("no %s in %+v", name, vgs)
	}
	return vgs[0].Volumes[i]
}

// deviceSize is the size that the kernel gives the device of a volume.
func deviceSize(t *testing.T, name string) int64 {
	t.Helper()
	f, err := os.Open("/dev/" + testGroup + "/" + name)
	must(t, err)
	defer f.Close()
	size, err := f.Seek(0, 2)
	must(t, err)
	return size
}
