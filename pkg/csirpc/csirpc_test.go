package csirpc_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/pkg/csirpc"
)

func TestTable_firstMeaningWins(t *testing.T) {
	table := csirpc.Table{{Err: errGone, Code: codes.NotFound}, {Err: context.Canceled, Code: codes.Aborted}}
	for _, c := range []struct {
		err  error
		want codes.Code
	}{
		{fmt.Errorf("%w: %w", context.Canceled, errGone), codes.NotFound},
		{context.Canceled, codes.Aborted},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{csirpc.Invalid("x: %w", errors.New("y")), codes.InvalidArgument},
		{csirpc.ErrBusy, codes.Aborted},
		{csirpc.ErrToken, codes.Aborted},
		{errors.New("odd"), codes.Internal},
	} {
		if got := table.Code(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
	if err := csirpc.Status(context.Canceled, nil); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	if err := csirpc.Status(nil, nil); err != nil {
		t.Error(err)
	}
}

func TestPresent(t *testing.T) {
	if err := csirpc.Present("a", "x", "b", "y"); err != nil {
		t.Error(err)
	}
	if err := csirpc.Present("a", "x", "b", ""); !errors.Is(err, csirpc.ErrInvalid) || err.Error() != "invalid request: b is missing" {
		t.Error(err)
	}
}

func TestLocks(t *testing.T) {
	var l csirpc.Locks
	unlock, err := l.TryLock("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.TryLock("a"); !errors.Is(err, csirpc.ErrBusy) {
		t.Errorf("taken twice: %v", err)
	}
	if _, err := l.TryLock("b"); err != nil {
		t.Errorf("another volume: %v", err)
	}
	unlock()
	if _, err := l.TryLock("a"); err != nil {
		t.Errorf("after unlock: %v", err)
	}
}

func TestCut(t *testing.T) {
	entries := []string{"a", "b", "c"}
	from := func(start string) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for _, e := range entries {
				if e >= start && !yield(e, nil) {
					return
				}
			}
		}
	}
	for limit := range int32(5) {
		var got []string
		for token, first := "", true; first || token != ""; first = false {
			p, err := csirpc.ReadPage(limit, token)
			if err != nil {
				t.Fatal(err)
			}
			page, next, err := csirpc.Cut(p, from(p.Start), func(s string) string { return s })
			if err != nil {
				t.Fatal(err)
			}
			if limit > 0 && len(page) > int(limit) {
				t.Errorf("limit %d: %v", limit, page)
			}
			got, token = append(got, page...), next
		}
		if diff := cmp.Diff(entries, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
}

func TestCut_stopsAtAnError(t *testing.T) {
	if _, err := csirpc.ReadPage(-1, ""); !errors.Is(err, csirpc.ErrInvalid) {
		t.Error(err)
	}
	broken := func(yield func(string, error) bool) { _ = yield("a", nil) && yield("", errGone) }
	if page, next, err := csirpc.Cut(csirpc.Page{}, broken, func(s string) string { return s }); !errors.Is(err, errGone) || page != nil || next != "" {
		t.Errorf("%v, %q, %v", page, next, err)
	}
}

func capability(mode csi.VolumeCapability_AccessMode_Mode, edit func(*csi.VolumeCapability)) *csi.VolumeCapability {
	c := &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4", MountFlags: []string{"ro"}}},
	}
	if edit != nil {
		edit(c)
	}
	return c
}

func TestReadAccess(t *testing.T) {
	const writer, alone = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	const shared, readers = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	raw := func(c *csi.VolumeCapability) {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	}
	flags := []string{"ro"}
	for name, c := range map[string]struct {
		in                          *csi.VolumeCapability
		want                        csirpc.Access
		singleNode, alone, readOnly bool
	}{
		"a filesystem": {in: capability(writer, nil), want: csirpc.Access{FSType: "ext4", Flags: flags, Mode: writer}, singleNode: true},
		"a device":     {in: capability(alone, raw), want: csirpc.Access{Block: true, Mode: alone}, singleNode: true, alone: true},
		"shared":       {in: capability(shared, nil), want: csirpc.Access{FSType: "ext4", Flags: flags, Mode: shared}},
		"readers":      {in: capability(readers, nil), want: csirpc.Access{FSType: "ext4", Flags: flags, Mode: readers}, readOnly: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := csirpc.ReadAccess(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if got.SingleNode() != c.singleNode || got.Alone() != c.alone || got.ReadOnly() != c.readOnly {
				t.Errorf("single node %t, alone %t, read-only %t", got.SingleNode(), got.Alone(), got.ReadOnly())
			}
		})
	}
	for name, in := range map[string]*csi.VolumeCapability{
		"none": nil, "no mode": capability(csi.VolumeCapability_AccessMode_UNKNOWN, nil), "a mode of the future": capability(99, nil),
		"no type":       capability(writer, func(c *csi.VolumeCapability) { c.AccessType = nil }),
		"a mount group": capability(writer, func(c *csi.VolumeCapability) { c.GetMount().VolumeMountGroup = "1000" }),
	} {
		if _, err := csirpc.ReadAccess(in); !errors.Is(err, csirpc.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := csirpc.ReadAccesses(nil); !errors.Is(err, csirpc.ErrInvalid) {
		t.Error(err)
	}
	if list, err := csirpc.ReadAccesses([]*csi.VolumeCapability{capability(writer, nil), capability(alone, raw)}); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := csirpc.ReadAccesses([]*csi.VolumeCapability{capability(writer, nil), nil}); !errors.Is(err, csirpc.ErrInvalid) {
		t.Error(err)
	}
}

func TestIdentity(t *testing.T) {
	for name, c := range map[string]struct {
		plugin csirpc.Plugin
		want   int
		ready  bool
	}{
		"bare": {csirpc.Plugin{Name: "d", Version: "1"}, 1, true},
		"all":  {csirpc.Plugin{Name: "d", Version: "1", Topology: true, Expansion: true, Ready: func() bool { return false }}, 3, false},
	} {
		i := csirpc.NewIdentity(c.plugin)
		caps, err := i.GetPluginCapabilities(t.Context(), nil)
		if err != nil || len(caps.GetCapabilities()) != c.want {
			t.Errorf("%s: %v, %v", name, caps, err)
		}
		info, err := i.GetPluginInfo(t.Context(), nil)
		if err != nil || info.GetName() != "d" || info.GetVendorVersion() != "1" {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		probe, err := i.Probe(t.Context(), nil)
		if err != nil || probe.GetReady().GetValue() != c.ready {
			t.Errorf("%s: %v, %v", name, probe, err)
		}
	}
}
