package execpod

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/controller/internal/ceph"
)

// python runs the real program with this machine's Python, over stand-ins for Ceph's libraries.
type python struct {
	t    *testing.T
	path string
	env  []string
	// performed is the file with the commands that were performed.
	performed string
	// ended gets the end of each program that the Starter started.
	ended chan error
}

// newPython has the stand-ins do what variables say.
func newPython(t *testing.T, variables ...string) *python {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		// Where an API server is, the Debian packages are, too, and Python with them.
		if os.Getenv("KUBEBUILDER_ASSETS") != "" {
			t.Fatalf("nothing tests the program that runs in Ceph's pods: %v", err)
		}
		t.Skipf("the program that runs in Ceph's pods is not tested: Python is not installed, `make deps` does that: %v", err)
	}
	libraries, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	// Go keeps the result of a test while the files that the test itself opened are the same, and knows nothing of what Python reads.
	files, err := filepath.Glob(filepath.Join(libraries, "*.py"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stand-ins in %s: %v", libraries, err)
	}
	for _, f := range files {
		if _, err := os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	p := &python{t: t, path: path, performed: filepath.Join(t.TempDir(), "performed"), ended: make(chan error, 4)}
	p.env = append(os.Environ(), "PYTHONPATH="+libraries, "PYTHONDONTWRITEBYTECODE=1", "STAND_IN_PERFORMED="+p.performed)
	p.env = append(p.env, variables...)
	return p
}

// tooLate is how long no program runs that does what it should: the test ends it.
const tooLate = time.Minute

// begin starts a process with the program, or with what else the arguments say. Its input goes on until it is closed.
func (p *python) begin(args []string, stdout io.Writer) (*exec.Cmd, io.WriteCloser, error) {
	cmd := exec.Command(p.path, args...)
	cmd.Env, cmd.Stdout = p.env, stdout
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, nil, err
	}
	late := time.AfterFunc(tooLate, func() { _ = cmd.Process.Kill() })
	p.t.Cleanup(func() {
		late.Stop()
		_ = cmd.Process.Kill()
	})
	return cmd, stdin, nil
}

// signalOf is the signal that ended a process; 0 if none did.
func signalOf(err error) syscall.Signal {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, is := exit.Sys().(syscall.WaitStatus); is && status.Signaled() {
			return status.Signal()
		}
	}
	return 0
}

// wantPerformed compares what was performed so far.
func (p *python) wantPerformed(want ...string) {
	p.t.Helper()
	text, err := os.ReadFile(p.performed)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	if got := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' }); !slices.Equal(got, want) {
		p.t.Errorf("performed %q, want %q", got, want)
	}
}

// start is a Starter. As in a pod, the end of ctx ends the connection and not the program.
func (p *python) start(ctx context.Context, program Program) (int, error) {
	if program.Args[0] != "python3" {
		return 0, fmt.Errorf("started %q", program.Args[0])
	}
	cmd, stdin, err := p.begin(program.Args[1:], program.Stdout)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(stdin, program.Stdin)
		_ = stdin.Close()
	}()
	go func() {
		err = cmd.Wait()
		p.ended <- err
		close(gone)
	}()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-gone:
	}
	if signal := signalOf(err); signal != 0 {
		return 128 + int(signal), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// runner is a Runner of programs in one pod.
func (p *python) runner() *Runner {
	pods := []corev1.Pod{podNamed("a", corev1.ConditionTrue)}
	return New(Config{Pods: func(context.Context) ([]corev1.Pod, error) { return pods, nil }, Container: "mon", Start: p.start})
}

// TestProgram: what the program says of a command is what the monitors said. All go through one program, so each also proves that the one before left it whole.
func TestProgram(t *testing.T) {
	p := newPython(t)
	r := p.runner()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	var performed []string
	for _, c := range []struct {
		args      string
		input     string
		out, said string
		code      int
		unknown   bool
	}{
		{args: "say 0 out said", out: "out", said: "said"},
		{args: "say -16 out busy", out: "out", said: "Error EBUSY: busy", code: 16},
		{args: "say -1 out sure?", out: "out", said: "Error EPERM: sure?", code: 1},
		{args: "say -9999 out odd", out: "out", said: "Error Unknown: odd", code: 9999},
		// A code above zero is no errno: the program ceph calls that a success, too.
		{args: "say 7 out said", out: "out", said: "said"},
		{args: "bytes", out: string(all)},
		{args: "given", input: string(all), out: string(all)},
		{args: "given"},
		{args: "noise", out: "{}"},
		{args: "nonsense", said: "Error EINVAL: invalid command", code: 22, unknown: true},
		{args: "invalid", said: "Error EINVAL: invalid command", code: 22, unknown: true},
		{args: "late", out: "{}"},
	} {
		if !c.unknown {
			performed = append(performed, c.args)
		}
		got, err := r.Run(t.Context(), ceph.Command{Args: strings.Fields(c.args), Input: []byte(c.input)})
		if err != nil || string(got.Stdout) != c.out || string(got.Stderr) != c.said || got.ExitCode != c.code {
			t.Errorf("%s: stdout %q, stderr %q, exit code %d: %v", c.args, got.Stdout, got.Stderr, got.ExitCode, err)
		}
		p.wantPerformed(performed...)
	}
	r.resting[0].leave()
	if err := <-p.ended; err != nil {
		t.Errorf("at the end of its input: %v", err)
	}
	if len(p.ended) > 0 {
		t.Error("there were several programs")
	}
}

// TestLeave: a connection that nobody needs any more says so before its input ends, and one that is closed sends nothing.
func TestLeave(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(*connection)
		want string
	}{
		"leave": {(*connection).leave, "\n"},
		"close": {(*connection).close, ""},
	} {
		t.Run(name, func(t *testing.T) {
			given := make(chan string, 1)
			start := func(ctx context.Context, p Program) (int, error) {
				all := make(chan string, 1)
				go func() {
					text, _ := io.ReadAll(p.Stdin)
					all <- string(text)
				}()
				_, _ = io.WriteString(p.Stdout, `{"ready":true}`+"\n")
				select {
				case text := <-all:
					given <- text
				case <-ctx.Done():
					// The program is left with its input open, as client-go leaves it.
					go func() { given <- <-all }()
				}
				return 0, ctx.Err()
			}
			c, err := connect(t.Context(), start, podNamed("a", corev1.ConditionTrue), "mon")
			if err != nil {
				t.Fatal(err)
			}
			tt.end(c)
			select {
			case got := <-given:
				if got != tt.want {
					t.Errorf("its input was %q, want %q", got, tt.want)
				}
			case <-time.After(tooLate):
				t.Error("its input never ended")
			}
		})
	}
}

// TestProgram_notReady: a program that does not get as far as commands says why, and performs none.
func TestProgram_notReady(t *testing.T) {
	for variable, want := range map[string]struct {
		says  string
		errno syscall.Errno
	}{
		"STAND_IN_CONNECT=absent":  {"no library of Ceph for Python", syscall.ENOENT},
		"STAND_IN_CONNECT=110":     {"connect", syscall.ETIMEDOUT},
		"STAND_IN_CONNECT=unknown": {"connect", syscall.EIO},
		"STAND_IN_DESCRIBED=-13":   {"get_command_descriptions", syscall.EACCES},
	} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			p := newPython(t, variable)
			_, err := p.runner().Run(t.Context(), ceph.Command{Args: []string{"noise"}})
			if !errors.Is(err, ceph.ErrUnreachable) || !errors.Is(err, want.errno) || !strings.Contains(err.Error(), want.says+": ") {
				t.Error(err)
			}
			if err := <-p.ended; err != nil {
				t.Errorf("it ended with %v", err)
			}
			p.wantPerformed()
		})
	}
}

// ask is the line of a command.
func ask(seconds int, args string) string {
	line, _ := json.Marshal(question{ID: 1, Seconds: seconds, Args: strings.Fields(args)})
	return string(line) + "\n"
}

// TestProgram_alarm: whatever takes too long ends the program, whose input goes on all the time. What it was at is not performed later, nor is a command that waits.
func TestProgram_alarm(t *testing.T) {
	for name, c := range map[string]struct {
		variable         string
		connecting, idle int
		input            string
		performed        []string
	}{
		"the connection does not come about": {variable: "STAND_IN_CONNECT=hangs", connecting: 1, idle: 60, input: ask(60, "noise")},
		"a command hangs":                    {connecting: 60, idle: 60, input: ask(60, "bytes") + ask(1, "hang 4") + ask(60, "noise"), performed: []string{"bytes"}},
		"nobody says which commands exist":   {variable: "STAND_IN_DESCRIBES=4", connecting: 60, idle: 60, input: ask(1, "late") + ask(60, "noise")},
		"no command comes":                   {connecting: 60, idle: 1},
		"no other command comes":             {connecting: 60, idle: 1, input: ask(60, "noise"), performed: []string{"noise"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPython(t, c.variable)
			cmd, stdin, err := p.begin([]string{"-c", program, fmt.Sprint(c.connecting), fmt.Sprint(c.idle)}, io.Discard)
			if err == nil {
				_, err = io.WriteString(stdin, c.input)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); signalOf(err) != syscall.SIGALRM {
				t.Errorf("it ended with %v", err)
			}
			p.wantPerformed(c.performed...)
		})
	}
}

// TestProgram_halfALine: half a command is none, even if it reads as one.
func TestProgram_halfALine(t *testing.T) {
	p := newPython(t)
	var out bytes.Buffer
	cmd, stdin, err := p.begin([]string{"-c", program, "60", "60"}, &out)
	if err == nil {
		_, err = io.WriteString(stdin, ask(60, "bytes")+strings.TrimSuffix(ask(60, "noise"), "\n"))
	}
	if err == nil {
		err = errors.Join(stdin.Close(), cmd.Wait())
	}
	if err != nil || bytes.Count(out.Bytes(), []byte("\n")) != 2 {
		t.Errorf("it said %q, want the greeting and one answer: %v", &out, err)
	}
	p.wantPerformed("bytes")
}

// TestProgram_gaveUp: a command is not performed after its caller has given up. The program has ended by then, even if nobody reaches it any more.
func TestProgram_gaveUp(t *testing.T) {
	p := newPython(t)
	r := p.runner()
	// The program is there already: its start takes as long as this machine likes.
	if _, err := r.Run(t.Context(), ceph.Command{Args: []string{"bytes"}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := r.Run(ctx, ceph.Command{Args: []string{"hang", "5"}})
	if !errors.Is(err, ceph.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := <-p.ended; signalOf(err) != syscall.SIGALRM {
		t.Errorf("it ended with %v", err)
	}
	p.wantPerformed("bytes")
}
