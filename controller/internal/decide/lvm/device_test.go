package lvm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/pvuuid"
)

// inStatus returns an edit that shows devices in the status of a Member.
func inStatus(names ...string) func(*v1alpha1.Member) {
	return func(m *v1alpha1.Member) {
		for _, n := range names {
			d := v1alpha1.MemberDevice{Path: n, Size: resource.MustParse("1Gi"), State: v1alpha1.DevicePresent}
			if !strings.HasPrefix(n, missingPrefix) {
				d.Path, d.Identity = "/dev/disk/by-id/"+n, "S"+n
			}
			m.Status.Devices = append(m.Status.Devices, d)
		}
	}
}

func showDevices(devices []v1alpha1.MemberDevice) string {
	if devices == nil {
		return "as before"
	}
	var parts []string
	for _, d := range devices {
		parts = append(parts, fmt.Sprintf("%s %s %s %s", strings.TrimPrefix(d.Path, "/dev/disk/by-id/"), d.Identity, d.Size.String(), d.State))
	}
	return strings.Join(parts, ", ")
}

func TestDevices(t *testing.T) {
	gone := func(uuids ...string) decide.Group {
		g := groupOf("A", "sda")
		g.Partial = true
		for _, u := range uuids {
			g.PVs = append(g.PVs, decide.PV{UUID: u, SizeBytes: 2 << 30})
		}
		return g
	}
	sda := device("sda")
	sda.SizeBytes, sda.WWN = 3<<30, "wwn-a"
	// What an agent of this version gave to sdb.
	made := pvuuid.Complete(pvuuid.Stem("uid", pvuuid.Disk{Serial: "Ssdb", SizeBytes: 1 << 30}, "/dev/disk/by-id/sdb"))
	for name, c := range map[string]struct {
		group  []decide.Group
		status []string
		want   string
	}{
		"nothing":                               {nil, nil, ""},
		"those of the group":                    {[]decide.Group{groupOf("A", "sdb", "sda")}, nil, "sda wwn-a 3Gi present, sdb  1Gi present"},
		"what is gone for good is not shown":    {[]decide.Group{groupOf("A", "sda")}, []string{"sda", "sdb"}, "sda wwn-a 3Gi present"},
		"a missing one under the path it had":   {[]decide.Group{gone("x")}, []string{"sda", "sdb"}, "sda wwn-a 3Gi present, sdb Ssdb 1Gi missing"},
		"all missing ones":                      {[]decide.Group{gone("x", "y")}, []string{"sda", "sdb", "sdc"}, "sda wwn-a 3Gi present, sdb Ssdb 1Gi missing, sdc Ssdc 1Gi missing"},
		"a missing one that nothing tells of":   {[]decide.Group{gone("x")}, nil, "sda wwn-a 3Gi present, missing:x  2Gi missing"},
		"it stays what it was called":           {[]decide.Group{gone("x")}, []string{"sda", "missing:x"}, "sda wwn-a 3Gi present, missing:x  1Gi missing"},
		"fewer paths than missing ones":         {[]decide.Group{gone("x", "y")}, []string{"sdb"}, "sda wwn-a 3Gi present, sdb Ssdb 1Gi missing, missing:y  2Gi missing"},
		"more paths than missing ones":          {[]decide.Group{gone("x")}, []string{"sdb", "sdc"}, "sda wwn-a 3Gi present, missing:x  2Gi missing"},
		"more paths, but the UUID proves which": {[]decide.Group{gone(made)}, []string{"sdc", "sdb"}, "sda wwn-a 3Gi present, sdb Ssdb 1Gi missing"},
		"one that came back is not missing":     {[]decide.Group{groupOf("A", "sda")}, []string{"missing:x"}, "sda wwn-a 3Gi present"},
		"the whole group is not seen":           {nil, []string{"sda", "sdb", "sdz"}, "sda Ssda 1Gi missing, sdb Ssdb 1Gi missing, sdz Ssdz 1Gi present"},
	} {
		t.Run(name, func(t *testing.T) {
			edits := []func(*v1alpha1.Member){inStatus(c.status...)}
			if name != "nothing" {
				edits = append(edits, records("A"))
			}
			s := scene{node: up("n1", c.group, sda, device("sdz")), object: memberOf(clusterOf(), edits...)}
			got := s.decide()
			if d := cmp.Diff(c.want, showDevices(got.Devices)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if got.Devices == nil || !got.Reports || !got.Watched {
				t.Error("an empty list is not told from one that is not known")
			}
		})
	}
	for name, n := range map[string]decide.Node{"away": away(groupOf("A", "sdb")), "without LVM": {Agent: decide.AgentUp, LVMError: "x"}} {
		got := scene{node: n, object: memberOf(clusterOf(), records("A"), inStatus("sda"))}.decide()
		if showDevices(got.Devices) != "sda Ssda 1Gi present" || got.Reports || got.Watched || got.Size != 0 {
			t.Errorf("%s: %+v", name, got)
		}
		if got := (scene{node: n}).decide(); got.Devices != nil {
			t.Errorf("%s: %+v", name, got.Devices)
		}
	}
}

func TestMeasure(t *testing.T) {
	one, two := groupOf("A", "sda"), groupOf("B", "sdb")
	one.Volumes = []string{"v1", "v2"}
	one.Pools = []decide.ThinPool{{Name: "p", SizeBytes: 2 << 30, DataPermyriad: 2500, MetadataPermyriad: 199, VirtualBytes: 5 << 30}}
	s := scene{node: up("n1", []decide.Group{one, two}), object: memberOf(clusterOf(), records("A"))}
	got := s.decide()
	// The groups have 4 GiB free each, and the pool three quarters of its 2 GiB, in whole MiB.
	if got.Size != 20<<30 || got.Free != 8<<30+1536<<20 || got.Volumes != 2 || !got.Reports {
		t.Errorf("%+v", got)
	}
	if p := got.ThinPool; p == nil || p.Name != "p" || *p.DataPercent != 25 || *p.MetadataPercent != 1 || p.Provisioned.Value() != 5<<30 {
		t.Errorf("%+v", got.ThinPool)
	}
	// While the host does not report, the pool is what was reported last.
	s.object.Status.ThinPool = &v1alpha1.ThinPoolUsage{Name: "p", DataPercent: new(int32(99))}
	s.node = away(one)
	if got := s.decide(); got.Reports || got.ThinPool == nil || *got.ThinPool.DataPercent != 99 || got.Volumes != 0 {
		t.Errorf("%+v", got)
	}
}

// TestMeasure_poolUsage: a warning begins at 80 %, and ends below 75 %. What is not known is not zero, and counts as no room.
func TestMeasure_poolUsage(t *testing.T) {
	full := &v1alpha1.ThinPoolUsage{Name: "p", DataPercent: new(int32(80)), MetadataPercent: new(int32(1)), NearlyFull: true}
	for name, c := range map[string]struct {
		before         *v1alpha1.ThinPoolUsage
		data, metadata int32
		unknown, want  bool
	}{
		"little":                          {nil, 79, 1, false, false},
		"much data":                       {nil, 80, 1, false, true},
		"much metadata":                   {nil, 1, 80, false, true},
		"a little less than a moment ago": {full, 79, 1, false, true},
		"still between the two limits":    {full, 75, 1, false, true},
		"room again":                      {full, 74, 1, false, false},
		"another pool was full":           {&v1alpha1.ThinPoolUsage{Name: "q", NearlyFull: true}, 79, 1, false, false},
		"not known, and was full":         {full, 0, 0, true, true},
		"not known, and was not full":     {nil, 0, 0, true, false},
	} {
		one := groupOf("A", "sda")
		one.Pools = []decide.ThinPool{{Name: "p", SizeBytes: 2 << 30, DataPermyriad: c.data * 100, MetadataPermyriad: c.metadata * 100, UsageUnknown: c.unknown}}
		s := scene{node: up("n1", []decide.Group{one}), object: memberOf(clusterOf(), records("A"))}
		s.object.Status.ThinPool = c.before
		got := s.decide()
		if p := got.ThinPool; p.NearlyFull != c.want || p.Known() == c.unknown || c.unknown && (p.DataPercent != nil || got.Free != one.FreeBytes) {
			t.Errorf("%s: %+v, free %d", name, p, got.Free)
		}
	}
}
