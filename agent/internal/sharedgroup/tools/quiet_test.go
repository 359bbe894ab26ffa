package tools

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

const uid = "0f3b2c1d-1111-2222-3333-444455556666"

func TestQuiet(t *testing.T) {
	proc := t.TempDir()
	process := func(pid string, args string) string {
		dir := filepath.Join(proc, pid)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "cmdline"), []byte(args), 0o644)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	config := "--config\x00local/extra_system_ids=[\"" + sharedlun.SystemID(uid) + "\"]\x00"
	process("1", "init\x00")
	process("20", "")
	process("30", "/usr/sbin/lvm\x00lvchange\x00--config\x00local/extra_system_ids=[\"quarry-other\"]\x00")
	process("40", "grep\x00"+config)
	g := Groups{Proc: proc}
	if err := g.Quiet(t.Context(), uid); err != nil {
		t.Fatal(err)
	}

	left := process("50", "/usr/sbin/lvm\x00lvcreate\x00"+config)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := g.Quiet(ctx, uid); !errors.Is(err, sharedlun.ErrBusy) {
		t.Errorf("a command that still runs: %v", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = os.RemoveAll(left) })
	if err := g.Quiet(t.Context(), uid); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("it did not wait for the command")
	}

	// A child of an agent that was killed has the agent's arguments until it runs LVM: the first look does not see it.
	time.AfterFunc(lookAgain/2, func() { process("51", "/usr/sbin/lvm\x00lvcreate\x00"+config) })
	short, cancel := context.WithTimeout(t.Context(), 3*lookAgain)
	defer cancel()
	if err := g.Quiet(short, uid); !errors.Is(err, sharedlun.ErrBusy) {
		t.Errorf("a command that was about to run: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(proc, "51")); err != nil {
		t.Fatal(err)
	}

	// Unknown is not absent.
	if err := os.Mkdir(filepath.Join(proc, "60"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(proc, "60", "cmdline"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := g.Quiet(t.Context(), uid); err == nil {
		t.Error("a process that cannot be read counts as none")
	}
	if err := (Groups{Proc: filepath.Join(proc, "absent")}).Quiet(t.Context(), uid); err == nil {
		t.Error("a host whose processes cannot be read is quiet")
	}
}
