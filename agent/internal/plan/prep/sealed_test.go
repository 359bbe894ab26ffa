package prep

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/osd"
)

func key(t testing.TB) osd.Key {
	t.Helper()
	k, err := osd.NewKey(bytes.Repeat([]byte("k"), osd.KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func encrypted(t testing.TB) osd.Wanted {
	t.Helper()
	w := own(t)
	w.Encrypted = true
	return w
}

// sealed puts the headers of an encrypted OSD on a disk.
func sealed(w osd.Wanted, ready bool) func(*plan.Device) {
	return func(d *plan.Device) {
		d.HeadTailZero, d.ContentDigest, d.Use = false, "01", plan.Untested
		for _, off := range []int64{0, osd.HeaderBytes} {
			d.Headers = append(d.Headers, osd.Header{Offset: off, UUID: w.UUID, FSID: w.FSID, Salt: "01", Sequence: 4, SizeBytes: 2 * gib, Ready: ready})
			d.Signatures = append(d.Signatures, plan.Signature{Type: "crypto_LUKS", Offset: off, UUID: w.UUID})
		}
	}
}

func mappedBy(name string) func(*plan.Device) {
	return func(d *plan.Device) { d.Holders = append(d.Holders, name) }
}

func TestPlans_encrypted(t *testing.T) {
	w := encrypted(t)
	foreign := osd.Wanted{UUID: other, FSID: cluster, ID: 7}
	torn := func(d *plan.Device) {
		d.Headers = []osd.Header{{UUID: w.UUID, FSID: w.FSID, Err: osd.ErrCut}}
		d.Signatures = d.Signatures[:1]
	}
	used := func(d *plan.Device) { d.Use, d.Users = plan.Used, []string{"process cryptsetup (pid 7)"} }
	const path = "/dev/disk/by-id/ata-x"
	find := "find the programs of Ceph, and cryptsetup, in container "
	seal, mk, finish := "encrypt "+path+" for OSD "+w.UUID, "make osd.7 (UUID "+w.UUID+") on "+path, "finish the encrypted OSD "+w.UUID+" on "+path
	shut, zap := "close the encrypted OSD "+w.UUID+" on "+path, "clear OSD "+w.UUID+" on "+path
	anew := []string{find, shut, zap, seal, mk, finish}
	gone := []string{shut, zap}
	carries := "Device " + path + " carries the OSD already."
	for name, tt := range map[string]struct {
		device       plan.Device
		prepare, zap []string
		err, zapErr  error
	}{
		"a clean disk":                             {clean(), []string{find, seal, mk, finish}, []string{"Device " + path + " is clean already."}, nil, nil},
		"killed in the making":                     {clean(sealed(w, false)), anew, gone, nil, nil},
		"killed at the first write":                {clean(sealed(w, false), torn), anew, gone, nil, nil},
		"killed while it is open":                  {clean(sealed(w, false), mappedBy("dm-3")), anew, gone, nil, nil},
		"the OSD":                                  {clean(sealed(w, true)), []string{carries}, gone, nil, nil},
		"the OSD, open":                            {clean(sealed(w, true), mappedBy("dm-3")), []string{carries}, gone, nil, nil},
		"the OSD, below another mapping":           {clean(sealed(w, true), mappedBy("dm-4")), []string{carries}, nil, nil, plan.ErrNotClean},
		"the OSD, below both":                      {clean(sealed(w, true), mappedBy("dm-3"), mappedBy("dm-4")), []string{carries}, nil, nil, plan.ErrNotClean},
		"killed in the making, below another":      {clean(sealed(w, false), mappedBy("dm-4")), nil, nil, plan.ErrNotClean, nil},
		"the OSD, whose data look like a table":    {clean(sealed(w, true), marked("gpt", 2*gib-512)), []string{carries}, gone, nil, nil},
		"the OSD, and a table since":               {clean(sealed(w, true), marked("dos", 510)), nil, nil, plan.ErrNotClean, nil},
		"the making that still runs":               {clean(sealed(w, false), used), nil, nil, plan.ErrNotClean, nil},
		"another encrypted OSD":                    {clean(sealed(foreign, true)), nil, nil, plan.ErrNotOurs, nil},
		"another encrypted OSD, not finished":      {clean(sealed(foreign, false)), nil, nil, plan.ErrNotOurs, nil},
		"another Ceph cluster":                     {clean(sealed(osd.Wanted{UUID: w.UUID, FSID: other}, true)), nil, nil, plan.ErrNotOurs, nil},
		"the OSD in the clear":                     {clean(carrying(w, true)), nil, nil, plan.ErrNotClean, nil},
		"the OSD in the clear, not finished":       {clean(carrying(w, false)), nil, nil, plan.ErrNotClean, nil},
		"an encrypted disk of others":              {clean(marked("crypto_LUKS", 0)), nil, nil, plan.ErrNotClean, nil},
		"a disk of no whole sectors of 4 KiB":      {clean(func(d *plan.Device) { d.SizeBytes += 512 }), nil, nil, plan.ErrInvalid, nil},
		"an unreadable fact":                       {clean(sealed(w, false), func(d *plan.Device) { d.Unreadable = []string{"x"} }), nil, nil, plan.ErrNotClean, nil},
		"the OSD in the clear since, by its label": {clean(sealed(w, true), carrying(w, true)), nil, nil, plan.ErrNotClean, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := plan.Snapshot{Devices: []plan.Device{
				tt.device, {KernelName: "dm-3", Type: "dm", Mapping: osd.MappingUUID(w.UUID)}, {KernelName: "dm-4", Type: "dm", Mapping: osd.MappingUUID(other)},
			}}
			spec := Spec{Device: plan.IdentityOf(clean()), ClusterUID: cluster, Want: w, Key: key(t), Fresh: true}
			spec.Device.SizeBytes = tt.device.SizeBytes
			zapErr := tt.err
			if tt.zapErr != nil {
				zapErr = tt.zapErr
			}
			p, err := Prepare(s, spec, policy)
			check(t, "prepare", p, err, tt.prepare, tt.err)
			spec.Making = Look(unmapped(s, tt.device, w), w, policy).Making
			p, err = Zap(s, spec, policy)
			check(t, "zap", p, err, tt.zap, zapErr)
		})
	}
}

// TestInspect_stale: an encrypted OSD whose mapping does not lie on its disk is open as the device that the disk was before.
func TestInspect_stale(t *testing.T) {
	mapping := plan.Device{KernelName: "dm-3", Type: "dm", Mapping: osd.MappingUUID(encrypted(t).UUID)}
	for name, tt := range map[string]struct {
		want   osd.Wanted
		device plan.Device
		others []plan.Device
		stale  bool
	}{
		"open":                                 {encrypted(t), clean(sealed(encrypted(t), true), mappedBy("dm-3")), []plan.Device{mapping}, false},
		"closed":                               {encrypted(t), clean(sealed(encrypted(t), true)), nil, false},
		"open as another device":               {encrypted(t), clean(sealed(encrypted(t), true)), []plan.Device{mapping}, true},
		"the mapping of another OSD":           {encrypted(t), clean(sealed(encrypted(t), true)), []plan.Device{{KernelName: "dm-4", Mapping: osd.MappingUUID(other)}}, false},
		"what holds the disk cannot be read":   {encrypted(t), clean(sealed(encrypted(t), true), func(d *plan.Device) { d.Unreadable = []string{"holders"} }), []plan.Device{mapping}, false},
		"in the clear, and some other mapping": {own(t), clean(carrying(own(t), true)), []plan.Device{mapping}, false},
	} {
		s := plan.Snapshot{Devices: append([]plan.Device{tt.device}, tt.others...)}
		spec := Spec{Device: plan.IdentityOf(clean()), ClusterUID: cluster, Want: tt.want}
		if v, err := Inspect(s, spec, policy); err != nil || v.Stale != tt.stale {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}

// TestPrepare_encryptedRefuses: nothing is done without a key, to a disk whose sectors do not fit, or to an OSD that ran; and none of it in the clear.
func TestPrepare_encryptedRefuses(t *testing.T) {
	w := encrypted(t)
	odd := clean(func(d *plan.Device) { d.SizeBytes = 2*gib + 512 })
	uuid, err := osd.UUID(cluster, osd.Disk{WWN: "0x1", Serial: "S", SizeBytes: odd.SizeBytes}, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		device plan.Device
		change func(*Spec)
		err    error
	}{
		"no key":                              {clean(), func(s *Spec) { s.Key = osd.Key{} }, plan.ErrInvalid},
		"no key to make it anew":              {clean(sealed(w, false)), func(s *Spec) { s.Key = osd.Key{} }, plan.ErrInvalid},
		"a size that does not fit":            {odd, func(s *Spec) { s.Want.UUID = uuid }, plan.ErrMismatch},
		"an empty disk of an OSD that ran":    {clean(), func(s *Spec) { s.Fresh = false }, plan.ErrMismatch},
		"the remains of an OSD that ran":      {clean(sealed(w, false)), func(s *Spec) { s.Fresh = false }, plan.ErrMismatch},
		"one that is wanted in the clear":     {clean(sealed(w, true)), func(s *Spec) { s.Want.Encrypted = false }, plan.ErrNotClean},
		"an unfinished one, wanted otherwise": {clean(sealed(w, false)), func(s *Spec) { s.Want.Encrypted = false }, plan.ErrNotClean},
	} {
		spec := Spec{Device: plan.IdentityOf(tt.device), ClusterUID: cluster, Want: w, Key: key(t), Fresh: true}
		tt.change(&spec)
		if p, err := Prepare(plan.Snapshot{Devices: []plan.Device{tt.device}}, spec, policy); !errors.Is(err, tt.err) || len(p.Steps) > 0 {
			t.Errorf("%s: %v, %v", name, lines(p), err)
		}
	}
}

// TestToken_encrypted wants each step to be permitted by what is on the disk at its moment, and by nothing else; and no step to tell the key.
func TestToken_encrypted(t *testing.T) {
	w := encrypted(t)
	disks := map[string]plan.Device{
		"clean": clean(), "unfinished": clean(sealed(w, false)), "ready": clean(sealed(w, true)), "in the clear": clean(carrying(w, false)),
		"foreign": clean(sealed(osd.Wanted{UUID: other, FSID: cluster}, false)), "open": clean(sealed(w, false), mappedBy("dm-3")),
	}
	for name, d := range disks {
		d.Use = plan.Unused
		disks[name] = d
	}
	spec := Spec{Device: plan.IdentityOf(clean()), ClusterUID: cluster, Want: w, Key: key(t), Fresh: true}
	p, err := Prepare(plan.Snapshot{Devices: []plan.Device{disks["unfinished"]}}, spec, policy)
	if err != nil || len(p.Steps) != 6 {
		t.Fatal(p, err)
	}
	if text := fmt.Sprintf("%v %+v %#v", p.Steps, p.Steps, spec); strings.Contains(text, "kkkk") || strings.Contains(text, "107 107") || strings.Contains(text, "0x6b, 0x6b") {
		t.Errorf("the key is told: %s", text)
	}
	for name, tt := range map[string]struct {
		verify    func(plan.Device) error
		permitted string
	}{
		"clear":  {p.Steps[2].(ClearOSD).Token().Verify, "unfinished"},
		"seal":   {p.Steps[3].(SealOSD).Token().Verify, "clean"},
		"make":   {p.Steps[4].(MakeOSD).Token().Verify, "unfinished"},
		"made":   {p.Steps[4].(MakeOSD).Made, "unfinished"},
		"finish": {p.Steps[5].(FinishOSD).Token().Verify, "unfinished"},
		"done":   {p.Steps[5].(FinishOSD).Made, "ready"},
	} {
		for disk, d := range disks {
			if err := tt.verify(d); (err == nil) != (disk == tt.permitted) {
				t.Errorf("%s on one that is %s: %v", name, disk, err)
			}
		}
	}
}
