package plan

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWipe(t *testing.T) {
	dirty := signed("ext4", "", "")
	wipe := []string{"wipe " + dirty.Path}
	marked := with(func(d *Device) { d.Wipe = &WipeMark{Digest: Digest(dirty)} })
	changed := with(func(d *Device) { d.Wipe = &WipeMark{Digest: Digest(dirty), Later: []string{"zfs_member"}} })
	activeGroup := member("sdc", "vg9", "")
	activeGroup.Holders = []string{"dm-1"}
	for name, tt := range map[string]struct {
		devices []Device
		id      Identity
		plan    []string
		err     error
	}{
		"wipes what was described":                     {[]Device{dirty}, IdentityOf(dirty), wipe, nil},
		"finishes what was begun":                      {[]Device{marked}, IdentityOf(dirty), wipe, nil},
		"refuses to finish over what came later":       {[]Device{changed}, IdentityOf(dirty), nil, ErrMismatch},
		"wipes what came later, if that was described": {[]Device{changed}, IdentityOf(changed), wipe, nil},
		"leaves a clean disk alone":                    {[]Device{cleanDisk("sdb")}, IdentityOf(dirty), []string{"Device " + dirty.Path + " is clean already."}, nil},
		"leaves a disk alone that was wiped a moment ago": {
			[]Device{with(func(d *Device) { d.Use = Untested })}, IdentityOf(dirty), []string{"Device " + dirty.Path + " is clean already."}, nil,
		},
		"wipes unused swap":            {[]Device{signed("swap", "", "")}, IdentityOf(signed("swap", "", "")), wipe, nil},
		"wipes an unused foreign disk": {[]Device{member("sdb", "vg9", "")}, IdentityOf(member("sdb", "vg9", "")), wipe, nil},
		"refuses an absent disk":       {nil, IdentityOf(dirty), nil, ErrNotFound},
		"refuses another disk": {
			[]Device{dirty}, Identity{Path: dirty.Path, SizeBytes: 1}, nil, ErrMismatch,
		},
		"refuses another content": {
			[]Device{signed("xfs", "", "")}, IdentityOf(dirty), nil, ErrMismatch,
		},
		"refuses a wipe that another digest began": {
			[]Device{with(func(d *Device) { d.Wipe = &WipeMark{Digest: "v1:other"} })}, IdentityOf(dirty), nil, ErrMismatch,
		},
		"refuses a disk of ours": {
			[]Device{member("sdb", "vg", me)}, IdentityOf(member("sdb", "vg", me)), nil, ErrNotClean,
		},
		"refuses a disk of a group in use": {
			[]Device{member("sdb", "vg9", ""), activeGroup}, IdentityOf(member("sdb", "vg9", "")), nil, ErrNotClean,
		},
		"refuses a mounted disk": {
			[]Device{with(func(d *Device) { d.Mounts = []string{"/"} })}, IdentityOf(cleanDisk("sdb")), nil, ErrNotClean,
		},
		"refuses swap in use": {
			[]Device{with(func(d *Device) { d.Mounts = []string{"[swap]"} })}, IdentityOf(cleanDisk("sdb")), nil, ErrNotClean,
		},
		"refuses an unreadable disk": {
			[]Device{with(func(d *Device) { d.Unreadable = []string{"x"} })}, IdentityOf(cleanDisk("sdb")), nil, ErrNotClean,
		},
		"refuses a disk that the wipe would not make usable": {
			[]Device{with(func(d *Device) { d.Removable, d.HeadTailZero = true, false })}, IdentityOf(cleanDisk("sdb")), nil, ErrNotClean,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := Snapshot{Devices: tt.devices}
			p, err := Wipe(s, tt.id, testPolicy)
			if d, ok := s.Find(tt.id.Path); ok && !errors.Is(tt.err, ErrMismatch) {
				if got, want := Wipeable(s, d, testPolicy), len(p.Steps) > 0; got != want {
					t.Errorf("reported as wipeable: %t, want %t", got, want)
				}
			}
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.plan, lines(p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestToken(t *testing.T) {
	dirty, in := signed("ext4", "", ""), member("sdb", "vg", me)
	free := in
	free.Group, free.OwnerUID = "", ""
	consent := Token{device: IdentityOf(dirty), ground: Consent}
	ownership := Token{device: IdentityOf(free), pvUUID: free.PVUUID, ground: Ownership}
	for name, tt := range map[string]struct {
		token  Token
		device Device
		ok     bool
	}{
		"consent fits the device":              {consent, dirty, true},
		"consent fits no other content":        {consent, signed("xfs", "", ""), false},
		"ownership fits the free volume":       {ownership, free, true},
		"ownership fits no volume in a group":  {ownership, in, false},
		"ownership fits no other disk":         {ownership, with(func(d *Device) { d.Serial = "x" }), false},
		"ownership fits no other volume":       {ownership, cleanDisk("sdb"), false},
		"the zero token permits nothing":       {Token{}, Device{}, false},
		"the zero token permits nothing on it": {Token{device: IdentityOf(dirty)}, dirty, false},
	} {
		if err := tt.token.Verify(tt.device); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
