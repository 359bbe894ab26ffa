package csi_test

import (
	"fmt"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/pkg/csirpc"
)

// TestNode_diesBeforeEveryEffect kills the agent before each of its effects in turn, and repeats the call: the end is the same.
func TestNode_diesBeforeEveryEffect(t *testing.T) {
	for _, want := range []*csi.VolumeCapability{filesystem("ext4"), filesystem("xfs"), block()} {
		for dies := 1; ; dies++ {
			host := csitest.NewHost(kubeletDir(t))
			id := csitest.ID("pvc-1")
			v := host.Add(id, gib)
			v.Active = false
			c := start(t, host)
			effects, killed := 0, ""
			host.Before = func(effect string) error {
				if effects++; effects == dies {
					killed = effect
					return errKilled
				}
				return nil
			}
			again := func(call func() error) {
				t.Helper()
				if err := call(); err != nil {
					wantCode(t, err, codes.Internal)
					must(t, call())
				}
			}
			name := id.String()
			again(func() error { return c.stage(t, name, want) })
			if v.Data == "" {
				v.Data = "written"
			}
			again(func() error { return c.publish(t, name, "pod/a", want, true) })
			if len(c.mounts(t)) == 0 {
				t.Errorf("killed before %q: nothing is mounted", killed)
			}
			again(func() error { return c.unpublish(t, name, "pod/a") })
			again(func() error { return c.unstage(t, name) })
			host.Before = nil
			must(t, c.stage(t, name, want))
			if v.Data != "written" || v.New {
				t.Errorf("killed before %q: the volume is %+v", killed, v)
			}
			must(t, c.unstage(t, name))
			c.wantMounts(t)
			c.stop()
			if killed == "" {
				t.Log(fmt.Sprint(want.GetAccessType()), "has", dies-1, "effects")
				break
			}
		}
	}
}

func TestNode_busyVolumeIsAborted(t *testing.T) {
	c, _, handle := newNode(t)
	entered, leave := make(chan bool), make(chan bool)
	c.host.Before = func(effect string) error {
		if effect == "format" {
			close(entered)
			<-leave
		}
		return nil
	}
	done := make(chan error)
	go func() { done <- c.stage(t, handle, filesystem("ext4")) }()
	<-entered
	_, err := c.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{
		VolumeId: handle, StagingTargetPath: c.path(t, "staging/globalmount"),
	})
	wantCode(t, err, codes.Aborted)
	close(leave)
	must(t, <-done)
	must(t, c.stage(t, handle, filesystem("ext4")))
}

// TestNode_sharedLock: whoever removes volumes has the locks of the driver, and keeps a volume from being made ready.
func TestNode_sharedLock(t *testing.T) {
	host, id := csitest.NewHost(kubeletDir(t)), csitest.ID("pvc-1")
	host.Add(id, gib)
	cfg := host.Config()
	cfg.Locks = &csirpc.Locks{}
	c, handle := startConfig(t, host, cfg), id.String()
	unlock, err := cfg.Locks.TryLock(handle)
	must(t, err)
	wantCode(t, c.stage(t, handle, filesystem("ext4")), codes.Aborted)
	unlock()
	must(t, c.stage(t, handle, filesystem("ext4")))
}
