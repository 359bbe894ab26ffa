package sole

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dir is where the lock of these tests is.
const dir = "/var/lib/quarry/lvm"

// process is one of a /proc that a test makes.
type process struct {
	exe, cmdline string
	// mount is what it has mounted at the directory of the lock, as "DEVICE ROOT"; nothing when empty.
	mount string
	// open are the files that it has open.
	open []string
	// thread is the number of the only one that goes on; empty when it is the first.
	thread string
}

// write makes the files of a process.
func (p process) write(t *testing.T, proc, id string) {
	t.Helper()
	task := filepath.Join(proc, id, "task")
	if err := os.MkdirAll(filepath.Join(task, id), 0o700); err != nil {
		t.Fatal(err)
	}
	if p.thread == "" {
		p.files(t, filepath.Join(proc, id))
		return
	}
	// What the kernel shows of a thread that has ended: nothing can be read of its mounts.
	process{}.files(t, filepath.Join(proc, id))
	if err := os.Remove(filepath.Join(proc, id, "mountinfo")); err != nil {
		t.Fatal(err)
	}
	p.files(t, filepath.Join(task, p.thread))
}

// files makes those of a process or of one of its threads.
func (p process) files(t *testing.T, at string) {
	t.Helper()
	mounts := "20 1 0:18 / /proc rw - proc proc rw\n"
	if device, root, ok := strings.Cut(p.mount, " "); ok {
		mounts += fmt.Sprintf("31 20 %s %s %s rw,relatime shared:1 - ext4 /dev/sda1 rw\n", device, root, dir)
	}
	errs := []error{
		os.MkdirAll(filepath.Join(at, "fd"), 0o700),
		os.WriteFile(filepath.Join(at, "cmdline"), []byte(strings.ReplaceAll(p.cmdline, " ", "\x00")+"\x00"), 0o600),
		os.WriteFile(filepath.Join(at, "mountinfo"), []byte(mounts), 0o600),
	}
	if p.exe != "" {
		errs = append(errs, os.Symlink(p.exe, filepath.Join(at, "exe")))
	}
	for i, f := range p.open {
		errs = append(errs, os.Symlink(f, filepath.Join(at, "fd", fmt.Sprint(i))))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestUnlocked: agents from before the lock are found by what only an agent has, and nobody else's process keeps the agent from its work.
func TestUnlocked(t *testing.T) {
	const host, older = "8:1 /var/lib/quarry/lvm", "waiting for an older agent that works on this node: process 77"
	agent := process{exe: "/usr/local/bin/agent", cmdline: "/usr/local/bin/agent --node-name=n1", mount: host}
	with := func(edit func(*process)) *process {
		p := agent
		edit(&p)
		return &p
	}
	for name, c := range map[string]struct {
		own, other *process
		want       string
	}{
		"nobody else":                               {&agent, nil, ""},
		"an older agent":                            {&agent, &agent, older},
		"with files of its own":                     {&agent, with(func(p *process) { p.open = []string{"socket:[1]", dir + "/lvm.conf"} }), older},
		"updated on its disk":                       {&agent, with(func(p *process) { p.exe += " (deleted)" }), older},
		"holds a lock that is gone":                 {&agent, with(func(p *process) { p.open = []string{dir + "/" + lockName + " (deleted)"} }), older},
		"one that knows the lock":                   {&agent, with(func(p *process) { p.open = []string{"/dev/null", dir + "/" + lockName} }), ""},
		"its first thread has ended":                {&agent, with(func(p *process) { p.thread = "79" }), older},
		"its first thread has ended, and it knows":  {&agent, with(func(p *process) { p.thread, p.open = "79", []string{dir + "/" + lockName} }), ""},
		"another program, without its first thread": {&agent, with(func(p *process) { p.thread, p.exe = "79", "/usr/bin/lvm" }), ""},
		"a child of an agent":                       {&agent, with(func(p *process) { p.cmdline = "agent child x" }), ""},
		"another program":                           {&agent, with(func(p *process) { p.exe = "/usr/bin/lvm" }), ""},
		"a namesake without mounts":                 {&agent, with(func(p *process) { p.mount = "" }), ""},
		"a namesake of a tmpfs":                     {&agent, with(func(p *process) { p.mount = "0:99 /" }), ""},
		"a thread of the kernel":                    {&agent, with(func(p *process) { p.exe = "" }), ""},
		"an agent outside of a pod":                 {with(func(p *process) { p.mount = "" }), &agent, ""},
	} {
		proc := t.TempDir()
		c.own.write(t, proc, "self")
		if c.other != nil {
			c.other.write(t, proc, "77")
		}
		got := ""
		if err := newTurn(dir, proc).unlocked(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestUnlocked_unreadable: what cannot be read may be another agent.
func TestUnlocked_unreadable(t *testing.T) {
	agent := process{exe: "/usr/local/bin/agent", cmdline: "/usr/local/bin/agent", mount: "8:1 /x"}
	for name, file := range map[string]string{"mounts": "mountinfo", "arguments": "cmdline", "files": "fd"} {
		proc := t.TempDir()
		agent.write(t, proc, "self")
		agent.write(t, proc, "77")
		path := filepath.Join(proc, "77", file)
		// A link to itself can be read by nobody, root included.
		if err := errors.Join(os.RemoveAll(path), os.Symlink(path, path)); err != nil {
			t.Fatal(err)
		}
		if err := newTurn(dir, proc).unlocked(); err == nil || !strings.Contains(err.Error(), waiting) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := newTurn(dir, t.TempDir()).unlocked(); err == nil {
		t.Error("without a /proc nothing is in the way")
	}
}
