package run

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func sh(script string) Command { return Command{Path: "/bin/sh", Args: []string{"-c", script}} }

func TestReal_output(t *testing.T) {
	cmd := sh(`cat; echo "$LC_ALL $EXTRA" >&2`)
	cmd.Stdin, cmd.Env = []byte("in"), []string{"EXTRA=1"}
	res, err := Real{}.Run(t.Context(), cmd)
	if err != nil || string(res.Stdout) != "in" || string(res.Stderr) != "C 1\n" || res.ExitCode != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestReal_exitCode(t *testing.T) {
	res, err := Real{}.Run(t.Context(), sh("echo out; echo why >&2; exit 5"))
	var exit *Error
	if !errors.As(err, &exit) || exit.ExitCode != 5 || exit.Stderr != "why" || exit.Argv[0] != "/bin/sh" {
		t.Errorf("%v", err)
	}
	if res.ExitCode != 5 || string(res.Stdout) != "out\n" {
		t.Errorf("%+v", res)
	}
	if !strings.Contains(err.Error(), "exit code 5: why") {
		t.Errorf("%v", err)
	}
}

func TestReal_noShell(t *testing.T) {
	res, err := Real{}.Run(t.Context(), Command{Path: "/bin/echo", Args: []string{"$HOME;`id`", "a b"}})
	if err != nil || string(res.Stdout) != "$HOME;`id` a b\n" {
		t.Errorf("%q, %v", res.Stdout, err)
	}
}

func TestReal_refuses(t *testing.T) {
	for name, cmd := range map[string]Command{
		"a relative path": {Path: "echo"},
		"no program":      {Path: "/nonexistent/program"},
		"a NUL byte":      {Path: "/bin/echo", Args: []string{"a\x00b"}},
	} {
		if _, err := (Real{}).Run(t.Context(), cmd); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestReal_cap(t *testing.T) {
	res, err := Real{MaxOutput: 1000}.Run(t.Context(), sh("yes | head -c 1000000"))
	if !errors.Is(err, ErrOutputTooLarge) || len(res.Stdout) != 1000 {
		t.Errorf("%d bytes, %v", len(res.Stdout), err)
	}
}

func TestReal_contextKillsTheGroup(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	res, err := Real{}.Run(ctx, sh("sleep 60 & echo $!; wait"))
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 4*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	child := strings.TrimSpace(string(res.Stdout))
	if _, err := strconv.Atoi(child); err != nil {
		t.Fatalf("no child in %q", res.Stdout)
	}
	for range 50 {
		stat, err := os.ReadFile("/proc/" + child + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("child %s lives on", child)
}

func TestFake(t *testing.T) {
	f := NewFake(
		Step{Argv: []string{"/bin/a", "1"}, Result: Result{Stdout: []byte("x")}},
		Step{Result: Result{ExitCode: 3, Stderr: []byte("no\n")}},
		Step{Err: errors.New("cannot start")},
	)
	if res, err := f.Run(t.Context(), Command{Path: "/bin/a", Args: []string{"1"}}); err != nil || string(res.Stdout) != "x" {
		t.Errorf("%+v, %v", res, err)
	}
	var exit *Error
	if _, err := f.Run(t.Context(), Command{Path: "/bin/b"}); !errors.As(err, &exit) || exit.Stderr != "no" {
		t.Errorf("%v", err)
	}
	if _, err := f.Run(t.Context(), Command{Path: "/bin/c"}); err == nil || f.Left() != 0 {
		t.Errorf("%v, %d left", err, f.Left())
	}
	if _, err := f.Run(t.Context(), Command{Path: "/bin/d"}); !errors.Is(err, ErrUnscripted) {
		t.Errorf("%v", err)
	}
	if len(f.Calls()) != 4 {
		t.Errorf("%+v", f.Calls())
	}
	if _, err := NewFake(Step{Argv: []string{"/bin/a"}}).Run(t.Context(), Command{Path: "/bin/b"}); !errors.Is(err, ErrUnscripted) {
		t.Errorf("another command: %v", err)
	}
}

func TestHook(t *testing.T) {
	died := errors.New("died")
	c := &Counting{Next: NewFake(Step{}, Step{})}
	h := Hook{
		Next: c,
		Before: func(_ context.Context, cmd Command) error {
			if cmd.Path == "/bin/stop" {
				return died
			}
			return nil
		},
		After: func(_ context.Context, cmd Command, _ Result, err error) error {
			if cmd.Path == "/bin/late" {
				return died
			}
			return err
		},
	}
	for path, want := range map[string]error{"/bin/a": nil, "/bin/stop": died, "/bin/late": died} {
		if _, err := h.Run(t.Context(), Command{Path: path}); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if c.Count() != 2 || len(c.Calls()) != 2 {
		t.Errorf("%+v", c.Calls())
	}
}

func TestReal_readsOnly(t *testing.T) {
	cmd := sh("echo out; exit 3")
	cmd.ReadsOnly = true
	res, err := Real{}.Run(t.Context(), cmd)
	var exit *Error
	if !errors.As(err, &exit) || string(res.Stdout) != "out\n" || res.ExitCode != 3 {
		t.Errorf("%+v, %v", res, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	cmd = sh("sleep 60")
	cmd.ReadsOnly = true
	var left *LeftError
	if _, err := (Real{}).Run(ctx, cmd); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &left) {
		t.Errorf("one that could be killed: %v", err)
	}
}
