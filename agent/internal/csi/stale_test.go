package csi_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// TestNode_staleDevice: a device that leads to a disk that dropped off is mapped anew before a volume is staged. While that cannot be, the volume is
// neither staged nor shown to a pod, and the error says what to do.
func TestNode_staleDevice(t *testing.T) {
	for name, want := range map[string]bool{"raw": true, "filesystem": false} {
		t.Run(name, func(t *testing.T) {
			c, v, handle := newNode(t)
			access := filesystem("ext4")
			if want {
				access = block()
			}
			v.Active, v.Stale, v.Open = true, true, true
			err := c.stage(t, handle, access)
			wantCode(t, err, codes.Unavailable)
			if err == nil || !strings.Contains(err.Error(), "end the pods that use it") {
				t.Errorf("the error is %v", err)
			}
			if want {
				wantCode(t, c.publish(t, handle, "pod/dev", access, false), codes.Unavailable)
			}
			c.wantMounts(t)
			v.Open = false
			must(t, c.stage(t, handle, access))
			if v.Stale {
				t.Error("staged on the device that leads to where the disk was")
			}
			must(t, c.publish(t, handle, "pod/dev", access, false))
		})
	}
}
