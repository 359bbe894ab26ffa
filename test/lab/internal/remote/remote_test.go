package remote

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"
)

func runOverLoopback(t *testing.T, args []string, stdin string) (stdout, stderr string, code int, err error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go Serve(l) //nolint:errcheck // ends with the listener
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	code, err = Run(conn, Request{Args: args}, Streams{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errOut})
	return out.String(), errOut.String(), code, err
}

func TestRun_passesStreamsAndExitCode(t *testing.T) {
	out, errOut, code, err := runOverLoopback(t, []string{"sh", "-c", "cat; echo oops >&2; exit 7"}, "hello")
	if err != nil {
		t.Fatal(err)
	}
	if out != "hello" || errOut != "oops\n" || code != 7 {
		t.Errorf("got %q, %q, %d", out, errOut, code)
	}
}

func TestRun_largeInputComesBackWhole(t *testing.T) {
	in := strings.Repeat("0123456789abcdef", 1<<18)
	out, _, code, err := runOverLoopback(t, []string{"cat"}, in)
	if err != nil || code != 0 || out != in {
		t.Errorf("got %d bytes, code %d, %v; want %d bytes", len(out), code, err, len(in))
	}
}

func TestRun_signalIsReportedLikeAShell(t *testing.T) {
	_, _, code, err := runOverLoopback(t, []string{"sh", "-c", "kill -9 $$"}, "")
	if err != nil || code != 137 {
		t.Errorf("code %d, %v; want 137", code, err)
	}
}

func TestRun_daemonHoldingOutputDoesNotBlock(t *testing.T) {
	start := time.Now()
	out, _, code, err := runOverLoopback(t, []string{"sh", "-c", "sleep 5 & echo started"}, "")
	if err != nil || code != 0 || out != "started\n" {
		t.Errorf("got %q, %d, %v", out, code, err)
	}
	if time.Since(start) > 3*time.Second {
		t.Errorf("waited %s for a background process", time.Since(start))
	}
}

func TestRun_missingCommandIsAnError(t *testing.T) {
	if _, _, _, err := runOverLoopback(t, []string{"/does/not/exist"}, ""); err == nil {
		t.Error("no error for a command that does not exist")
	}
}
