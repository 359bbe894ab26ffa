package server

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/proto"
)

// onlyChanges passes on the messages that differ from the one before: a view may differ in something that a message does not tell.
type onlyChanges[M proto.Message] struct {
	send func(M) error
	last []byte // nil before the first message
}

func (c *onlyChanges[M]) pass(m M) error {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("marshal %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	if c.last != nil && bytes.Equal(c.last, text) {
		return nil
	}
	c.last = append([]byte{}, text...)
	return c.send(m)
}
