package access

import (
	"net"
	"testing"
	"time"
)

// ended reports whether the other side closed a connection.
func ended(t *testing.T, c net.Conn) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Read(make([]byte, 1))
	timeout, ok := err.(net.Error) //nolint:errorlint // The error of a read is not wrapped.
	return !ok || !timeout.Timeout()
}

// TestLimit: whoever has no certificate keeps nobody out who has one.
func TestLimit(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Limit(inner, 2)
	defer l.Close()
	served := make(chan *limited, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			served <- c.(*limited)
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	controller := dial()
	known := <-served
	known.prove()
	scanner := dial()
	<-served
	csi := dial()
	(<-served).prove()
	if !ended(t, scanner) || ended(t, controller) || ended(t, csi) {
		t.Error("the scanner should go, and nobody else")
	}
	if late := dial(); !ended(t, late) {
		t.Error("one too many is served")
	}
	if err := known.Close(); err != nil {
		t.Fatal(err)
	}
	if next := dial(); ended(t, next) {
		t.Error("the place was not given back")
	}
}
