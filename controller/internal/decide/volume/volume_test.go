package volume

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

func TestRange_Size(t *testing.T) {
	const extent = 4 << 20
	for name, c := range map[string]struct {
		r    Range
		want int64
		kind Kind
	}{
		"no wish":                   {Range{}, DefaultSize, 0},
		"a multiple":                {Range{Given: true, Required: gib}, gib, 0},
		"rounded up":                {Range{Given: true, Required: 1}, extent, 0},
		"only a large limit":        {Range{Given: true, Limit: 5 * gib}, DefaultSize, 0},
		"only a small limit":        {Range{Given: true, Limit: extent + 1}, extent, 0},
		"a limit below one extent":  {Range{Given: true, Limit: extent - 1}, 0, OutOfRange},
		"no extent within":          {Range{Given: true, Required: extent + 1, Limit: extent + 2}, 0, OutOfRange},
		"limit below what is asked": {Range{Given: true, Required: 2, Limit: 1}, 0, OutOfRange},
		"zero":                      {Range{Given: true}, 0, Invalid},
		"negative":                  {Range{Given: true, Required: -1}, 0, Invalid},
		"negative limit":            {Range{Given: true, Limit: -1}, 0, Invalid},
		"the largest number":        {Range{Given: true, Required: math.MaxInt64}, 0, OutOfRange},

		"less than xfs takes":                {Range{Given: true, Required: 1, Filesystem: "xfs"}, 300 << 20, 0},
		"less than btrfs takes":              {Range{Given: true, Required: 100 << 20, Filesystem: "btrfs"}, 112 << 20, 0},
		"ext4 takes one extent":              {Range{Given: true, Required: 1, Filesystem: "ext4"}, extent, 0},
		"more than xfs needs":                {Range{Given: true, Required: 301 << 20, Filesystem: "xfs"}, 304 << 20, 0},
		"what xfs needs is the limit":        {Range{Given: true, Required: 1, Limit: 300 << 20, Filesystem: "xfs"}, 300 << 20, 0},
		"only a limit, enough for xfs":       {Range{Given: true, Limit: 2 * gib, Filesystem: "xfs"}, DefaultSize, 0},
		"a limit below what xfs needs":       {Range{Given: true, Required: 1, Limit: 300<<20 - 1, Filesystem: "xfs"}, 0, OutOfRange},
		"only a limit below what xfs needs":  {Range{Given: true, Limit: 200 << 20, Filesystem: "xfs"}, 0, OutOfRange},
		"a limit of no whole extent of need": {Range{Given: true, Limit: 110 << 20, Filesystem: "btrfs"}, 0, OutOfRange},
		"no wish and xfs":                    {Range{Filesystem: "xfs"}, DefaultSize, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.r.Size(extent)
			if got != c.want || kindOf(err) != c.kind {
				t.Errorf("%d, %v", got, err)
			}
		})
	}
	if err := (Range{Limit: 1}).Holds(2); kindOf(err) != OutOfRange {
		t.Error(err)
	}
	if err := (Range{}).Holds(2); err != nil {
		t.Error(err)
	}
}

func TestRange_limitBelowFilesystemSaysWhy(t *testing.T) {
	err := Range{Given: true, Required: 64 << 20, Limit: 128 << 20, Filesystem: "xfs"}.Check()
	if want := "limit of 134217728 bytes is below the 300Mi that a filesystem of type xfs needs at least"; err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestFilesystem(t *testing.T) {
	mount := func(fs string) Capability { return Capability{Mount: true, FSType: fs} }
	for name, c := range map[string]struct {
		in   []Capability
		want string
	}{
		"none":                            {nil, ""},
		"a raw device":                    {[]Capability{{Block: true, FSType: "xfs"}}, ""},
		"no type":                         {[]Capability{mount("")}, "ext4"},
		"one type":                        {[]Capability{mount("btrfs")}, "btrfs"},
		"the one that needs most, first":  {[]Capability{mount("xfs"), mount("btrfs"), {Block: true}}, "xfs"},
		"the one that needs most, second": {[]Capability{mount(""), mount("btrfs")}, "btrfs"},
	} {
		if got := Filesystem(c.in); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	const uid, pool, percent = v1alpha1.ParameterCluster, v1alpha1.ParameterThinPool, v1alpha1.ParameterOverprovision
	for name, c := range map[string]struct {
		in   map[string]string
		want Parameters
		says string
	}{
		"nothing": {},
		"all that is known": {
			in: map[string]string{
				uid: "u", pool: "thin", percent: "150", "csi.storage.k8s.io/fstype": "xfs", "csi.storage.k8s.io/pvc/name": "p",
				"csi.storage.k8s.io/pvc/namespace": "n", "csi.storage.k8s.io/pv/name": "v",
			},
			want: Parameters{Cluster: "u", Thin: Thin{Pool: "thin", Percent: 150}},
		},
		"thin without a bound":  {in: map[string]string{pool: "thin"}, want: Parameters{Thin: Thin{Pool: "thin"}}},
		"unknown ones":          {in: map[string]string{"b": "", "a$(x)": "", uid: "u"}, says: `unknown parameters: "a$(x)", "b"`},
		"an unknown filesystem": {in: map[string]string{"csi.storage.k8s.io/fstype": "zfs"}, says: `filesystem "zfs"`},
		"an empty Cluster":      {in: map[string]string{uid: ""}, says: "is empty"},
		"an option as pool":     {in: map[string]string{pool: "-x"}, says: "no name of a thin pool"},
		"a path as pool":        {in: map[string]string{pool: "../x"}, says: "no name of a thin pool"},
		"a bound without pool":  {in: map[string]string{percent: "100"}, says: "goes with"},
		"a bound of nothing":    {in: map[string]string{pool: "p", percent: "0"}, says: "no number of percent"},
		"a bound in words":      {in: map[string]string{pool: "p", percent: "a lot"}, says: "no number of percent"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.in)
			switch {
			case c.says == "" && err != nil, c.says != "" && (kindOf(err) != Invalid || !strings.Contains(err.Error(), c.says)):
				t.Errorf("error is %v, want %q", err, c.says)
			case err == nil && cmp.Diff(c.want, got) != "":
				t.Error(cmp.Diff(c.want, got))
			}
		})
	}
	if err := ParseSnapshot(map[string]string{"csi.storage.k8s.io/volumesnapshot/name": "s"}); err != nil {
		t.Error(err)
	}
	if err := ParseSnapshot(map[string]string{"x": "s"}); kindOf(err) != Invalid {
		t.Error(err)
	}
}

func TestCheckCapabilities(t *testing.T) {
	one := Capability{Mount: true, Mode: "RWO", SingleNode: true}
	edit := func(change func(*Capability)) []Capability {
		c := one
		change(&c)
		return []Capability{one, c}
	}
	for name, c := range map[string]struct {
		in []Capability
		ok bool
	}{
		"a filesystem":       {[]Capability{one}, true},
		"btrfs":              {edit(func(c *Capability) { c.FSType = "btrfs" }), true},
		"a raw device":       {edit(func(c *Capability) { c.Block, c.Mount = true, false }), true},
		"none":               {nil, false},
		"neither":            {edit(func(c *Capability) { c.Mount = false }), false},
		"both":               {edit(func(c *Capability) { c.Block = true }), false},
		"no mode":            {edit(func(c *Capability) { c.Mode = "" }), false},
		"many nodes":         {edit(func(c *Capability) { c.SingleNode = false }), false},
		"another filesystem": {edit(func(c *Capability) { c.FSType = strings.Repeat("x", 100) }), false},
	} {
		if err := CheckCapabilities(c.in); (err == nil) != c.ok || !c.ok && kindOf(err) != Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRoom(t *testing.T) {
	pool := decide.ThinPool{Name: "thin", SizeBytes: 10 * gib, VirtualBytes: 5 * gib, DataPermyriad: 2500}
	pooled := func(edit func(*decide.ThinPool)) Host {
		p := pool
		edit(&p)
		return with(host("a", 1), func(h *Host) { h.Group.Pools = []decide.ThinPool{p} })
	}
	bounded := Class{Thin: Thin{Pool: "thin", Percent: 200}}
	for name, c := range map[string]struct {
		class Class
		h     Host
		want  int64
	}{
		"linear":               {Class{}, host("a", 7), 7 * gib},
		"not whole extents":    {Class{}, with(host("a", 0), func(h *Host) { h.Group.FreeBytes = gib + 1 }), gib},
		"quiesced":             {Class{}, with(host("a", 7), func(h *Host) { h.State = nodestate.Quiesced }), 0},
		"being deleted":        {Class{Deleting: true}, host("a", 7), 0},
		"up to the limit":      {bounded, pooled(func(*decide.ThinPool) {}), 15 * gib},
		"over the limit":       {bounded, pooled(func(p *decide.ThinPool) { p.VirtualBytes = 30 * gib }), 0},
		"no data room":         {bounded, pooled(func(p *decide.ThinPool) { p.DataPermyriad = 10000 }), 0},
		"no metadata room":     {bounded, pooled(func(p *decide.ThinPool) { p.MetadataPermyriad = 9500 }), 0},
		"without a limit":      {Class{Thin: Thin{Pool: "thin"}}, pooled(func(*decide.ThinPool) {}), 15 * gib / 2},
		"no pool":              {bounded, host("a", 7), 0},
		"more than any number": {Class{Thin: Thin{Pool: "thin", Percent: 100_000}}, pooled(func(p *decide.ThinPool) { p.SizeBytes, p.VirtualBytes = math.MaxInt64, 0 }), math.MaxInt64 / (4 << 20) * (4 << 20)},
	} {
		if got := Room(c.class, c.h); got.Available != c.want || got.Largest != c.want {
			t.Errorf("%s: %+v, want %d", name, got, c.want)
		}
	}
	sum := Capacity{}.Plus(Capacity{Available: 5, Largest: 5, Smallest: 2}).Plus(Capacity{}).Plus(Capacity{Available: 7, Largest: 7, Smallest: 1})
	if want := (Capacity{Available: 12, Largest: 7, Smallest: 1}); sum != want {
		t.Errorf("sum is %+v", sum)
	}
	if got := (Capacity{Available: math.MaxInt64}).Plus(Capacity{Available: 1}); got.Available != math.MaxInt64 {
		t.Errorf("sum is %+v", got)
	}
}

func TestHostOf(t *testing.T) {
	c := &v1alpha1.Cluster{}
	c.Name, c.UID = "pool", "u"
	c.Spec.Hosts = []v1alpha1.HostName{"b", "a"}
	c.Spec.LVM = &v1alpha1.LVMSpec{ThinPool: &v1alpha1.ThinPoolSpec{OverprovisionRatio: "1.5"}}
	c.Status.Members = []v1alpha1.ClusterMember{{Node: "gone"}, {Node: "a"}}
	n := decide.Node{Name: "a", Agent: decide.AgentUp, Groups: []decide.Group{{Name: "x", OwnerUID: "u"}, {Name: "quarry-pool", OwnerUID: "u"}}}
	if diff := cmp.Diff([]string{"a", "b", "gone"}, HostNames(c)); diff != "" {
		t.Error(diff)
	}
	if h := HostOf(c, n, false); h.State != nodestate.Online || h.Group == nil || h.Group.Name != "quarry-pool" {
		t.Errorf("%+v", h)
	}
	if h := HostOf(c, n, true); h.State != nodestate.Quiesced {
		t.Errorf("%+v", h)
	}
	if h := HostOf(c, decide.Node{Name: "gone", Agent: decide.AgentUp}, false); h.State != nodestate.Abandoned || h.Group != nil {
		t.Errorf("%+v", h)
	}
	want := Class{Cluster: "pool", Owner: "u", Group: "quarry-pool", Thin: Thin{Pool: v1alpha1.ThinPoolName, Percent: 150}}
	if diff := cmp.Diff(want, ClassOf(c)); diff != "" {
		t.Error(diff)
	}
	c.Spec.LVM = &v1alpha1.LVMSpec{VolumeGroup: "vg"}
	if got := ClassOf(c); got.Group != "vg" || got.Thin != (Thin{}) {
		t.Errorf("%+v", got)
	}
}

func TestConditionOf(t *testing.T) {
	n := decide.Node{Name: "a", Groups: []decide.Group{{Name: "vg", Partial: true}, {Name: "ok"}}}
	for name, c := range map[string]struct {
		got      Condition
		abnormal bool
		says     string
	}{
		"partial": {ConditionOf(n, decide.Volume{Group: "vg"}), true, "is missing"},
		"sick":    {ConditionOf(n, decide.Volume{Group: "ok", Health: "ill"}), true, "ill"},
		"well":    {ConditionOf(n, decide.Volume{Group: "ok"}), false, "nothing is wrong"},
		"away":    {Away(n), true, "does not answer"},
	} {
		if c.got.Abnormal != c.abnormal || !strings.Contains(c.got.Message, c.says) {
			t.Errorf("%s: %+v", name, c.got)
		}
	}
}
