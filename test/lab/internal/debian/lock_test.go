package debian

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lockToHold makes this test program hold a lock until its standard input
// ends: a process does not see its own locks as somebody's.
const lockToHold = "QUARRY_TEST_HOLD_LOCK"

func TestMain(m *testing.M) {
	if path := os.Getenv(lockToHold); path != "" {
		if err := holdUntilEOF(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func holdUntilEOF(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return err
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		return err
	}
	fmt.Println("held")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// hold locks a file as apt does, in a process of its own.
func hold(t *testing.T, path string) (pid int, release func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), lockToHold+"="+path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "held\n" {
		t.Fatalf("the lock's holder said %q, %v", line, err)
	}
	release = func() {
		stdin.Close()
		_ = cmd.Wait()
	}
	t.Cleanup(release)
	return cmd.Process.Pid, release
}

func TestFindHolder_namesTheProcess(t *testing.T) {
	free, taken := filepath.Join(t.TempDir(), "free"), filepath.Join(t.TempDir(), "taken")
	if err := os.WriteFile(free, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	paths := []string{filepath.Join(t.TempDir(), "missing"), free, taken}
	pid, release := hold(t, taken)
	h, held, err := findHolder(paths)
	if err != nil || !held || h.pid != pid || h.path != taken {
		t.Fatalf("findHolder = %+v, %v, %v; want process %d with %s", h, held, err, pid, taken)
	}
	// The kernel cuts a program's name at fifteen characters.
	program := filepath.Base(os.Args[0])
	program = program[:min(len(program), 15)]
	if text := h.String(); text != fmt.Sprintf("process %d (%s), which holds %s", pid, program, taken) {
		t.Errorf("the holder is called %q", text)
	}
	release()
	if h, held, err := findHolder(paths); err != nil || held {
		t.Errorf("findHolder = %+v, %v, %v after the lock was released", h, held, err)
	}
}

// said collects what a person is told.
type said struct{ lines []string }

func (s *said) say(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func TestAptGet_waitsForTheLockAndSaysForWhom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	pid, release := hold(t, path)
	var told said
	ran := false
	a := apt{
		locks: []string{path}, patience: time.Minute,
		say: func(format string, args ...any) {
			told.say(format, args...)
			release()
		},
		run: func(context.Context, io.Writer, ...string) error {
			ran = true
			return nil
		},
	}
	if err := a.get(t.Context(), io.Discard, "update"); err != nil || !ran {
		t.Fatalf("get = %v, apt-get ran: %v", err, ran)
	}
	if len(told.lines) != 1 || !strings.Contains(told.lines[0], fmt.Sprintf("waiting for process %d (", pid)) {
		t.Errorf("a person was told %q, want the process once", told.lines)
	}
}

func TestAptGet_givesUpAndNamesTheHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	pid, _ := hold(t, path)
	var told said
	a := apt{
		locks: []string{path}, patience: time.Millisecond, say: told.say,
		run: func(context.Context, io.Writer, ...string) error {
			t.Error("apt-get ran while the lock was held")
			return nil
		},
	}
	err := a.get(t.Context(), io.Discard, "update")
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d (", pid)) {
		t.Errorf("get = %v, want the holder's number", err)
	}
}

func TestAptGet_triesAgainWhenTheLockWasTakenMeanwhile(t *testing.T) {
	tests := map[string]struct {
		output   string
		wantRuns int
		wantErr  bool
	}{
		"the lists' lock":   {output: "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)\n", wantRuns: 2},
		"dpkg's lock":       {output: "dpkg: error: dpkg frontend lock was locked by another process with pid 7\n", wantRuns: 2},
		"any other failure": {output: "E: Unable to locate package lvm3\n", wantRuns: 1, wantErr: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			runs := 0
			var log strings.Builder
			a := apt{patience: time.Minute, run: func(_ context.Context, out io.Writer, args ...string) error {
				runs++
				if runs > 1 {
					return nil
				}
				fmt.Fprint(out, tt.output)
				return errors.New("exit status 100")
			}}
			err := a.get(t.Context(), &log, "update")
			if runs != tt.wantRuns || (err != nil) != tt.wantErr {
				t.Errorf("get = %v after %d runs, want an error %v after %d", err, runs, tt.wantErr, tt.wantRuns)
			}
			if log.String() != tt.output {
				t.Errorf("the log has %q, want what apt-get printed", log.String())
			}
		})
	}
}
