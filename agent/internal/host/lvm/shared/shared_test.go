package shared

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	owner  = "11111111-2222-3333-4444-555555555555"
	device = "/dev/mapper/lun"
)

// recorded is what LVM 2.03.16 said.
func recorded(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("testdata/fullreport.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

var want = sharedlun.Group{
	UUID: "EJOuKj-cD6h-GGXp-49EQ-tSM8-Xxrl-JtVpvn", Name: "shg", OwnerUID: owner, Epoch: 7, Sequence: 9,
	SizeBytes: 515899392, FreeBytes: 490733568, ExtentBytes: 4 << 20,
	Volumes: []sharedlun.Volume{
		{
			Name: "v1", UUID: "8AD8Uh-gR3m-AUdI-S0r1-Eqzm-EZDO-qI0cBB", SizeBytes: 16 << 20, HeldBy: "n1", ReadyBytes: 8 << 20, CreatedUnix: 1795403943,
			Ranges: []sharedlun.Range{{Start: 17 << 20, Size: 8 << 20}, {Start: 33 << 20, Size: 8 << 20}},
		},
		{
			Name: "v2", UUID: "jEZoDe-bC5T-H2qz-YsIR-0vc2-AYmI-KLnJvB", SizeBytes: 8 << 20, Tags: []string{"a=b"}, CreatedUnix: 1795403943,
			Ranges: []sharedlun.Range{{Start: 25 << 20, Size: 8 << 20}},
		},
	},
}

func TestParse(t *testing.T) {
	g, err := parse([]byte(recorded(t)), owner)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, g); diff != "" {
		t.Error(diff)
	}
	readers := strings.ReplaceAll(recorded(t), "held-by=n1,", "held-by=n1,quarry.storage/reader=n3/boot-1,quarry.storage/reader=n2/boot-7,")
	if g, err = parse([]byte(readers), owner); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]sharedlun.Boot{{Node: "n2", ID: "boot-7"}, {Node: "n3", ID: "boot-1"}}, g.Volumes[0].Readers); diff != "" {
		t.Error(diff)
	}
	if g, err := parse([]byte(recorded(t)), "another"); g != nil || err != nil {
		t.Errorf("another owner: %+v, %v", g, err)
	}
	if g, err := parse([]byte(`{"report": [{}]}`), owner); g != nil || err != nil {
		t.Errorf("an empty device: %+v, %v", g, err)
	}
}

// TestParse_refuses: what is not exactly a group as we make it is an error.
func TestParse_refuses(t *testing.T) {
	for name, edit := range map[string][2]string{
		"a second owner":                {"quarry.storage/epoch=7,", "quarry.storage/epoch=7,quarry.storage/iscsi=another,"},
		"no epoch":                      {"quarry.storage/epoch=7,", ""},
		"two epochs":                    {"quarry.storage/epoch=7,", "quarry.storage/epoch=7,quarry.storage/epoch=8,"},
		"an epoch that is no number":    {"epoch=7", "epoch=x"},
		"epoch zero":                    {"epoch=7", "epoch=0"},
		"another system ID":             {`"vg_systemid":"quarry-1`, `"vg_systemid":"quarry-2`},
		"no system ID":                  {`"vg_systemid":"quarry-11111111-2222-3333-4444-555555555555"`, `"vg_systemid":""`},
		"two devices":                   {`"pv_count":"1"`, `"pv_count":"2"`},
		"a device that is missing":      {`"vg_missing_pv_count":"0"`, `"vg_missing_pv_count":"1"`},
		"a part that is missing":        {`"vg_partial":"0"`, `"vg_partial":"1"`},
		"an exported group":             {`"vg_exported":"0"`, `"vg_exported":"1"`},
		"a duplicate device":            {`"pv_duplicate":"0"`, `"pv_duplicate":"1"`},
		"no sequence number":            {`"vg_seqno":"9"`, `"vg_seqno":""`},
		"a column that is not there":    {`"pe_start":"17825792", `, ``},
		"a volume that is not linear":   {`"lv_layout":"linear"`, `"lv_layout":"striped"`},
		"a volume that LVM activated":   {`"lv_active_locally":"0"`, `"lv_active_locally":"1"`},
		"nobody knows if LVM has it":    {`"lv_active_locally":"0"`, `"lv_active_locally":"-1"`},
		"a reader without a boot":       {"held-by=n1,", "held-by=n1,quarry.storage/reader=n2,"},
		"a volume that two nodes hold":  {"held-by=n1,", "held-by=n1,quarry.storage/held-by=n2,"},
		"a mark that cannot be read":    {"ready=8388608", "ready=all"},
		"a mark with a sign":            {"ready=8388608", "ready=+8388608"},
		"more ready than there is":      {"ready=8388608", "ready=33554432"},
		"a segment that is not linear":  {`"segtype":"linear"`, `"segtype":"striped"`},
		"a segment on two devices":      {"/dev/ubdb:0-1", "/dev/ubdb:0-0 /dev/ubdc:0-0"},
		"a segment on no device":        {"/dev/ubdb:0-1", ""},
		"a segment of another size":     {"/dev/ubdb:0-1", "/dev/ubdb:0-2"},
		"a segment that is left out":    {`"seg_start_pe":"2"`, `"seg_start_pe":"3"`},
		"a volume without segments":     {`"lv_uuid":"jEZoDe-bC5T-H2qz-YsIR-0vc2-AYmI-KLnJvB", "segtype"`, `"lv_uuid":"other", "segtype"`},
		"two volumes at one place":      {"/dev/ubdb:2-3", "/dev/ubdb:4-5"},
		"two volumes that overlap":      {"/dev/ubdb:2-3", "/dev/ubdb:3-4"},
		"no document":                   {"{", ""},
		"text behind the document":      {"      ]\n  }\n", "      ]\n  }\n{}"},
		"a number that is none":         {`"lv_size":"16777216"`, `"lv_size":"16777216B"`},
		"a size that the ranges do not": {`"lv_size":"16777216"`, `"lv_size":"12582912"`},
	} {
		doc := recorded(t)
		bad := strings.Replace(doc, edit[0], edit[1], 1)
		if bad == doc {
			t.Errorf("%s: nothing was edited", name)
		}
		if g, err := parse([]byte(bad), owner); err == nil {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

func newLVM(t *testing.T, steps ...run.Step) (*LVM, *run.Fake) {
	t.Helper()
	fake := run.NewFake(steps...)
	l, err := lvm.New(lvm.Config{Runner: fake, Dir: filepath.Join(t.TempDir(), "lvm")})
	if err != nil {
		t.Fatal(err)
	}
	return New(l), fake
}

func TestLVM_argv(t *testing.T) {
	const (
		see  = " --devices " + device + " "
		as   = see + `--config local/extra_system_ids=["quarry-` + owner + `"] `
		pick = `-S vg_uuid="EJOuKj-cD6h-GGXp-49EQ-tSM8-Xxrl-JtVpvn" && vg_seqno=9 && vg_tags={"quarry.storage/iscsi=` + owner + `"}`
		lv   = pick + ` && lv_uuid="8AD8Uh-gR3m-AUdI-S0r1-Eqzm-EZDO-qI0cBB"`
		uuid = "Ab3dEf-1234-5678-9abc-DEFG-hijk-LMNOPQ"
	)
	v := want.Volumes[0]
	for name, c := range map[string]struct {
		call func(*LVM) error
		says string
		want string
	}{
		"make the physical volume": {
			func(l *LVM) error { return l.MakePV(t.Context(), device, owner, uuid, 1<<40) }, "",
			"pvcreate" + see + "--config local/extra_system_ids=[\"quarry-" + owner + "\"] --uuid " + uuid + " --norestorefile --setphysicalvolumesize 1099510579200b --metadatasize 67108864b " + device,
		},
		"make it on a small LUN": {
			func(l *LVM) error { return l.MakePV(t.Context(), device, owner, uuid, 512<<20) }, "",
			"pvcreate" + see + "--config local/extra_system_ids=[\"quarry-" + owner + "\"] --uuid " + uuid + " --norestorefile --setphysicalvolumesize 535822336b --metadatasize 8388608b " + device,
		},
		"make the group": {
			func(l *LVM) error { return l.MakeGroup(t.Context(), device, "shg", owner, 3) }, "",
			"vgcreate" + see + "--systemid quarry-" + owner + " --setautoactivation n --addtag quarry.storage/iscsi=" + owner + " --addtag quarry.storage/epoch=3 shg " + device,
		},
		"set the epoch": {
			func(l *LVM) error { return l.SetEpoch(t.Context(), device, want, 8) }, `  Volume group "shg" successfully changed`,
			"vgchange" + as + "--deltag quarry.storage/epoch=7 --addtag quarry.storage/epoch=8 " + pick + " shg",
		},
		"remove the group": {
			func(l *LVM) error { return l.RemoveGroup(t.Context(), device, want) }, `  Volume group "shg" successfully removed`,
			"vgremove" + as + pick + " shg",
		},
		"make a volume": {
			func(l *LVM) error {
				return l.CreateVolume(t.Context(), device, want, "v3", 8<<20, []string{"x=1", "y=2"})
			}, "",
			"lvcreate" + as + "--type linear --zero n --wipesignatures n --activate n -n v3 -L 8388608b --addtag x=1 --addtag y=2 shg",
		},
		"extend a volume": {
			func(l *LVM) error { return l.Extend(t.Context(), device, want, v, 32<<20) }, "", "lvextend" + as + "-L 33554432b shg/v1",
		},
		"remove a volume": {
			func(l *LVM) error { return l.RemoveVolume(t.Context(), device, want, v) }, `  Logical volume "v1" successfully removed.`,
			"lvremove" + as + lv + " shg/v1",
		},
		"replace a tag": {
			func(l *LVM) error { return l.Retag(t.Context(), device, want, v, []string{"a=1"}, []string{"a=2"}) }, "  Logical volume shg/v1 changed.",
			"lvchange" + as + "--deltag a=1 --addtag a=2 " + lv + " shg/v1",
		},
		"add a tag": {
			func(l *LVM) error { return l.Retag(t.Context(), device, want, v, nil, []string{"a=2"}) }, "  Logical volume shg/v1 changed.",
			"lvchange" + as + "--addtag a=2 " + lv + " shg/v1",
		},
	} {
		l, fake := newLVM(t, run.Step{Result: run.Result{Stdout: []byte(c.says)}})
		if err := c.call(l); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		call := fake.Calls()[0]
		if got := strings.Join(call.Args, " "); got != c.want || len(call.Stdin) > 0 {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.want)
		}
		for _, a := range call.Args {
			if a == "-y" || a == "--yes" || strings.HasPrefix(a, "-f") || a == "--force" {
				t.Errorf("%s skips a question: %q", name, call.Args)
			}
		}
		if c.says == "" {
			continue
		}
		// LVM says nothing, and succeeds, where it finds nothing that fits.
		l, _ = newLVM(t, run.Step{Result: run.Result{}})
		if err := c.call(l); !errors.Is(err, sharedlun.ErrMoved) {
			t.Errorf("%s, in silence: %v", name, err)
		}
	}
}

func TestLVM_refusesBeforeAnyCommand(t *testing.T) {
	option, path := want, want
	option.Name, path.UUID = "-y", "../x"
	v := want.Volumes[0]
	for name, call := range map[string]func(*LVM) error{
		"an option as a group":  func(l *LVM) error { return l.SetEpoch(t.Context(), device, option, 8) },
		"a path as a UUID":      func(l *LVM) error { return l.RemoveGroup(t.Context(), device, path) },
		"an option as a volume": func(l *LVM) error { return l.CreateVolume(t.Context(), device, want, "-y", 8<<20, nil) },
		"an option as a tag":    func(l *LVM) error { return l.CreateVolume(t.Context(), device, want, "v", 8<<20, []string{"--yes"}) },
		"an option to take off": func(l *LVM) error { return l.Retag(t.Context(), device, want, v, []string{"--yes"}, nil) },
		"an option as a name":   func(l *LVM) error { return l.MakeGroup(t.Context(), device, "--yes", owner, 1) },
		"an option as a device": func(l *LVM) error { return l.MakeGroup(t.Context(), "--yes", "g", owner, 1) },
		"no UUID":               func(l *LVM) error { return l.MakePV(t.Context(), device, owner, "", 1<<30) },
		"a LUN without room": func(l *LVM) error {
			return l.MakePV(t.Context(), device, owner, "Ab3dEf-1234-5678-9abc-DEFG-hijk-LMNOPQ", 1<<20)
		},
	} {
		l, fake := newLVM(t, run.Step{})
		if err := call(l); err == nil || len(fake.Calls()) > 0 {
			t.Errorf("%s: %v after %d commands", name, err, len(fake.Calls()))
		}
	}
}

// TestReport_stuck: while a report waits for its device there is no second one.
func TestReport_stuck(t *testing.T) {
	gone := make(chan struct{})
	l, fake := newLVM(t, run.Step{Err: &run.LeftError{Gone: gone, Cause: context.DeadlineExceeded}}, run.Step{Result: run.Result{Stdout: []byte(`{"report":[]}`)}})
	for range 2 {
		if _, err := l.Report(t.Context(), "/dev/lun", "owner"); !errors.Is(err, sharedlun.ErrUnread) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	}
	if fake.Left() != 1 {
		t.Errorf("%d commands are left of two", fake.Left())
	}
	close(gone)
	if _, err := l.Report(t.Context(), "/dev/lun", "owner"); errors.Is(err, context.DeadlineExceeded) || fake.Left() != 0 {
		t.Errorf("%v, %d commands are left", err, fake.Left())
	}
}
