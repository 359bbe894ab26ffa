// Package remote runs commands in a node over one TCP connection per command:
// the server side in the node, the client side on the machine. It carries
// standard input, output, error and the exit code; it knows nothing of
// Kubernetes, so it works when that is dead.
package remote

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// kind says what a frame carries.
type kind byte

const (
	kindRequest    kind = 'R' // client: JSON Request
	kindStdin      kind = 'I' // client: bytes for standard input
	kindStdinClose kind = 'C' // client: end of standard input
	kindStdout     kind = 'O' // server: bytes of standard output
	kindStderr     kind = 'E' // server: bytes of standard error
	kindExit       kind = 'X' // server: exit code, four bytes
	kindFailure    kind = 'F' // server: why the command could not be run
)

// maxFrame bounds what a peer may make the other side allocate.
const maxFrame = 1 << 20

// Request is the command to run.
type Request struct {
	Args []string `json:"args"`
	// Env is added to the node's environment.
	Env []string `json:"env,omitempty"`
	Dir string   `json:"dir,omitempty"`
}

// frameWriter writes frames; several goroutines may share it.
type frameWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *frameWriter) write(k kind, payload []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	packet := make([]byte, 5+len(payload))
	packet[0] = byte(k)
	binary.BigEndian.PutUint32(packet[1:], uint32(len(payload)))
	copy(packet[5:], payload)
	_, err := w.out.Write(packet)
	return err
}

func readFrame(r io.Reader) (kind, []byte, error) {
	var header [5]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(header[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes", n)
	}
	payload := make([]byte, n)
	_, err := io.ReadFull(r, payload)
	return kind(header[0]), payload, err
}

// streamWriter sends everything written to it as frames of one kind.
type streamWriter struct {
	frames *frameWriter
	kind   kind
}

func (s streamWriter) Write(p []byte) (int, error) {
	for written := 0; written < len(p); {
		end := min(written+maxFrame, len(p))
		if err := s.frames.write(s.kind, p[written:end]); err != nil {
			return written, err
		}
		written = end
	}
	return len(p), nil
}
