package sole

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// variable names the directory in which a process of this test holds the lock.
const variable = "QUARRY_TEST_SOLE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(variable); dir != "" {
		if _, err := New(Config{Dir: dir, Proc: "/proc", Pause: time.Millisecond, Log: logr.Discard()}).Take(context.Background()); err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stdout, "taken")
		select {}
	}
	os.Exit(m.Run())
}

// started begins a wait, and returns a channel that has the release once it is over.
func started(t *testing.T, turn *Turn) <-chan func() {
	t.Helper()
	taken := make(chan func(), 1)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		if release, err := turn.Take(ctx); err == nil {
			taken <- release
		}
	}()
	return taken
}

// says waits until a turn says for whom it waits.
func says(t *testing.T, turn *Turn, want string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := turn.Check(); err != nil && strings.Contains(err.Error(), want) {
			return
		}
	}
	t.Fatalf("says %v, not %q", turn.Check(), want)
}

func taken(t *testing.T, c <-chan func()) func() {
	t.Helper()
	select {
	case release := <-c:
		return release
	case <-time.After(10 * time.Second):
		t.Fatal("the turn never comes")
		return nil
	}
}

func newTurn(dir, proc string) *Turn {
	return New(Config{Dir: dir, Proc: proc, Except: []string{"child"}, Pause: time.Millisecond, Log: logr.Discard()})
}

func TestTake_oneAfterTheOther(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	first, second := newTurn(dir, "/proc"), newTurn(dir, "/proc")
	if first.Check() == nil {
		t.Error("an agent that never looked is ready")
	}
	release := taken(t, started(t, first))
	if err := first.Check(); err != nil {
		t.Error(err)
	}
	waits := started(t, second)
	says(t, second, fmt.Sprintf("(process %d), which holds %s", os.Getpid(), filepath.Join(dir, lockName)))
	select {
	case <-waits:
		t.Fatal("two agents work")
	case <-time.After(50 * time.Millisecond):
	}
	release()
	taken(t, waits)()
	if err := second.Check(); err != nil {
		t.Error(err)
	}
}

// TestTake_afterAKill: a lock that outlived its process would keep every later agent from the node.
func TestTake_afterAKill(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), variable+"="+dir)
	out, err := cmd.StdoutPipe()
	if err = errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "taken\n" {
		t.Fatalf("%q %v", line, err)
	}
	turn := newTurn(dir, "/proc")
	waits := started(t, turn)
	says(t, turn, fmt.Sprintf("(process %d)", cmd.Process.Pid))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	taken(t, waits)()
}

// TestTake_fileRemoved: one who waits for a file that nobody sees any longer would work beside one who made it anew.
func TestTake_fileRemoved(t *testing.T) {
	dir := t.TempDir()
	release := taken(t, started(t, newTurn(dir, "/proc")))
	waiter := newTurn(dir, "/proc")
	waits := started(t, waiter)
	says(t, waiter, "which holds")
	if err := os.Remove(filepath.Join(dir, lockName)); err != nil {
		t.Fatal(err)
	}
	// No process of this test has the directory mounted, so the holder is known by its lock only.
	releaseWaiter := taken(t, waits)
	third := newTurn(dir, "/proc")
	thirdWaits := started(t, third)
	says(t, third, "which holds")
	release()
	releaseWaiter()
	taken(t, thirdWaits)()
}

func TestTake_toldToStop(t *testing.T) {
	dir := t.TempDir()
	defer taken(t, started(t, newTurn(dir, "/proc")))()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := newTurn(dir, "/proc").Take(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := newTurn("/proc/nothing", "/proc").Take(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a directory: %v", err)
	}
}
