package volume

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const gib = 1 << 30

// offer is what devices that one node holds are capable of.
var offer = Offer{Block: true, Filesystems: []string{"ext4", "xfs", "btrfs"}}

func kindOf(err error) Kind {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Kind
	}
	return 0
}

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

func TestOffer_CheckAll(t *testing.T) {
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
		if err := offer.CheckAll(c.in); (err == nil) != c.ok || !c.ok && kindOf(err) != Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCapacity_Plus(t *testing.T) {
	sum := Capacity{}.Plus(Capacity{Available: 5, Largest: 5, Smallest: 2}).Plus(Capacity{}).Plus(Capacity{Available: 7, Largest: 7, Smallest: 1})
	if want := (Capacity{Available: 12, Largest: 7, Smallest: 1}); sum != want {
		t.Errorf("sum is %+v", sum)
	}
	if got := (Capacity{Available: math.MaxInt64}).Plus(Capacity{Available: 1}); got.Available != math.MaxInt64 {
		t.Errorf("sum is %+v", got)
	}
}

func TestReadTopology(t *testing.T) {
	got, err := ReadTopology("k", []map[string]string{{"k": "a"}}, []map[string]string{{"k": "b", "zone": "z"}})
	if diff := cmp.Diff(Topology{Requisite: []string{"a"}, Preferred: []string{"b"}}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, bad := range []map[string]string{{}, {"zone": "z"}, {"k": ""}} {
		if _, err := ReadTopology("k", []map[string]string{bad}, nil); kindOf(err) != Invalid {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestReadStorages(t *testing.T) {
	for name, c := range map[string]struct {
		requisite, preferred []map[string]string
		want                 Topology
		kind                 Kind
	}{
		"anywhere":                     {},
		"nodes of two storages":        {requisite: []map[string]string{{"s/b": "true", "zone": "z"}, {"s/a": "true", "s/b": "true"}}, want: Topology{Requisite: []string{"a", "b"}}},
		"a preferred one":              {preferred: []map[string]string{{"s/a": "true"}}, want: Topology{Preferred: []string{"a"}}},
		"a node that left the storage": {requisite: []map[string]string{{"s/a": "false"}}, kind: Exhausted},
		"nodes of no storage":          {requisite: []map[string]string{{"zone": "z"}}, kind: Exhausted},
	} {
		got, err := ReadStorages("s/", c.requisite, c.preferred)
		if diff := cmp.Diff(c.want, got); diff != "" || kindOf(err) != c.kind {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestReadParameters(t *testing.T) {
	given := map[string]string{
		"ours": "u", "csi.storage.k8s.io/fstype": "xfs", "csi.storage.k8s.io/pvc/name": "p",
		"csi.storage.k8s.io/pvc/namespace": "n", "csi.storage.k8s.io/pv/name": "v", "csi.storage.k8s.io/of-a-later-version": "o",
		"csi.storage.k8s.io.example/x": "y",
	}
	want := Parameters{
		Own:   map[string]string{"ours": "u", "csi.storage.k8s.io.example/x": "y"},
		Claim: Claim{Namespace: "n", Name: "p", Volume: "v"}, FSType: "xfs",
	}
	if diff := cmp.Diff(want, ReadParameters(given)); diff != "" {
		t.Error(diff)
	}
	if len(given) != 7 {
		t.Errorf("the request was changed: %v", given)
	}
	if got := ReadParameters(nil); len(got.Own) != 0 || got.Claim != (Claim{}) {
		t.Errorf("%+v", got)
	}
	if err := Known(want.Own, "ours"); kindOf(err) != Invalid || err.Error() != `unknown parameters: "csi.storage.k8s.io.example/x"` {
		t.Error(err)
	}
	if err := offer.CheckFS("zfs"); kindOf(err) != Invalid || !strings.Contains(err.Error(), `filesystem "zfs"`) {
		t.Error(err)
	}
	for _, name := range []string{"csi.storage.k8s.io/volumesnapshot/name", "csi.storage.k8s.io/snapshotter-secret-name"} {
		if err := CheckSnapshotParameters(map[string]string{name: "s"}); err != nil {
			t.Error(err)
		}
	}
	if err := CheckSnapshotParameters(map[string]string{"x": "s"}); kindOf(err) != Invalid {
		t.Error(err)
	}
}

func TestOffer_directories(t *testing.T) {
	shared := Offer{Shared: true, Filesystems: []string{"shared"}}
	for name, c := range map[string]struct {
		in Capability
		ok bool
	}{
		"many nodes":         {Capability{Mount: true, Mode: "RWX"}, true},
		"one node":           {Capability{Mount: true, Mode: "RWO", SingleNode: true}, true},
		"its filesystem":     {Capability{Mount: true, Mode: "RWX", FSType: "shared"}, true},
		"another filesystem": {Capability{Mount: true, Mode: "RWX", FSType: "ext4"}, false},
		"a raw device":       {Capability{Block: true, Mode: "RWX"}, false},
	} {
		if err := shared.Check(c.in); (err == nil) != c.ok || !c.ok && kindOf(err) != Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
