package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// Numbers of the RPC protocol (RFC 5531), of NFS and of the port mapper.
const (
	programNFS     = 100003
	programMapper  = 100000
	versionMapper  = 2
	procedureNull  = 0
	procedurePort  = 3
	protocolTCP    = 6
	portNFS        = 2049
	portMapper     = 111
	maxReply       = 4096
	lastFragment   = 1 << 31
	probeTimeout   = 5 * time.Second
	accepted       = 0
	successful     = 0
	noSuchProgram  = 1
	noSuchVersion  = 2
	messageIsReply = 1
)

// errGarbage means that what came back is no answer of an RPC server.
var errGarbage = errors.New("the answer is not one of an NFS server")

// errProgram means that the server does not serve the program, or not in this version.
var errProgram = errors.New("not served")

// Probe asks a server whether it speaks a version of NFS, with a call that does nothing. It returns the address that answers. The
// kernel is asked to mount only after that: it would wait for a server that is gone, and for one that is none.
func Probe(ctx context.Context, addresses []netip.Addr, port uint16, version string) (netip.AddrPort, error) {
	var failed []error
	for _, a := range addresses {
		found, err := probe(ctx, a, port, version)
		if err == nil {
			return found, nil
		}
		failed = append(failed, err)
	}
	if len(failed) == 1 {
		return netip.AddrPort{}, failed[0]
	}
	// The reason of the last is as good as any; the sentences of all are told.
	problem := sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "%v", errors.Join(failed...))
	var last *sharedvolume.Problem
	if len(failed) > 0 && errors.As(failed[len(failed)-1], &last) {
		problem.Reason = last.Reason
	}
	return netip.AddrPort{}, problem
}

func probe(ctx context.Context, a netip.Addr, port uint16, version string) (netip.AddrPort, error) {
	major := uint32(4)
	if version == "3" {
		major = 3
	}
	if port == 0 && major == 3 {
		at := netip.AddrPortFrom(a, portMapper)
		mapped, err := call(ctx, at, programMapper, versionMapper, procedurePort, []uint32{programNFS, major, protocolTCP, 0})
		if err != nil {
			return netip.AddrPort{}, unreachable(at, "its port mapper", err)
		}
		if len(mapped) < 4 || binary.BigEndian.Uint32(mapped) > 65535 || binary.BigEndian.Uint32(mapped) == 0 {
			return netip.AddrPort{}, sharedvolume.NewProblem(sharedvolume.ReasonNotNFS, "The port mapper at %s knows no NFS version 3 over TCP.", at)
		}
		port = uint16(binary.BigEndian.Uint32(mapped))
	}
	if port == 0 {
		port = portNFS
	}
	at := netip.AddrPortFrom(a, port)
	if _, err := call(ctx, at, programNFS, major, procedureNull, nil); err != nil {
		return netip.AddrPort{}, unreachable(at, fmt.Sprintf("NFS version %d", major), err)
	}
	return at, nil
}

// unreachable says what was tried and what came back.
func unreachable(at netip.AddrPort, what string, err error) *sharedvolume.Problem {
	var timeout net.Error
	switch {
	case errors.Is(err, errProgram):
		return sharedvolume.NewProblem(sharedvolume.ReasonNotNFS, "The server at %s does not serve %s: %v.", at, what, err)
	case errors.Is(err, errGarbage), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return sharedvolume.NewProblem(sharedvolume.ReasonNotNFS, "What listens at %s does not speak NFS (%s was tried): %v.", at, what, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "Nothing listens at %s (%s was tried).", at, what)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "The server at %s does not answer within %s (%s was tried).", at, probeTimeout, what)
	}
	return sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "The server at %s cannot be reached (%s was tried): %v.", at, what, err)
}

// call makes one call over a connection of its own and returns its result.
func call(ctx context.Context, to netip.AddrPort, program, version, procedure uint32, args []uint32) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	xid := uint32(time.Now().UnixNano())
	if _, err := conn.Write(request(xid, program, version, procedure, args)); err != nil {
		return nil, err
	}
	return reply(conn, xid)
}

// request writes a call without credentials.
func request(xid, program, version, procedure uint32, args []uint32) []byte {
	const call, rpcVersion, none = 0, 2, 0
	words := append([]uint32{xid, call, rpcVersion, program, version, procedure, none, 0, none, 0}, args...)
	out := binary.BigEndian.AppendUint32(nil, lastFragment|uint32(4*len(words)))
	for _, w := range words {
		out = binary.BigEndian.AppendUint32(out, w)
	}
	return out
}

// reply reads the answer to a call.
func reply(r io.Reader, xid uint32) ([]byte, error) {
	var mark [4]byte
	if _, err := io.ReadFull(r, mark[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(mark[:])
	if length&lastFragment == 0 || length&^lastFragment > maxReply {
		return nil, fmt.Errorf("it begins with %x: %w", mark, errGarbage)
	}
	body := make([]byte, length&^lastFragment)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	return result(body, xid)
}

// result takes the answer of a call apart.
func result(body []byte, xid uint32) ([]byte, error) {
	words := &reader{left: body}
	if words.next() != xid || words.next() != messageIsReply || words.bad {
		return nil, errGarbage
	}
	if words.next() != accepted {
		return nil, fmt.Errorf("the server denies the call: %w", errProgram)
	}
	words.next()
	words.skip(words.next())
	status := words.next()
	switch {
	case words.bad:
		return nil, errGarbage
	case status == noSuchVersion:
		return nil, fmt.Errorf("it has versions %d to %d: %w", words.next(), words.next(), errProgram)
	case status == noSuchProgram:
		return nil, fmt.Errorf("no such program: %w", errProgram)
	case status != successful:
		return nil, fmt.Errorf("status %d: %w", status, errProgram)
	}
	return words.left, nil
}

// reader takes words from the front of a message.
type reader struct {
	left []byte
	bad  bool
}

func (r *reader) next() uint32 {
	if len(r.left) < 4 {
		r.bad = true
		return 0
	}
	w := binary.BigEndian.Uint32(r.left)
	r.left = r.left[4:]
	return w
}

// skip leaves out bytes, which are padded to whole words.
func (r *reader) skip(bytes uint32) {
	padded := (uint64(bytes) + 3) &^ 3
	if padded > uint64(len(r.left)) {
		r.bad = true
		return
	}
	r.left = r.left[padded:]
}
