package csi_test

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/csi/csitest"
)

// TestNode_showsNothingOfOthers: while a volume is not zeroed it is neither staged nor published, and one that was made for a filesystem is
// never shown raw.
func TestNode_showsNothingOfOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		unzeroed, filesystemOnly bool
		want                     *csi.VolumeCapability
		code                     codes.Code
	}{
		"raw, not zeroed yet":          {unzeroed: true, want: block(), code: codes.Aborted},
		"a filesystem, not zeroed yet": {unzeroed: true, want: filesystem("ext4"), code: codes.Aborted},
		"made for a filesystem, raw":   {filesystemOnly: true, want: block(), code: codes.FailedPrecondition},
		"made for a filesystem":        {filesystemOnly: true, want: filesystem("ext4"), code: codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			c, v, handle := newNode(t)
			v.Unzeroed, v.FilesystemOnly, v.Active, v.Content = tt.unzeroed, tt.filesystemOnly, true, csitest.Garbage
			wantCode(t, c.stage(t, handle, tt.want), tt.code)
			if tt.code == codes.OK {
				return
			}
			if tt.want.GetBlock() != nil {
				// Nothing on the node tells that a raw device was staged.
				wantCode(t, c.publish(t, handle, "pod/dev", tt.want, false), tt.code)
			}
			c.wantMounts(t)
			if v.Content != csitest.Garbage || !v.New {
				t.Errorf("the volume was touched: %+v", v)
			}
			v.Unzeroed, v.FilesystemOnly = false, false
			must(t, c.stage(t, handle, tt.want))
			must(t, c.publish(t, handle, "pod/dev", tt.want, false))
		})
	}
}

// TestNode_showsNoVolumeThatIsRemoved: a volume whose removal began may have holes. It is neither staged nor published, also after a restart, and
// the error says what to do. Once a person took the tag off it is used again.
func TestNode_showsNoVolumeThatIsRemoved(t *testing.T) {
	for name, want := range map[string]*csi.VolumeCapability{"raw": block(), "filesystem": filesystem("ext4")} {
		t.Run(name, func(t *testing.T) {
			c, v, handle := newNode(t)
			must(t, c.stage(t, handle, want))
			must(t, c.unstage(t, handle))
			v.Data, v.Removing = "written", true
			for range 2 {
				err := c.stage(t, handle, want)
				wantCode(t, err, codes.FailedPrecondition)
				if err == nil || !strings.Contains(err.Error(), "take the tag quarry.storage/removing off") {
					t.Errorf("the error is %v", err)
				}
				if want.GetBlock() != nil && v.Active {
					// Nothing on the node tells that a raw device was staged.
					wantCode(t, c.publish(t, handle, "pod/dev", want, false), codes.FailedPrecondition)
				}
				c.stop()
				c.host.Restart()
				c = start(t, c.host)
			}
			c.wantMounts(t)
			if v.Active || v.Data != "written" {
				t.Errorf("the volume was touched: %+v", v)
			}
			v.Removing = false
			must(t, c.stage(t, handle, want))
		})
	}
}
