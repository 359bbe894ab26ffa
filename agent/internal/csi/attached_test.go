package csi_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	agentcsi "quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/csi/csitest"
)

// told is a source that notes what it is told of a volume.
type told struct {
	agentcsi.Devices
	seen map[string]agentcsi.Volume
}

func (s told) Find(ctx context.Context, v agentcsi.Volume) (agentcsi.From, error) {
	s.seen["find"] = v
	return s.Devices.Find(ctx, v)
}

func (s told) Ready(ctx context.Context, v agentcsi.Volume, want agentcsi.Access) (agentcsi.From, error) {
	s.seen["ready"] = v
	return s.Devices.Ready(ctx, v, want)
}

func (s told) Showable(ctx context.Context, v agentcsi.Volume) error {
	s.seen["showable"] = v
	return s.Devices.Showable(ctx, v)
}

// TestNode_tellsOfTheAttachment: what the controller said when it attached the volume reaches the source, and so does what it recorded of
// the volume. The calls that end its use carry neither.
func TestNode_tellsOfTheAttachment(t *testing.T) {
	host := csitest.NewHost(kubeletDir(t))
	cfg := host.Config()
	source := told{Devices: cfg.Source.(agentcsi.Devices), seen: map[string]agentcsi.Volume{}}
	cfg.Source = source
	c := startConfig(t, host, cfg)
	id := csitest.ID("pvc-1")
	handle := id.String()
	host.Add(id, 1<<30)
	recorded, attached := map[string]string{"recorded": "then"}, map[string]string{"device": "/dev/one"}
	c.Context[handle], c.Attached[handle] = recorded, attached
	full := agentcsi.Volume{Handle: handle, Context: recorded, Publish: attached}
	bare := agentcsi.Volume{Handle: handle}
	for _, step := range []struct {
		name string
		call func() error
		asks []string
		want agentcsi.Volume
	}{
		{"stage", func() error { return c.stage(t, handle, block()) }, []string{"ready"}, full},
		{"publish", func() error { return c.publish(t, handle, "pod/a", block(), false) }, []string{"find", "showable"}, full},
		{"unpublish", func() error { return c.unpublish(t, handle, "pod/a") }, []string{"find"}, bare},
	} {
		clear(source.seen)
		must(t, step.call())
		if diff := cmp.Diff(step.asks, slices.Sorted(maps.Keys(source.seen))); diff != "" {
			t.Errorf("%s asks the source (-want +got):\n%s", step.name, diff)
		}
		for asked, got := range source.seen {
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", step.name, asked, diff)
			}
		}
	}
}
