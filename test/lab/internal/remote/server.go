package remote

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Serve runs the commands of every client that connects, until the listener is
// closed.
func Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			serveOne(conn)
		}()
	}
}

func serveOne(conn net.Conn) {
	frames := &frameWriter{out: conn}
	k, payload, err := readFrame(conn)
	if err != nil || k != kindRequest {
		return
	}
	var request Request
	if err := json.Unmarshal(payload, &request); err != nil || len(request.Args) == 0 {
		_ = frames.write(kindFailure, []byte("malformed request"))
		return
	}
	code, err := run(request, conn, frames)
	if err != nil {
		_ = frames.write(kindFailure, []byte(err.Error()))
		return
	}
	_ = frames.write(kindExit, binary.BigEndian.AppendUint32(nil, uint32(code)))
}

// outputGrace is how long output is still collected after the command ended
// while something it started holds its output open, as daemons do.
const outputGrace = 200 * time.Millisecond

func run(request Request, conn io.Reader, frames *frameWriter) (int, error) {
	cmd := exec.Command(request.Args[0], request.Args[1:]...)
	cmd.Env = append(os.Environ(), request.Env...)
	cmd.Dir = request.Dir
	cmd.Stdout = streamWriter{frames, kindStdout}
	cmd.Stderr = streamWriter{frames, kindStderr}
	cmd.WaitDelay = outputGrace
	// Its own session, so that a client that goes away takes the whole
	// command with it and nothing else.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	done := make(chan struct{})
	go func() {
		feed(conn, stdin)
		select {
		case <-done:
		default:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}()
	err = cmd.Wait()
	close(done)
	return exitCode(cmd, err)
}

// feed passes standard input on until the client goes away.
func feed(conn io.Reader, stdin io.WriteCloser) {
	defer stdin.Close()
	for {
		k, payload, err := readFrame(conn)
		if err != nil {
			return
		}
		switch k {
		case kindStdin:
			// A command that does not read its input is not an error.
			_, _ = stdin.Write(payload)
		case kindStdinClose:
			stdin.Close()
		}
	}
}

func exitCode(cmd *exec.Cmd, err error) (int, error) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return 0, err
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}
