package server

import (
	"errors"
	"testing"

	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

func TestOnlyChanges(t *testing.T) {
	sent := 0
	broken := errors.New("the stream is closed")
	var fail error
	c := onlyChanges[*agentv1.WatchDevicesResponse]{send: func(*agentv1.WatchDevicesResponse) error { sent++; return fail }}
	empty := &agentv1.WatchDevicesResponse{}
	one := &agentv1.WatchDevicesResponse{Devices: []*agentv1.Device{{Path: "/dev/sda"}}}
	for i, step := range []struct {
		message *agentv1.WatchDevicesResponse
		sent    int
	}{{empty, 1}, {empty, 1}, {one, 2}, {one, 2}, {empty, 3}} {
		if err := c.pass(step.message); err != nil || sent != step.sent {
			t.Errorf("message %d: sent %d, %v", i, sent, err)
		}
	}
	fail = broken
	if err := c.pass(one); !errors.Is(err, broken) {
		t.Errorf("a stream that is closed: %v", err)
	}
}
