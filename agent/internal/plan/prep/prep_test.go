package prep

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/osd"
	"quarry.storage/quarry/pkg/refusal"
)

const (
	gib     = int64(1) << 30
	cluster = "0d4f0fb1-f7d4-4f0c-9d52-1f5ef2b55d5f"
	other   = "aaaaaaaa-bbbb-5ccc-8ddd-000000000000"
)

var policy = plan.Policy{MinSizeBytes: gib}

// clean is a disk that nothing speaks against, with changes.
func clean(changes ...func(*plan.Device)) plan.Device {
	d := plan.Device{
		Path: "/dev/disk/by-id/ata-x", KernelName: "sdb", Major: 8, Type: "disk", Links: []string{"/dev/disk/by-id/ata-x"}, SizeBytes: 2 * gib,
		LogicalSectorBytes: 512, PhysicalSectorBytes: 4096, Model: "M", Serial: "S", WWN: "0x1", HeadTailZero: true, ContentDigest: "00", Use: plan.Unused,
	}
	for _, change := range changes {
		change(&d)
	}
	return d
}

func own(t testing.TB) osd.Wanted {
	t.Helper()
	uuid, err := osd.UUID(cluster, osd.Disk{WWN: "0x1", Serial: "S", SizeBytes: 2 * gib}, "")
	if err != nil {
		t.Fatal(err)
	}
	return osd.Wanted{UUID: uuid, FSID: cluster, ID: 7}
}

// carrying puts labels on a disk, at its start and at 1 GiB.
func carrying(w osd.Wanted, ready bool) func(*plan.Device) {
	return func(d *plan.Device) {
		d.HeadTailZero, d.ContentDigest, d.LabelDigest, d.Use = false, "01", "02", plan.Untested
		for _, off := range []int64{0, gib} {
			l := osd.Label{UUID: w.UUID, SizeBytes: 2 * gib, Description: "main", Ready: ready, Epoch: 3}
			if ready {
				l.FSID, l.ID = w.FSID, fmt.Sprint(w.ID)
			}
			d.Labels = append(d.Labels, osd.Found{Offset: off, Label: l})
			d.Signatures = append(d.Signatures, plan.Signature{Type: "ceph_bluestore", Offset: off, UUID: w.UUID})
		}
	}
}

func marked(kind string, off int64) func(*plan.Device) {
	return func(d *plan.Device) {
		d.Signatures = append(d.Signatures, plan.Signature{Type: kind, Offset: off})
		d.HeadTailZero = false
	}
}

func lines(p plan.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		out = append(out, s.String())
	}
	return append(out, p.Notes...)
}

func TestPlans(t *testing.T) {
	w := own(t)
	foreign := osd.Wanted{UUID: other, FSID: cluster, ID: 7}
	headless := func(d *plan.Device) {
		d.Labels, d.Signatures, d.HeadTailZero = d.Labels[1:], d.Signatures[1:], true
	}
	held := func(d *plan.Device) { d.Holders = []string{"dm-0"} }
	used := func(d *plan.Device) { d.Use, d.Users = plan.Used, []string{"process ceph-osd (pid 7)"} }
	find := "find the programs of Ceph in container "
	mk := "make osd.7 (UUID " + w.UUID + ") on /dev/disk/by-id/ata-x"
	zap := "clear OSD " + w.UUID + " on /dev/disk/by-id/ata-x"
	carries := "Device /dev/disk/by-id/ata-x carries the OSD already."
	already := "Device /dev/disk/by-id/ata-x is clean already."
	for name, tt := range map[string]struct {
		device       plan.Device
		prepare, zap []string
		// err is that of both, zapErr that of Zap if it is another one.
		err, zapErr error
	}{
		"a clean disk":                                 {clean(), []string{mk}, []string{already}, nil, nil},
		"killed in the making":                         {clean(carrying(w, false)), []string{find, zap, mk}, []string{zap}, nil, nil},
		"the OSD":                                      {clean(carrying(w, true)), []string{carries}, []string{zap}, nil, nil},
		"the OSD, whose data look like a table":        {clean(carrying(w, true), marked("gpt", 2*gib-512)), []string{carries}, []string{zap}, nil, nil},
		"the OSD on a disk that is small now":          {clean(carrying(w, true), func(d *plan.Device) { d.Removable = true }), []string{carries}, []string{zap}, nil, nil},
		"the OSD by a copy of its label alone":         {clean(carrying(w, true), headless), nil, []string{zap}, plan.ErrNotClean, errNone},
		"the OSD, whose daemon runs":                   {clean(carrying(w, true), used), []string{carries}, nil, nil, plan.ErrNotClean},
		"the making that still runs":                   {clean(carrying(w, false), used), nil, nil, plan.ErrNotClean, nil},
		"killed in the making, below another":          {clean(carrying(w, false), held), nil, nil, plan.ErrNotClean, nil},
		"another OSD":                                  {clean(carrying(foreign, true)), nil, nil, plan.ErrNotOurs, nil},
		"another OSD, killed in the making":            {clean(carrying(foreign, false)), nil, nil, plan.ErrNotOurs, nil},
		"a filesystem":                                 {clean(marked("ext4", 1080)), nil, nil, plan.ErrNotClean, nil},
		"killed in the making, and a filesystem since": {clean(carrying(w, false), marked("btrfs", 64<<10+64)), nil, nil, plan.ErrNotClean, nil},
		"the OSD, and a RAID since":                    {clean(carrying(w, true), marked("linux_raid_member", 4096)), nil, nil, plan.ErrNotClean, nil},
		"unknown data":                                 {clean(func(d *plan.Device) { d.HeadTailZero = false }), nil, nil, plan.ErrNotClean, nil},
		"a disk in use":                                {clean(used), nil, nil, plan.ErrNotClean, nil},
		"a disk that settles": {
			clean(func(d *plan.Device) { d.Use = plan.Untested }), nil, []string{already}, plan.ErrNotClean, errNone,
		},
		"an unreadable fact":        {clean(carrying(w, false), func(d *plan.Device) { d.Unreadable = []string{"x"} }), nil, nil, plan.ErrNotClean, nil},
		"an unfinished wipe":        {clean(carrying(w, false), func(d *plan.Device) { d.Wipe = &plan.WipeMark{Digest: "d"} }), nil, nil, plan.ErrNotClean, nil},
		"a physical volume":         {clean(func(d *plan.Device) { d.PVUUID = "pv" }), nil, nil, plan.ErrNotClean, nil},
		"a label that is damaged":   {clean(carrying(w, false), func(d *plan.Device) { d.Labels[1].Err = osd.ErrDamaged }), nil, nil, plan.ErrNotClean, nil},
		"a label that was not read": {clean(marked("ceph_bluestore", 1<<40)), nil, nil, plan.ErrNotClean, nil},
		"a disk with two paths":     {clean(carrying(w, false), func(d *plan.Device) { d.Paths = []string{"sdc"} }), nil, nil, plan.ErrNotClean, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := plan.Snapshot{Devices: []plan.Device{tt.device}}
			spec := Spec{Device: plan.IdentityOf(clean()), ClusterUID: cluster, Want: w, Fresh: true}
			zapErr := tt.err
			if tt.zapErr != nil {
				zapErr = tt.zapErr
			}
			p, err := Prepare(s, spec, policy)
			check(t, "prepare", p, err, tt.prepare, tt.err)
			spec.Making = Look(tt.device, w, policy).Making
			p, err = Zap(s, spec, policy)
			check(t, "zap", p, err, tt.zap, zapErr)
		})
	}
}

// errNone is in a table for no error where another one is the default.
var errNone = errors.New("none")

func check(t *testing.T, what string, p plan.Plan, err error, want []string, wantErr error) {
	t.Helper()
	if errors.Is(wantErr, errNone) {
		wantErr = nil
	}
	if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		t.Fatalf("%s: %v, want %v", what, err, wantErr)
	}
	if diff := cmp.Diff(want, lines(p)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
	if err != nil && len(p.Steps) > 0 {
		t.Errorf("%s: steps beside an error", what)
	}
}

func TestPrepare_refuses(t *testing.T) {
	w := own(t)
	for name, tt := range map[string]struct {
		change func(*Spec)
		err    error
	}{
		"another disk":                     {func(s *Spec) { s.Device.Serial = "x" }, plan.ErrMismatch},
		"another content":                  {func(s *Spec) { s.Device.Digest = "v1:x" }, plan.ErrMismatch},
		"no digest":                        {func(s *Spec) { s.Device.Digest = "" }, plan.ErrMismatch},
		"an absent disk":                   {func(s *Spec) { s.Device.Path = "/dev/none" }, plan.ErrNotFound},
		"an empty disk of an OSD that ran": {func(s *Spec) { s.Fresh = false }, plan.ErrMismatch},
		"the OSD of another Cluster":       {func(s *Spec) { s.ClusterUID = other }, plan.ErrInvalid},
		"another UUID than this disk's":    {func(s *Spec) { s.Want.UUID = other }, plan.ErrInvalid},
	} {
		spec := Spec{Device: plan.IdentityOf(clean()), ClusterUID: cluster, Want: w, Fresh: true}
		tt.change(&spec)
		if p, err := Prepare(plan.Snapshot{Devices: []plan.Device{clean()}}, spec, policy); !errors.Is(err, tt.err) || len(p.Steps) > 0 {
			t.Errorf("%s: %v, %v", name, lines(p), err)
		}
	}
}

// TestPlans_grown: a disk that grew since it was made an OSD is known by the size that its labels tell. It is given back, and nothing is made there
// under a UUID that its size does not have.
func TestPlans_grown(t *testing.T) {
	w := own(t)
	grown := func(d *plan.Device) { d.SizeBytes = 3 * gib }
	for name, tt := range map[string]struct {
		device  plan.Device
		kind    osd.Kind
		prepare error
		zapped  bool
	}{
		"the OSD":              {clean(carrying(w, true), grown), osd.Ready, nil, true},
		"killed in the making": {clean(carrying(w, false), grown), osd.Unfinished, plan.ErrMismatch, true},
		"a clean disk":         {clean(grown), osd.Unknown, plan.ErrInvalid, false},
		"labels of a size that has another UUID": {
			clean(carrying(w, true), grown, func(d *plan.Device) { d.Labels[0].Label.SizeBytes, d.Labels[1].Label.SizeBytes = gib, gib }), osd.Unknown, plan.ErrInvalid, false,
		},
		"a disk with another serial number": {clean(carrying(w, true), grown, func(d *plan.Device) { d.Serial = "x" }), osd.Unknown, plan.ErrInvalid, false},
		"the OSD on a disk that shrank":     {clean(carrying(w, true), func(d *plan.Device) { d.SizeBytes = gib + 8192 }), osd.Unknown, plan.ErrInvalid, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := plan.Snapshot{Devices: []plan.Device{tt.device}}
			spec := Spec{Device: plan.IdentityOf(tt.device), ClusterUID: cluster, Want: w, Fresh: true}
			if v, err := Inspect(s, spec, policy); v.Kind != tt.kind || (err == nil) != tt.zapped {
				t.Errorf("it is %+v: %v", v, err)
			}
			if p, err := Prepare(s, spec, policy); !errors.Is(err, tt.prepare) || (err == nil) != (tt.prepare == nil) || len(p.Steps) > 0 {
				t.Errorf("prepare: %v, %v", lines(p), err)
			}
			spec.Making = Look(tt.device, w, policy).Making
			if p, err := Zap(s, spec, policy); (err == nil) != tt.zapped || (len(p.Steps) == 1) != tt.zapped {
				t.Errorf("zap: %v, %v", lines(p), err)
			}
		})
	}
}

// bornAnew has the labels of a disk written by a later making of the OSD.
func bornAnew(d *plan.Device) {
	for i := range d.Labels {
		d.Labels[i].Label.Born = d.Labels[i].Label.Born.Add(time.Nanosecond)
	}
}

// TestZap_making: what is given back is the making of the OSD that the caller saw. One of the same UUID that was made since is left alone, and so is any for a caller who names none.
func TestZap_making(t *testing.T) {
	redrawn := func(d *plan.Device) { d.Headers[0].Salt = "02" }
	for name, tt := range map[string]struct {
		want        osd.Wanted
		seen, later plan.Device
	}{
		"in the clear":               {own(t), clean(carrying(own(t), true)), clean(carrying(own(t), true), bornAnew)},
		"in the clear, not finished": {own(t), clean(carrying(own(t), false)), clean(carrying(own(t), false), bornAnew)},
		"encrypted":                  {encrypted(t), clean(sealed(encrypted(t), true)), clean(sealed(encrypted(t), true), redrawn)},
		"encrypted, not finished":    {encrypted(t), clean(sealed(encrypted(t), false)), clean(sealed(encrypted(t), false), redrawn)},
	} {
		spec := Spec{Device: plan.IdentityOf(clean()), ClusterUID: cluster, Want: tt.want}
		zap := func(d plan.Device, making string) (plan.Plan, error) {
			spec.Making = making
			return Zap(plan.Snapshot{Devices: []plan.Device{d}}, spec, policy)
		}
		seen := Look(tt.seen, tt.want, policy).Making
		if seen == "" || seen == Look(tt.later, tt.want, policy).Making {
			t.Fatalf("%s: both are %q", name, seen)
		}
		p, err := zap(tt.seen, seen)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		token := p.Steps[len(p.Steps)-1].(ClearOSD).Token()
		if now, later := token.Verify(tt.seen), token.Verify(tt.later); now != nil || !errors.Is(later, plan.ErrMismatch) {
			t.Errorf("%s: at the moment of the step %v, and made anew %v", name, now, later)
		}
		for what, making := range map[string]string{"another": seen, "none": ""} {
			if p, err := zap(tt.later, making); !errors.Is(err, plan.ErrMismatch) || len(p.Steps) > 0 {
				t.Errorf("%s, %s: %v, %v", name, what, lines(p), err)
			}
		}
		if p, err := zap(clean(), seen); err != nil || len(p.Steps) > 0 {
			t.Errorf("%s, clean since: %v, %v", name, lines(p), err)
		}
	}
}

// TestToken wants each step to be permitted by what is on the disk at its moment, and by nothing else.
func TestToken(t *testing.T) {
	w := own(t)
	disks := map[string]plan.Device{
		"clean": clean(), "unfinished": clean(carrying(w, false)), "ready": clean(carrying(w, true)),
		"foreign": clean(carrying(osd.Wanted{UUID: other, FSID: cluster, ID: 7}, false)), "ext4": clean(marked("ext4", 1080)),
		"made anew": clean(carrying(w, true), bornAnew),
		"changed":   clean(func(d *plan.Device) { d.Model = "another" }), "moved": clean(func(d *plan.Device) { d.Serial = "another" }),
	}
	for name, d := range disks {
		d.Use = plan.Unused
		disks[name] = d
	}
	tokens := map[string]Token{"the zero token": {}}
	for name, from := range map[string]string{"make": "clean", "again": "unfinished"} {
		p, err := Prepare(plan.Snapshot{Devices: []plan.Device{disks[from]}}, Spec{Device: plan.IdentityOf(clean()), ClusterUID: cluster, Want: w, Fresh: true}, policy)
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = p.Steps[len(p.Steps)-1].(MakeOSD).Token()
		if from == "unfinished" {
			tokens["clear"] = p.Steps[1].(ClearOSD).Token()
		}
	}
	p, err := Zap(plan.Snapshot{Devices: []plan.Device{disks["ready"]}}, Spec{Device: plan.IdentityOf(clean()), ClusterUID: cluster, Want: w, Making: Look(disks["ready"], w, policy).Making}, policy)
	if err != nil {
		t.Fatal(err)
	}
	tokens["zap"] = p.Steps[0].(ClearOSD).Token()
	for name, permitted := range map[string][]string{
		"the zero token": nil, "make": {"clean"}, "again": {"changed", "clean"}, "clear": {"unfinished"}, "zap": {"ready", "unfinished"},
	} {
		for disk, d := range disks {
			if err := tokens[name].Verify(d); (err == nil) != slices.Contains(permitted, disk) {
				t.Errorf("%s on %s: %v", name, disk, err)
			}
			d.Use = plan.Used
			if err := tokens[name].Verify(d); err == nil {
				t.Errorf("%s on %s, in use, is permitted", name, disk)
			}
		}
	}
}

// TestPlans_neverTouchWhatIsNotOurs makes random disks, and checks every step against what is on them.
func TestPlans_neverTouchWhatIsNotOurs(t *testing.T) {
	w := own(t)
	r := rand.New(rand.NewPCG(3, 4))
	flaws := []func(*plan.Device){
		func(d *plan.Device) { d.Unreadable = []string{"x"} }, func(d *plan.Device) { d.Mounts = []string{"/"} },
		func(d *plan.Device) { d.Holders = []string{"dm-0"} }, func(d *plan.Device) { d.Use = plan.Used }, func(d *plan.Device) { d.ReadOnly = true },
		func(d *plan.Device) { d.Suspended = true }, func(d *plan.Device) { d.Partitions = []string{"sdb1"} }, marked("ext4", 1080), marked("zfs_member", 256<<10),
		func(d *plan.Device) { d.Wipe = &plan.WipeMark{Digest: "v1:x"} }, func(d *plan.Device) { d.PVUUID = "pv" }, func(d *plan.Device) { d.SizeBytes = gib },
		carrying(osd.Wanted{UUID: other, FSID: cluster, ID: 7}, false), func(d *plan.Device) { d.Labels = d.Labels[:len(d.Labels)/2] },
	}
	steps := 0
	for range 5000 {
		d := clean()
		if n := r.IntN(3); n > 0 {
			carrying(w, n == 1)(&d)
		}
		for _, flaw := range flaws {
			if r.IntN(25) == 0 {
				flaw(&d)
			}
		}
		spec := Spec{Device: plan.IdentityOf(d), ClusterUID: cluster, Want: w, Fresh: r.IntN(4) > 0, Making: Look(d, w, policy).Making}
		for name, decide := range map[string]func(plan.Snapshot, Spec, plan.Policy) (plan.Plan, error){"prepare": Prepare, "zap": Zap} {
			p, err := decide(plan.Snapshot{Devices: []plan.Device{d}}, spec, policy)
			if err != nil && len(p.Steps) > 0 {
				t.Fatalf("%s: steps beside %v", name, err)
			}
			steps += len(p.Steps)
			for i, step := range p.Steps {
				if why := forbidden(d, w, name, i, step); why != "" {
					t.Fatalf("%s: %s, although %s: %+v", name, step, why, d)
				}
			}
		}
	}
	if steps < 1000 {
		t.Errorf("only %d steps", steps)
	}
}

func inUse(d plan.Device) bool {
	return len(d.Mounts)+len(d.Holders)+len(d.Unreadable) > 0 || len(d.Partitions) > 0 && (len(d.Labels) == 0 || d.Labels[0].Offset > 0) || d.Use == plan.Used || d.ReadOnly || d.Suspended || d.Wipe != nil || d.PVUUID != ""
}

// forbidden says why a step must not be planned; empty if it may be.
func forbidden(d plan.Device, w osd.Wanted, name string, at int, step plan.Step) string {
	if inUse(d) {
		return "it is in use, or not everything about it is known"
	}
	foreign := slices.ContainsFunc(d.Labels, func(f osd.Found) bool { return f.Label.UUID != w.UUID || f.Err != nil })
	ready := slices.ContainsFunc(d.Labels, func(f osd.Found) bool { return f.Label.Ready })
	switch step.(type) {
	case MakeOSD:
		if at == 0 && len(plan.Judge(d, policy)) > 0 {
			return "it is not clean"
		}
	case ClearOSD:
		if len(d.Labels) == 0 || foreign || ready && name == "prepare" {
			return "it carries another OSD, or one that is ready"
		}
	}
	return ""
}

// TestLook_settling: what is on a disk is known before it is tested for users, and a step needs that test.
func TestLook_settling(t *testing.T) {
	settling := clean(func(d *plan.Device) { d.Use = plan.Untested })
	if v := Look(settling, own(t), policy); v.Kind != osd.Empty {
		t.Errorf("%+v", v)
	}
	p, err := Prepare(plan.Snapshot{Devices: []plan.Device{clean()}}, Spec{Device: plan.IdentityOf(clean()), ClusterUID: cluster, Want: own(t), Fresh: true}, policy)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Steps[0].(MakeOSD).Token().Verify(settling); !errors.Is(err, plan.ErrNotClean) {
		t.Errorf("untested under the exclusive open: %v", err)
	}
	_, err = Prepare(plan.Snapshot{Devices: []plan.Device{settling}}, Spec{Device: plan.IdentityOf(clean()), ClusterUID: cluster, Want: own(t), Fresh: true}, policy)
	if !plan.Settling(err) {
		t.Errorf("the caller is not told that it passes: %v", err)
	}
}

func TestSteps_changeTheirDisk(t *testing.T) {
	p, err := Prepare(plan.Snapshot{Devices: []plan.Device{clean(carrying(own(t), false))}},
		Spec{Device: plan.IdentityOf(clean()), ClusterUID: cluster, Want: own(t), Fresh: true}, policy)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/dev/disk/by-id/ata-x"}; !slices.Equal(p.Changes(), want) || !slices.Equal(p.Touches(), want) {
		t.Errorf("touches %v, changes %v", p.Touches(), p.Changes())
	}
	for _, s := range p.Steps {
		if s.Why() == "" || !slices.Equal(s.Touches(), p.Touches()) {
			t.Errorf("%s has no reason", s)
		}
	}
	if !slices.Contains(harmless, refusal.Ceph) {
		t.Error("an OSD of ours speaks against itself")
	}
}

// TestZap_partitions: partitions that the kernel shows on the disk of an OSD keep nobody from giving it back, unless udev says that something is on one, or somebody uses it.
func TestZap_partitions(t *testing.T) {
	w := own(t)
	for name, tt := range map[string]struct {
		change func(disk, part *plan.Device)
		want   bool
	}{
		"nothing is on it": {func(*plan.Device, *plan.Device) {}, true},
		"it is empty":      {func(_, part *plan.Device) { part.SizeBytes, part.Unreadable = 0, []string{"content: it is empty"} }, true},
		"udev says what the disk has": {func(disk, part *plan.Device) {
			disk.UdevTags = tags("ceph_bluestore")
			part.UdevTags = tags("ceph_bluestore")
		}, true},
		"it has a filesystem":        {func(disk, part *plan.Device) { disk.UdevTags = tags("ceph_bluestore"); part.UdevTags = tags("ext4") }, false},
		"it is a physical volume":    {func(_, part *plan.Device) { part.PVUUID = "pv" }, false},
		"nobody reads it":            {func(_, part *plan.Device) { part.Unreadable = []string{"content: partitions are not opened"} }, true},
		"it is mounted":              {func(disk, _ *plan.Device) { disk.Mounts = []string{"/mnt"} }, false},
		"another device is on it":    {func(disk, _ *plan.Device) { disk.Holders = []string{"dm-3"} }, false},
		"the label is only a copy":   {func(disk, _ *plan.Device) { disk.Labels = disk.Labels[1:] }, false},
		"it is one of another disk ": {func(disk, part *plan.Device) { part.KernelName, part.UdevTags = "sdz1", tags("ext4") }, true},
	} {
		d, part := clean(carrying(w, true)), clean()
		d.Partitions = []string{"sdb8"}
		part.KernelName, part.Path, part.Type = "sdb8", "/dev/sdb8", "partition"
		tt.change(&d, &part)
		p, err := Zap(plan.Snapshot{Devices: []plan.Device{d, part}}, Spec{Device: plan.IdentityOf(d), ClusterUID: cluster, Want: w, Making: Look(d, w, policy).Making}, policy)
		if zaps := err == nil && len(p.Steps) == 1; zaps != tt.want {
			t.Errorf("%s: %v, %v", name, lines(p), err)
		}
	}
}

func tags(format string) map[string]string { return map[string]string{"ID_FS_TYPE": format} }
