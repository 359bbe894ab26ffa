package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// server answers each connection with the words given, after it has read a call. xid stands for the call's number.
type server struct {
	answer func(xid uint32) []byte
	calls  [][]byte
}

func (s *server) listen(t *testing.T, address string) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("listen on %s: %v", address, err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			buffer := make([]byte, 4096)
			n, err := conn.Read(buffer)
			if err == nil && n >= 8 {
				s.calls = append(s.calls, buffer[:n])
				if _, err := conn.Write(s.answer(binary.BigEndian.Uint32(buffer[4:]))); err != nil {
					t.Error(err)
				}
			}
			conn.Close()
		}
	}()
	return netip.MustParseAddrPort(listener.Addr().String())
}

// message is an answer, with its length in front.
func message(words ...uint32) []byte {
	out := binary.BigEndian.AppendUint32(nil, lastFragment|uint32(4*len(words)))
	for _, w := range words {
		out = binary.BigEndian.AppendUint32(out, w)
	}
	return out
}

func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(xid uint32) []byte
		reason string
		says   string
	}{
		"a server":                  {func(xid uint32) []byte { return message(xid, 1, 0, 0, 0, 0) }, "", ""},
		"a server with a verifier":  {func(xid uint32) []byte { return message(xid, 1, 0, 1, 5, 1, 2, 0) }, "", ""},
		"another version":           {func(xid uint32) []byte { return message(xid, 1, 0, 0, 0, 2, 2, 3) }, sharedvolume.ReasonNotNFS, "versions 2 to 3"},
		"no NFS":                    {func(xid uint32) []byte { return message(xid, 1, 0, 0, 0, 1) }, sharedvolume.ReasonNotNFS, "no such program"},
		"a denial":                  {func(xid uint32) []byte { return message(xid, 1, 1, 1, 5) }, sharedvolume.ReasonNotNFS, "denies"},
		"another status":            {func(xid uint32) []byte { return message(xid, 1, 0, 0, 0, 5) }, sharedvolume.ReasonNotNFS, "status 5"},
		"the answer to another":     {func(xid uint32) []byte { return message(xid+1, 1, 0, 0, 0, 0) }, sharedvolume.ReasonNotNFS, "does not speak NFS"},
		"a call":                    {func(xid uint32) []byte { return message(xid, 0, 0, 0, 0, 0) }, sharedvolume.ReasonNotNFS, "does not speak NFS"},
		"a short answer":            {func(xid uint32) []byte { return message(xid, 1, 0, 0) }, sharedvolume.ReasonNotNFS, "does not speak NFS"},
		"a verifier beyond the end": {func(xid uint32) []byte { return message(xid, 1, 0, 0, 1<<31, 0) }, sharedvolume.ReasonNotNFS, "does not speak NFS"},
		"an end too soon":           {func(xid uint32) []byte { return message(xid, 1, 0, 0, 0, 0)[:9] }, sharedvolume.ReasonNotNFS, "does not speak NFS"},
		"nothing":                   {func(uint32) []byte { return nil }, sharedvolume.ReasonNotNFS, "does not speak NFS"},
		"HTTP":                      {func(uint32) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") }, sharedvolume.ReasonNotNFS, "does not speak NFS"},
		"SSH":                       {func(uint32) []byte { return []byte("SSH-2.0-OpenSSH_10.0\r\n") }, sharedvolume.ReasonNotNFS, "does not speak NFS"},
		"much":                      {func(uint32) []byte { return bytes.Repeat([]byte{0xff}, 1<<16) }, sharedvolume.ReasonNotNFS, "does not speak NFS"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{answer: c.answer}
			at := s.listen(t, "127.0.0.1:0")
			got, err := Probe(t.Context(), []netip.Addr{at.Addr()}, at.Port(), "4.2")
			if c.reason == "" {
				if err != nil || got != at {
					t.Errorf("%s, %v", got, err)
				}
				return
			}
			var p *sharedvolume.Problem
			if !errors.As(err, &p) || p.Reason != c.reason || !strings.Contains(p.Message, c.says) || !strings.Contains(p.Message, at.String()) {
				t.Errorf("%v, want %s: %s", err, c.reason, c.says)
			}
		})
	}
}

func TestProbe_nothingListens(t *testing.T) {
	s := &server{}
	at := s.listen(t, "127.0.0.2:0")
	_, err := Probe(t.Context(), []netip.Addr{netip.MustParseAddr("127.0.0.3")}, at.Port(), "4.1")
	var p *sharedvolume.Problem
	if !errors.As(err, &p) || p.Reason != sharedvolume.ReasonUnreachable || !strings.Contains(p.Message, "Nothing listens") {
		t.Errorf("%v", err)
	}
	if _, err := Probe(t.Context(), nil, 1, "4.2"); err == nil {
		t.Error("no address is reached")
	}
}

// TestProbe_severalAddresses takes the first that answers.
func TestProbe_severalAddresses(t *testing.T) {
	s := &server{answer: func(xid uint32) []byte { return message(xid, 1, 0, 0, 0, 0) }}
	at := s.listen(t, "127.0.0.1:0")
	got, err := Probe(t.Context(), []netip.Addr{netip.MustParseAddr("127.0.0.9"), at.Addr()}, at.Port(), "4.2")
	if err != nil || got != at {
		t.Errorf("%s, %v", got, err)
	}
	_, err = Probe(t.Context(), []netip.Addr{netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("127.0.0.8")}, at.Port(), "4.2")
	if err == nil || !strings.Contains(err.Error(), "127.0.0.9") || !strings.Contains(err.Error(), "127.0.0.8") {
		t.Errorf("%v", err)
	}
}

func TestProbe_ipv6(t *testing.T) {
	s := &server{answer: func(xid uint32) []byte { return message(xid, 1, 0, 0, 0, 0) }}
	at := s.listen(t, "[::1]:0")
	got, err := Probe(t.Context(), []netip.Addr{at.Addr()}, at.Port(), "3")
	if err != nil || got != at {
		t.Errorf("%s, %v", got, err)
	}
	if len(s.calls) != 1 || binary.BigEndian.Uint32(s.calls[0][20:]) != 3 {
		t.Errorf("calls %x", s.calls)
	}
}

func TestRequest(t *testing.T) {
	got := request(7, programMapper, versionMapper, procedurePort, []uint32{programNFS, 3, protocolTCP, 0})
	want := message(7, 0, 2, 100000, 2, 3, 0, 0, 0, 0, 100003, 3, 6, 0)
	if !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

func FuzzReply(f *testing.F) {
	f.Add(message(7, 1, 0, 0, 0, 0))
	f.Add(message(7, 1, 0, 0, 0, 2, 2, 3))
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		left, err := reply(bytes.NewReader(answer), 7)
		if err == nil && len(left) > maxReply {
			t.Errorf("%d bytes", len(left))
		}
		if err != nil && !errors.Is(err, errGarbage) && !errors.Is(err, errProgram) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%v", err)
		}
	})
}
