package uml

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The management console takes one datagram per request and answers with one
// or more. The layout is that of arch/um/include/shared/mconsole.h.
const (
	mconsoleMagic   = 0xcafebabe
	mconsoleVersion = 2
	mconsoleMaxData = 512
	mconsoleTimeout = 10 * time.Second
)

type mconsoleRequest struct {
	Magic, Version, Length uint32
	Data                   [mconsoleMaxData]byte
}

type mconsoleReply struct {
	Failed, More, Length uint32
}

// Attach plugs an image file in as a ubd device. The kernel announces it with a
// uevent.
func (m Machine) Attach(d Disk) error {
	return m.console(fmt.Sprintf("config %s=%s", DeviceName(d.Unit), d.Image))
}

// Detach unplugs a ubd device. The kernel refuses while it is open.
func (m Machine) Detach(unit int) error {
	return m.console("remove " + DeviceName(unit))
}

// Forget removes the management socket of a kernel that has ended. A new one
// that finds it takes another name while the old process is not reaped, or its
// number was given to another, and then cannot be reached.
func (m Machine) Forget() error { return os.RemoveAll(filepath.Join(m.Dir, m.ID)) }

// console sends a command to the kernel's management socket and waits until it
// is carried out.
func (m Machine) console(command string) error {
	if len(command) >= mconsoleMaxData {
		return fmt.Errorf("kernel console: command longer than %d bytes", mconsoleMaxData)
	}
	// The kernel answers to the address the request came from, so the client
	// has to have one.
	local := filepath.Join(m.Dir, fmt.Sprintf(".client-%d-%d", os.Getpid(), time.Now().UnixNano()))
	defer os.Remove(local)
	conn, err := net.DialUnix("unixgram",
		&net.UnixAddr{Name: local, Net: "unixgram"},
		&net.UnixAddr{Name: filepath.Join(m.Dir, m.ID, "mconsole"), Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("kernel console of %s: %w", m.ID, err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(mconsoleTimeout)); err != nil {
		return err
	}
	request := mconsoleRequest{Magic: mconsoleMagic, Version: mconsoleVersion, Length: uint32(len(command))}
	copy(request.Data[:], command)
	var packet bytes.Buffer
	if err := binary.Write(&packet, binary.NativeEndian, request); err != nil {
		return err
	}
	if _, err := conn.Write(packet.Bytes()); err != nil {
		return fmt.Errorf("kernel console of %s: %w", m.ID, err)
	}
	answer, failed, err := readReply(conn)
	if err != nil {
		return fmt.Errorf("kernel console of %s: %s: %w", m.ID, command, err)
	}
	if failed {
		return fmt.Errorf("kernel console of %s: %s: %s", m.ID, command, answer)
	}
	return nil
}

func readReply(conn *net.UnixConn) (answer string, failed bool, err error) {
	var text strings.Builder
	header := binary.Size(mconsoleReply{})
	packet := make([]byte, header+mconsoleMaxData)
	for {
		n, err := conn.Read(packet)
		if err != nil {
			return "", false, err
		}
		var reply mconsoleReply
		if _, err := binary.Decode(packet[:n], binary.NativeEndian, &reply); err != nil {
			return "", false, err
		}
		end := min(header+int(reply.Length), n)
		text.Write(bytes.TrimRight(packet[header:end], "\x00"))
		if reply.More == 0 {
			return strings.TrimSpace(text.String()), reply.Failed != 0, nil
		}
	}
}
