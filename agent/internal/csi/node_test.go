package csi_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/agent/internal/csi/lvm"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/node"
	"quarry.storage/quarry/pkg/quarry"
	"quarry.storage/quarry/pkg/volumeid"
)

// The agent's engine is what the node service asks about volumes.
var _ lvm.Volumes = (*node.Engine)(nil)

const gib = 1 << 30

func newNode(t *testing.T) (*client, *csitest.Volume, string) {
	t.Helper()
	host := csitest.NewHost(kubeletDir(t))
	id := csitest.ID("pvc-1")
	return start(t, host), host.Add(id, gib), id.String()
}

// mounts are the mount points below the kubelet's directory.
func (c *client) mounts(t *testing.T) []string {
	t.Helper()
	points, err := c.host.Mounter.Points()
	must(t, err)
	var out []string
	for _, p := range points[1:] {
		rel, err := filepath.Rel(c.dir, p.Path)
		must(t, err)
		if p.ReadOnly {
			rel += " (ro)"
		}
		out = append(out, rel)
	}
	return out
}

func (c *client) wantMounts(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, c.mounts(t)); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestNode_filesystemLife(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs", ""} {
		t.Run("fs"+fsType, func(t *testing.T) {
			c, v, handle := newNode(t)
			want := filesystem(fsType, "noatime")
			for range 2 {
				must(t, c.stage(t, handle, want))
				must(t, c.publish(t, handle, "pod/a", want, false))
				must(t, c.publish(t, handle, "pod/b", want, true))
			}
			c.wantMounts(t, "staging/globalmount", "pod/a", "pod/b (ro)")
			if v.New || v.Content != map[string]string{"": "ext4"}[fsType]+fsType {
				t.Errorf("volume is %+v", v)
			}
			if nouuid := strings.Contains(c.host.Mounter.Data(filepath.Join(c.dir, "staging/globalmount")), "nouuid"); nouuid != (fsType == "xfs") {
				t.Errorf("nouuid: %t", nouuid)
			}
			v.Data = "written"
			for range 2 {
				must(t, c.unpublish(t, handle, "pod/a"))
				must(t, c.unpublish(t, handle, "pod/b"))
				must(t, c.unstage(t, handle))
			}
			c.wantMounts(t)
			if entries, _ := os.ReadDir(filepath.Join(c.dir, "pod")); len(entries) != 0 {
				t.Errorf("left: %v", entries)
			}
			must(t, c.stage(t, handle, want))
			if v.Data != "written" {
				t.Error("the data is gone")
			}
		})
	}
}

func TestNode_blockLife(t *testing.T) {
	c, v, handle := newNode(t)
	// It was zeroed when it was made.
	v.Content = ""
	for range 2 {
		must(t, c.stage(t, handle, block()))
		must(t, c.publish(t, handle, "pod/dev", block(), false))
	}
	c.wantMounts(t, "pod/dev")
	if v.New || v.Content != "" {
		t.Errorf("a new volume is still new, or shows something: %+v", v)
	}
	v.Content = csitest.Garbage
	stats, err := c.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: handle, VolumePath: c.path(t, "pod/dev")})
	must(t, err)
	if len(stats.GetUsage()) != 1 || stats.GetUsage()[0].GetTotal() != gib {
		t.Errorf("stats are %v", stats)
	}
	v.Size = 2 * gib
	grown, err := c.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{
		VolumeId: handle, VolumePath: c.path(t, "staging/globalmount"), VolumeCapability: block(),
	})
	must(t, err)
	if grown.GetCapacityBytes() != 2*gib {
		t.Errorf("capacity is %d", grown.GetCapacityBytes())
	}
	must(t, c.unpublish(t, handle, "pod/dev"))
	must(t, c.unstage(t, handle))
	c.wantMounts(t)
	must(t, c.stage(t, handle, block()))
	if v.Content != csitest.Garbage {
		t.Error("the data is gone")
	}
	wantCode(t, c.stage(t, handle, filesystem("ext4")), codes.FailedPrecondition)
	if v.Content != csitest.Garbage {
		t.Error("unknown data was formatted")
	}
}

func TestNode_neverFormatsWhatHoldsData(t *testing.T) {
	for name, content := range map[string]string{
		"another filesystem": "xfs", "an encrypted device": "crypto_LUKS", "partitions": "unknown data, probably partitions",
		"unknown data": csitest.Garbage,
	} {
		t.Run(name, func(t *testing.T) {
			c, v, handle := newNode(t)
			v.New, v.Content = false, content
			wantCode(t, c.stage(t, handle, filesystem("ext4")), codes.FailedPrecondition)
			if v.Content != content {
				t.Errorf("content is %q", v.Content)
			}
			c.wantMounts(t)
		})
	}
}

func TestNode_activatesAfterRestart(t *testing.T) {
	c, v, handle := newNode(t)
	must(t, c.stage(t, handle, filesystem("ext4")))
	v.Data = "written"
	c.stop()
	c.host.Restart()
	c = start(t, c.host)
	must(t, c.stage(t, handle, filesystem("ext4")))
	if !v.Active || v.Data != "written" {
		t.Errorf("volume is %+v", v)
	}
	c.wantMounts(t, "staging/globalmount")
}

func TestNode_publishesAloneOnce(t *testing.T) {
	c, _, handle := newNode(t)
	want := alone(filesystem("ext4"))
	must(t, c.stage(t, handle, want))
	must(t, c.publish(t, handle, "pod/a", want, false))
	must(t, c.publish(t, handle, "pod/a", want, false))
	wantCode(t, c.publish(t, handle, "pod/b", want, false), codes.FailedPrecondition)
	must(t, c.unpublish(t, handle, "pod/a"))
	must(t, c.publish(t, handle, "pod/b", want, false))
}

func TestNode_refusesWhatDoesNotFit(t *testing.T) {
	c, _, handle := newNode(t)
	wantCode(t, c.publish(t, handle, "pod/a", filesystem("ext4"), false), codes.FailedPrecondition)
	must(t, c.stage(t, handle, filesystem("ext4")))
	must(t, c.publish(t, handle, "pod/a", filesystem("ext4"), true))
	wantCode(t, c.publish(t, handle, "pod/a", filesystem("ext4"), false), codes.AlreadyExists)
	wantCode(t, c.publish(t, handle, "pod/a", block(), false), codes.AlreadyExists)
	wantCode(t, c.stage(t, handle, filesystem("xfs")), codes.AlreadyExists)
	wantCode(t, c.stage(t, handle, filesystem("ext4", "ro")), codes.AlreadyExists)
	wantCode(t, c.stage(t, handle, block()), codes.AlreadyExists)

	other := csitest.ID("pvc-2")
	c.host.Add(other, gib)
	wantCode(t, c.stage(t, other.String(), filesystem("ext4")), codes.AlreadyExists)
	wantCode(t, c.unpublish(t, other.String(), "pod/a"), codes.FailedPrecondition)
	wantCode(t, c.unstage(t, other.String()), codes.FailedPrecondition)
	c.wantMounts(t, "staging/globalmount", "pod/a (ro)")
}

func TestNode_volumesThatAreNotThere(t *testing.T) {
	c, v, handle := newNode(t)
	v.ID = "other"
	wantCode(t, c.stage(t, handle, filesystem("ext4")), codes.NotFound)
	if !v.New {
		t.Error("a volume of somebody else was touched")
	}
	elsewhere := volumeid.ID{Node: "node-2", Group: "vg", Name: volumeid.Name("pvc-1")}
	snapshot := volumeid.ID{Node: csitest.NodeName, Group: "vg", Name: volumeid.Snapshot("s")}
	absent := csitest.ID("absent").String()
	for _, h := range []string{absent, elsewhere.String(), "vg/lv", "../../etc", "$(reboot)", "--force/vg/lv"} {
		wantCode(t, c.stage(t, h, filesystem("ext4")), codes.NotFound)
	}
	for _, h := range []string{elsewhere.String(), "vg/lv", "../../etc", "$(reboot)"} {
		wantCode(t, c.unstage(t, h), codes.NotFound)
		wantCode(t, c.unpublish(t, h, "pod/a"), codes.NotFound)
		wantCode(t, c.publish(t, h, "pod/a", filesystem("ext4"), false), codes.NotFound)
	}
	wantCode(t, c.stage(t, snapshot.String(), filesystem("ext4")), codes.InvalidArgument)
	// What is gone was unpublished and unstaged.
	wantCode(t, c.unpublish(t, absent, "pod/a"), codes.OK)
	wantCode(t, c.unstage(t, absent), codes.OK)
}

func TestNode_unmountThatFailsIsReported(t *testing.T) {
	c, _, handle := newNode(t)
	must(t, c.stage(t, handle, filesystem("ext4")))
	must(t, c.publish(t, handle, "pod/a", filesystem("ext4"), false))
	c.host.Before = func(effect string) error {
		if strings.HasPrefix(effect, "unmount") {
			return unix.EBUSY
		}
		return nil
	}
	wantCode(t, c.unpublish(t, handle, "pod/a"), codes.Internal)
	wantCode(t, c.unstage(t, handle), codes.Internal)
	c.wantMounts(t, "staging/globalmount", "pod/a")
	c.host.Before = nil
	must(t, c.unpublish(t, handle, "pod/a"))
	must(t, c.unstage(t, handle))
	c.wantMounts(t)
}

func TestNode_expandsOnline(t *testing.T) {
	c, v, handle := newNode(t)
	must(t, c.stage(t, handle, filesystem("ext4")))
	must(t, c.publish(t, handle, "pod/a", filesystem("ext4"), true))
	expand := func(path string, size int64) error {
		_, err := c.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{
			VolumeId: handle, VolumePath: path, CapacityRange: &csi.CapacityRange{RequiredBytes: size},
		})
		return err
	}
	wantCode(t, expand(c.path(t, "pod/a"), 2*gib), codes.OutOfRange)
	v.Size = 2 * gib
	wantCode(t, expand(c.path(t, "pod/b"), 2*gib), codes.NotFound)
	must(t, expand(c.path(t, "pod/a"), 2*gib))
	if v.Files != 2*gib {
		t.Errorf("the filesystem has %d bytes", v.Files)
	}
	// A volume that grew while it was not in use gets its size when it is staged.
	must(t, c.unpublish(t, handle, "pod/a"))
	must(t, c.unstage(t, handle))
	v.Size = 3 * gib
	must(t, c.stage(t, handle, filesystem("ext4")))
	if v.Files != 3*gib {
		t.Errorf("the filesystem has %d bytes", v.Files)
	}
}

func TestNode_tellsWhatIsWrong(t *testing.T) {
	c, v, handle := newNode(t)
	must(t, c.stage(t, handle, filesystem("ext4")))
	stats := func() *csi.NodeGetVolumeStatsResponse {
		t.Helper()
		s, err := c.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: handle, VolumePath: c.path(t, "staging/globalmount")})
		must(t, err)
		return s
	}
	if s := stats(); s.GetVolumeCondition().GetAbnormal() || len(s.GetUsage()) != 2 {
		t.Errorf("stats are %v", s)
	}
	device, err := c.host.Find("vg", csitest.ID("pvc-1").Name)
	must(t, err)
	c.host.Mounter.Freeze(mount.Device{Major: device.Major, Minor: device.Minor})
	if s := stats(); !s.GetVolumeCondition().GetAbnormal() {
		t.Errorf("stats are %v", s)
	}
	c.host.Before = func(string) error { return unix.EIO }
	if s := stats(); !s.GetVolumeCondition().GetAbnormal() || s.GetUsage()[0].GetTotal() != v.Size {
		t.Errorf("stats are %v", s)
	}
}

// effects runs a call and returns what it did to the node.
func (c *client) effects(t *testing.T, call func() error) []string {
	t.Helper()
	var out []string
	c.host.Before = func(effect string) error {
		out = append(out, effect)
		return nil
	}
	defer func() { c.host.Before = nil }()
	must(t, call())
	return out
}

// TestNode_firstStageDoesNothingTwice: a filesystem that was just made is neither checked nor grown.
func TestNode_firstStageDoesNothingTwice(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		c, _, handle := newNode(t)
		want := []string{"clear", "format", "settle", "mount globalmount"}
		if diff := cmp.Diff(want, c.effects(t, func() error { return c.stage(t, handle, filesystem(fsType)) })); diff != "" {
			t.Errorf("%s: first use (-want +got):\n%s", fsType, diff)
		}
		must(t, c.unstage(t, handle))
		want = []string{"check", "mount globalmount", "grow"}
		if diff := cmp.Diff(want, c.effects(t, func() error { return c.stage(t, handle, filesystem(fsType)) })); diff != "" {
			t.Errorf("%s: later (-want +got):\n%s", fsType, diff)
		}
	}
}

// TestNode_restageBesideItsPod: the staging mount is gone, and the pod's is left.
func TestNode_restageBesideItsPod(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		c, v, handle := newNode(t)
		want := filesystem(fsType)
		must(t, c.stage(t, handle, want))
		must(t, c.publish(t, handle, "pod/a", want, false))
		must(t, c.host.Mounter.Unmount(c.path(t, "staging/globalmount")))
		v.UUID = "another"
		did := c.effects(t, func() error { return c.stage(t, handle, want) })
		if diff := cmp.Diff([]string{"mount globalmount", "grow"}, did); diff != "" {
			t.Errorf("%s (-want +got):\n%s", fsType, diff)
		}
		c.wantMounts(t, "pod/a", "staging/globalmount")
	}
}

// TestNode_blankUsedVolume: a volume that was used and shows nothing has lost its mapping, not its data.
func TestNode_blankUsedVolume(t *testing.T) {
	c, v, handle := newNode(t)
	must(t, c.stage(t, handle, filesystem("ext4")))
	must(t, c.unstage(t, handle))
	v.Content, v.UUID = "", ""
	err := c.stage(t, handle, filesystem("ext4"))
	wantCode(t, err, codes.FailedPrecondition)
	if v.Content != "" || !strings.Contains(err.Error(), "was used before") {
		t.Errorf("content %q, %v", v.Content, err)
	}
	c.wantMounts(t)
}

// TestNode_markOfANewVolumeIsNotTrusted: what was written after a volume was made is not written over, whatever its tag says.
func TestNode_markOfANewVolumeIsNotTrusted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*csitest.Volume)
		want   *csi.VolumeCapability
		code   codes.Code
		keeps  bool
	}{
		"its own filesystem":                     {func(v *csitest.Volume) { v.New = true }, filesystem("ext4"), codes.OK, true},
		"its own filesystem, of another type":    {func(v *csitest.Volume) { v.New = true }, filesystem("xfs"), codes.FailedPrecondition, true},
		"a younger one of another volume":        {func(v *csitest.Volume) { v.New, v.UUID = true, "other" }, filesystem("ext4"), codes.FailedPrecondition, true},
		"one whose age nobody knows":             {func(v *csitest.Volume) { v.New, v.UUID, v.Made = true, "other", 0 }, filesystem("ext4"), codes.FailedPrecondition, true},
		"a volume whose age nobody knows":        {func(v *csitest.Volume) { v.New, v.UUID, v.Created = true, "other", 0 }, filesystem("ext4"), codes.FailedPrecondition, true},
		"what an earlier volume left":            {func(v *csitest.Volume) { v.New, v.UUID, v.Made = true, "other", 5 }, filesystem("ext4"), codes.OK, false},
		"encrypted, by whom nobody knows":        {func(v *csitest.Volume) { v.New, v.Content, v.UUID, v.Made = true, "crypto_LUKS", "", 0 }, block(), codes.FailedPrecondition, true},
		"raw content where only zeroes were":     {func(v *csitest.Volume) { v.New, v.Thin, v.Content = true, true, csitest.Garbage }, block(), codes.OK, true},
		"any filesystem where only zeroes were":  {func(v *csitest.Volume) { v.New, v.Thin, v.UUID, v.Made = true, true, "other", 0 }, filesystem("ext4"), codes.OK, true},
		"the remains of mkfs on a thin volume":   {func(v *csitest.Volume) { v.New, v.Thin, v.Content = true, true, csitest.Garbage }, filesystem("ext4"), codes.OK, false},
		"raw content":                            {func(v *csitest.Volume) { v.New, v.Content = true, csitest.Garbage }, block(), codes.OK, true},
		"an image that is older than the volume": {func(v *csitest.Volume) { v.New, v.UUID, v.Made = true, "other", 5 }, block(), codes.OK, true},
		"younger than the volume, raw":           {func(v *csitest.Volume) { v.New, v.UUID = true, "other" }, block(), codes.FailedPrecondition, true},
		"what the disk showed before, formatted": {func(v *csitest.Volume) { v.New, v.Content = true, csitest.Garbage }, filesystem("ext4"), codes.OK, false},
	} {
		t.Run(name, func(t *testing.T) {
			n, v, handle := newNode(t)
			must(t, n.stage(t, handle, filesystem("ext4")))
			must(t, n.unstage(t, handle))
			v.Data = "written"
			c.change(v)
			content := v.Content
			if err := n.stage(t, handle, c.want); c.code == codes.OK {
				must(t, err)
			} else {
				wantCode(t, err, c.code)
			}
			if kept := v.Data == "written" && v.Content == content; kept != c.keeps {
				t.Errorf("%+v", v)
			}
		})
	}
}

// TestNode_copyGetsItsOwnUUID before it is mounted, once: two btrfs with one UUID cannot be mounted beside each other.
func TestNode_copyGetsItsOwnUUID(t *testing.T) {
	c, source, _ := newNode(t)
	id := csitest.ID("pvc-2")
	v := c.host.Add(id, gib)
	v.New, v.Content, v.UUID = false, "btrfs", "that of its source"
	for _, want := range [][]string{{"own", "check", "mount globalmount", "grow"}, {"check", "mount globalmount", "grow"}} {
		did := c.effects(t, func() error { return c.stage(t, id.String(), filesystem("btrfs")) })
		if diff := cmp.Diff(want, did); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		must(t, c.unstage(t, id.String()))
	}
	must(t, c.stage(t, csitest.ID("pvc-1").String(), filesystem("btrfs")))
	if v.UUID == source.UUID || source.UUID == "" {
		t.Errorf("%q and %q", v.UUID, source.UUID)
	}
}

// TestNode_thinVolumesDiscard: space that files give up goes back to the pool, unless the options say otherwise. Linear volumes have no pool.
func TestNode_thinVolumesDiscard(t *testing.T) {
	for name, tt := range map[string]struct {
		linear bool
		fsType string
		flags  []string
		want   string
	}{
		"ext4":                          {fsType: "ext4", want: "discard"},
		"xfs":                           {fsType: "xfs", want: "nouuid,discard"},
		"btrfs, in the background":      {fsType: "btrfs", want: "discard=async"},
		"beside other options":          {fsType: "ext4", flags: []string{"commit=10"}, want: "commit=10,discard"},
		"asked for already":             {fsType: "ext4", flags: []string{"discard"}, want: "discard"},
		"asked for in another way":      {fsType: "btrfs", flags: []string{"discard=sync"}, want: "discard=sync"},
		"not wanted":                    {fsType: "ext4", flags: []string{"nodiscard"}, want: "nodiscard"},
		"not for what nobody may write": {fsType: "ext4", flags: []string{"ro"}},
		"not for a linear volume":       {fsType: "ext4", linear: true},
	} {
		t.Run(name, func(t *testing.T) {
			c, v, handle := newNode(t)
			v.Thin, v.New, v.Content = !tt.linear, false, tt.fsType
			must(t, c.stage(t, handle, filesystem(tt.fsType, tt.flags...)))
			if got := c.host.Mounter.Data(filepath.Join(c.dir, "staging/globalmount")); got != tt.want {
				t.Errorf("mounted with %q, want %q", got, tt.want)
			}
		})
	}
}

// TestNode_mkfsOptions: those on record with the volume count, and others are refused before anything is written.
func TestNode_mkfsOptions(t *testing.T) {
	c, v, handle := newNode(t)
	stage := func(options string) error {
		_, err := c.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
			VolumeId: handle, StagingTargetPath: c.path(t, "staging/globalmount"), VolumeCapability: filesystem("ext4"),
			VolumeContext: map[string]string{quarry.AttributeMkfsOptions: options},
		})
		return err
	}
	did := c.effects(t, func() error {
		wantCode(t, stage("-F"), codes.InvalidArgument)
		return nil
	})
	if len(did) > 0 || v.Content != csitest.Garbage {
		t.Errorf("%q; %+v", did, v)
	}
	must(t, stage("-i 65536; -m 1"))
	if diff := cmp.Diff([]string{"-i 65536", "-m 1"}, v.Options); diff != "" {
		t.Error(diff)
	}
}
