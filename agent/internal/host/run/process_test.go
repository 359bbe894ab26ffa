package run

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestStart_talks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("handed over"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := Real{}.Start(sh(`read word; echo "got $word"; cat <&3; echo why >&2`), f)
	if err != nil {
		t.Fatal(err)
	}
	if words := p.LastWords(); words != "" {
		t.Errorf("a process that runs said %q", words)
	}
	if _, err := io.WriteString(p.Stdin, "hello\n"); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout)
	if err != nil || string(out) != "got hello\nhanded over" {
		t.Errorf("%q, %v", out, err)
	}
	gone(t, p)
	if words := p.LastWords(); words != "why" {
		t.Errorf("last words %q", words)
	}
}

func gone(t *testing.T, p *Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the process is still there")
	}
}

func TestStart_endsWithItsInput(t *testing.T) {
	p, err := Real{}.Start(sh("cat"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stdin.Close(); err != nil {
		t.Error(err)
	}
	gone(t, p)
}

// TestStart_kill kills what the process started too.
func TestStart_kill(t *testing.T) {
	p, err := Real{}.Start(sh("sleep 1000 & sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	gone(t, p)
	// Both have the pipe open: it ends when both are gone.
	if out, err := io.ReadAll(p.Stdout); err != nil || len(out) != 0 {
		t.Errorf("%q, %v", out, err)
	}
	p.Kill()
}

func TestStart_refuses(t *testing.T) {
	for _, cmd := range []Command{{Path: "sh"}, {Path: "/bin/sh", Args: []string{"a\x00b"}}, {Path: "/nonexistent"}} {
		if p, err := (Real{}).Start(cmd); err == nil {
			p.Kill()
			t.Errorf("%v is started", cmd)
		}
	}
}
