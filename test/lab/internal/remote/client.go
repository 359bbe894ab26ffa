package remote

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
)

// Streams are the client's ends of a command's standard streams. A nil Stdin
// is an empty one.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Run runs a command over an open connection to a node and returns its exit
// code.
func Run(conn net.Conn, request Request, streams Streams) (int, error) {
	frames := &frameWriter{out: conn}
	payload, err := json.Marshal(request)
	if err != nil {
		return 0, err
	}
	if err := frames.write(kindRequest, payload); err != nil {
		return 0, fmt.Errorf("send command: %w", err)
	}
	go func() {
		if streams.Stdin != nil {
			// Failures show as the end of the connection below.
			_, _ = io.Copy(streamWriter{frames, kindStdin}, streams.Stdin)
		}
		_ = frames.write(kindStdinClose, nil)
	}()
	for {
		k, payload, err := readFrame(conn)
		if err != nil {
			return 0, fmt.Errorf("the node closed the connection while the command ran: %w", err)
		}
		switch k {
		case kindStdout:
			_, err = streams.Stdout.Write(payload)
		case kindStderr:
			_, err = streams.Stderr.Write(payload)
		case kindFailure:
			return 0, errors.New(string(payload))
		case kindExit:
			if len(payload) != 4 {
				return 0, errors.New("malformed exit code")
			}
			return int(binary.BigEndian.Uint32(payload)), nil
		}
		if err != nil {
			return 0, err
		}
	}
}
