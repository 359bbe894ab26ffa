package lvm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	uuidA = "AAAAAA-aaaa-bbbb-cccc-dddd-eeee-ffffff"
	uuidB = "BBBBBB-aaaa-bbbb-cccc-dddd-eeee-ffffff"
	uuidC = "CCCCCC-aaaa-bbbb-cccc-dddd-eeee-ffffff"
	tag   = "quarry.storage/cluster=8f14e45f-ceea-467f-9575-2d3c1f0a7c11"
)

func recorded(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseReport(t *testing.T) {
	const vg = "juVDIO-kVXA-Dagm-Sz5d-CFns-MQpJ-MG3XOL"
	vgs, pvs, err := parseReport(recorded(t, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	wantVGs := []VG{{
		Name: "quarry-a", UUID: vg, SizeBytes: 201326592, FreeBytes: 184549376, ExtentBytes: 4 << 20, Change: 7,
		Tags: []string{"other", tag}, Volumes: []LV{
			{
				Name: "v1", UUID: "FeNBPs-a26H-GjtB-H1LE-VjnD-Hgx3-kxKSFd", SizeBytes: 8 << 20, CreatedUnix: 1795229400,
				Tags: []string{"quarry.storage/new", "quarry.storage/volume=n1/quarry-a/v1"},
			},
			{Name: "v2", UUID: "pP5wZ7-0hD1-nT2Z-XhED-NKk1-jT3r-01OQoH", SizeBytes: 8 << 20, CreatedUnix: 1795229400},
		},
	}}
	wantPVs := []PV{
		{Path: "/dev/loop2", UUID: uuidC, Major: 7, Minor: 2, SizeBytes: 104857600, FreeBytes: 104857600},
		{Path: "/dev/loop0", UUID: uuidA, Major: 7, SizeBytes: 100663296, FreeBytes: 83886080, UsedBytes: 16777216, VGName: "quarry-a", VGUUID: vg},
		{Path: "/dev/loop1", UUID: uuidB, Major: 7, Minor: 1, SizeBytes: 100663296, FreeBytes: 100663296, VGName: "quarry-a", VGUUID: vg},
	}
	if diff := cmp.Diff(wantVGs, vgs); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantPVs, pvs); diff != "" {
		t.Errorf("physical volumes (-want +got):\n%s", diff)
	}
}

func TestParseReport_partial(t *testing.T) {
	vgs, pvs, err := parseReport(recorded(t, "report-partial.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(vgs) != 1 || !vgs[0].Partial || vgs[0].MissingPVs != 1 {
		t.Errorf("groups: %+v", vgs)
	}
	if len(pvs) != 2 || !pvs[0].Missing || pvs[0].Path != "" || pvs[0].UUID != uuidB || pvs[1].Missing {
		t.Errorf("physical volumes: %+v", pvs)
	}
}

func TestParseReport_duplicateNameIsFlagged(t *testing.T) {
	vgs, _, err := parseReport(recorded(t, "report-duplicate.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(vgs) != 2 || vgs[0].Name != vgs[1].Name || vgs[0].UUID == vgs[1].UUID || len(vgs[0].Volumes) != 0 || len(vgs[1].Volumes) != 2 {
		t.Errorf("got %+v", vgs)
	}
}

func TestParseReport_hiddenVolumesAreLeftOut(t *testing.T) {
	doc := strings.Replace(string(recorded(t, "report.json")), `"lv_name":"v1"`, `"lv_name":"[v1_rimage_0]"`, 1)
	vgs, _, err := parseReport([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if len(vgs[0].Volumes) != 1 || vgs[0].Volumes[0].Name != "v2" {
		t.Errorf("got %+v", vgs[0].Volumes)
	}
}

func TestParseReport_refuses(t *testing.T) {
	good := string(recorded(t, "report.json"))
	tests := map[string]string{
		"nothing":                   "",
		"no JSON":                   "vg0 1 2",
		"no report":                 "{}",
		"text behind":               good + "more",
		"a document cut short":      good[:len(good)/2],
		"a missing field":           strings.Replace(good, `"vg_extent_size"`, `"other"`, 1),
		"a size with a suffix":      strings.Replace(good, `"201326592"`, `"201326592B"`, 1),
		"an empty size":             strings.Replace(good, `"201326592"`, `""`, 1),
		"a negative size":           strings.Replace(good, `"201326592"`, `"-1"`, 1),
		"a flag that is a word":     strings.Replace(good, `"pv_missing":"0"`, `"pv_missing":"missing"`, 1),
		"a volume without a name":   strings.Replace(good, `"lv_name":"v1", `, "", 1),
		"a group without a UUID":    strings.Replace(good, `"vg_uuid":"juVDIO-kVXA-Dagm-Sz5d-CFns-MQpJ-MG3XOL", "vg_size"`, `"vg_uuid":"", "vg_size"`, 1),
		"a percentage of words":     strings.Replace(good, `"data_percent":""`, `"data_percent":"much"`, 1),
		"a share above the whole":   strings.Replace(good, `"data_percent":""`, `"data_percent":"100.01"`, 1),
		"an activity of words":      strings.Replace(good, `"lv_active_locally":"-1"`, `"lv_active_locally":"maybe"`, 1),
		"a volume without a UUID":   strings.Replace(good, `"lv_uuid":"FeNBPs-a26H-GjtB-H1LE-VjnD-Hgx3-kxKSFd"`, `"lv_uuid":""`, 1),
		"a time that is a date":     strings.Replace(good, `"lv_time":"1795229400"`, `"lv_time":"2026-11-21"`, 1),
		"a number that is too wide": strings.Replace(good, `"pv_major":"7"`, `"pv_major":"99999999999"`, 1),
	}
	for name, doc := range tests {
		if doc == good {
			t.Fatalf("%s: nothing replaced", name)
		}
		if vgs, pvs, err := parseReport([]byte(doc)); err == nil {
			t.Errorf("%s: accepted: %+v %+v", name, vgs, pvs)
		}
	}
}

func TestParseReport_volumesOfAThinPool(t *testing.T) {
	vgs, _, err := parseReport(recorded(t, "report-volumes.json"))
	if err != nil || len(vgs) != 1 {
		t.Fatalf("%+v, %v", vgs, err)
	}
	want := []LV{
		{
			Name: "c1", UUID: "zdcZ20-cW0y-LJ9v-UPoQ-nm2j-xXn7-0rfwfG", SizeBytes: 301989888, Tags: []string{"quarry.storage/volume=c1"},
			Pool: "pool", Origin: "t1", Active: true, DataPermyriad: 1736, CreatedUnix: 1795228307, Thin: &Thin{DeviceID: 1},
		},
		{
			Name: "c2", UUID: "nwiglJ-E9O1-Giqn-ZAWd-3Yu9-48sw-O27NUe", SizeBytes: 301989888, Tags: []string{"quarry.storage/volume=c2"},
			Pool: "pool", Origin: "s1", Active: true, DataPermyriad: 1736, CreatedUnix: 1795228310, Thin: &Thin{TransactionID: 1, DeviceID: 2},
		},
		{
			Name: "pool", UUID: "0O45N1-D2zc-peLU-BPCB-4w4E-GwtW-nvBFM0", SizeBytes: 524288000, Tags: []string{"quarry.storage/pool"},
			ThinPool: true, Active: true, Open: true, MetadataBytes: 4 << 20, DataPermyriad: 1000, MetadataPermyriad: 1133, CreatedUnix: 1795228299,
			Thin: &Thin{TransactionID: 4, ChunkBytes: 64 << 10},
		},
		{
			Name: "s1", UUID: "FX0af2-MpDc-yv30-FyZr-jehb-bIj2-QF8b4o", SizeBytes: 301989888,
			Tags: []string{"quarry.storage/snapshot", "quarry.storage/volume=s1"}, Pool: "pool", Origin: "t1", CreatedUnix: 1795228309,
			Thin: &Thin{TransactionID: 2, DeviceID: 3},
		},
		{
			Name: "t1", UUID: "iEQIvl-xOSd-ZTr2-8oda-rGHZ-bpyo-S2FO1M", SizeBytes: 301989888, Tags: []string{"quarry.storage/volume=t1"},
			Pool: "pool", Active: true, DataPermyriad: 1736, CreatedUnix: 1795228301, Thin: &Thin{TransactionID: 3, DeviceID: 4},
		},
		{
			Name: "v1", UUID: "dANz0T-YT0M-ld3k-7SFl-XXf2-dWrf-kGvzPi", SizeBytes: 209715200, Tags: []string{"quarry.storage/volume=pvc-1"},
			Active: true, CreatedUnix: 1795228293,
		},
	}
	if diff := cmp.Diff(want, vgs[0].Volumes); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
}

// TestParseReport_damaged: LVM writes what it does into the middle of the document when it meets damaged metadata. All that is not damaged
// is reported, and the device that is does not count as one without a group.
func TestParseReport_damaged(t *testing.T) {
	vgs, pvs, err := parseReport(recorded(t, "report-damaged.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(vgs) != 1 || vgs[0].Name != "ours" || len(vgs[0].Volumes) != 1 || vgs[0].Partial {
		t.Errorf("groups: %+v", vgs)
	}
	want := []PV{
		{Path: "/dev/ubdc", UUID: "RrXfQ7-1cTC-fHZH-mG2p-ocx4-wsVT-tKIrgF", Major: 98, Minor: 32, SizeBytes: 536870912, Lost: true},
		{
			Path: "/dev/ubdb", UUID: "Lm3ok8-wR8x-XWkc-BW0Y-2ed7-vfM5-fp6hb2", Major: 98, Minor: 16, SizeBytes: 532676608, FreeBytes: 524288000,
			UsedBytes: 8388608, VGName: "ours", VGUUID: "4clpgv-I5nv-lzB5-MwX5-rF2r-xpiH-iCFq2S",
		},
	}
	if diff := cmp.Diff(want, pvs); diff != "" {
		t.Errorf("physical volumes (-want +got):\n%s", diff)
	}
}

// TestParseReport_suspended: either mark of a killed command counts. LVM says -1 of a volume that is not active.
func TestParseReport_suspended(t *testing.T) {
	const suspended, loaded = `"lv_suspended":"0"`, `"lv_inactive_table":"0"`
	good := string(recorded(t, "report.json"))
	for name, c := range map[string]struct {
		doc  string
		want bool
	}{
		"neither":            {good, false},
		"suspended":          {strings.Replace(good, suspended, `"lv_suspended":"1"`, 1), true},
		"a table that waits": {strings.Replace(good, loaded, `"lv_inactive_table":"1"`, 1), true},
		"what is not active": {strings.Replace(good, suspended+", "+loaded, `"lv_suspended":"-1", "lv_inactive_table":"-1"`, 1), false},
	} {
		vgs, _, err := parseReport([]byte(c.doc))
		if err != nil || vgs[0].Volumes[0].Suspended != c.want || vgs[0].Volumes[1].Suspended {
			t.Errorf("%s: %+v, %v", name, vgs, err)
		}
	}
	if _, _, err := parseReport([]byte(strings.Replace(good, suspended, `"lv_suspended":"maybe"`, 1))); err == nil {
		t.Error("a word was taken")
	}
}

// TestParseReport_extents: of a volume with the tag the report says where it lies, and of a pvmove what it moves. The text is what LVM 2.03.16 says of one on two disks.
func TestParseReport_extents(t *testing.T) {
	doc := `{"report": [{"vg": [], "pv": [{"pv_name":"/dev/ubdb", "pv_uuid":"pv-1", "pv_major":"1", "pv_minor":"1", "pv_size":"1", "pv_free":"0", "pv_used":"1",
			"pv_missing":"0", "pv_duplicate":"0", "vg_name":"g", "vg_uuid":"vg"}],
		"lv": [{"lv_name":"t1", "lv_uuid":"lv-t1", "vg_uuid":"vg", "lv_size":"4194304", "lv_tags":"quarry.storage/tail", "lv_layout":"linear",
			"pool_lv":"", "origin":"", "lv_active_locally":"1", "lv_device_open":"0", "lv_health_status":"", "lv_metadata_size":"", "data_percent":"",
			"metadata_percent":"", "lv_time":"1", "lv_suspended":"0", "lv_inactive_table":"0"}],
		"pvseg": [{"pv_uuid":"pv-2", "pvseg_start":"0", "pvseg_size":"127", "lv_uuid":"lv-t1", "lv_name":"t1", "move_pv":""},
			{"pv_uuid":"pv-1", "pvseg_start":"16", "pvseg_size":"98", "lv_uuid":"lv-t1", "lv_name":"t1", "move_pv":""},
			{"pv_uuid":"pv-1", "pvseg_start":"0", "pvseg_size":"10", "lv_uuid":"lv-m", "lv_name":"[pvmove0]", "move_pv":"/dev/ubdb"},
			{"pv_uuid":"pv-2", "pvseg_start":"127", "pvseg_size":"10", "lv_uuid":"lv-m", "lv_name":"[pvmove0]", "move_pv":"/dev/ubdb"}]}]}`
	doc = strings.Replace(doc, `"vg": []`, `"vg": [{"vg_name":"g", "vg_uuid":"vg", "vg_size":"1", "vg_free":"1", "vg_extent_size":"4", "vg_tags":"",
		"vg_missing_pv_count":"0", "vg_partial":"0", "vg_exported":"0", "vg_systemid":"", "vg_seqno":"7"}]`, 1)
	vgs, _, err := parseReport([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	want := []Extents{{PVUUID: "pv-1", First: 16, Count: 98}, {PVUUID: "pv-2", Count: 127}}
	if diff := cmp.Diff(want, vgs[0].Volumes[0].Extents); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&Moving{FromUUID: "pv-1", Bytes: 40}, vgs[0].Moving); diff != "" || len(vgs[0].Volumes) != 1 {
		t.Errorf("%d volumes, move: %s", len(vgs[0].Volumes), diff)
	}
}

// TestParseReport_emptied: LVM shows what a move left as hidden or not. It is none of the volumes; one with which a move is under way is a move, also one
// with images, as "pvmove --atomic" makes them, and one that does not tell what it stands on.
func TestParseReport_emptied(t *testing.T) {
	const left = `"lv_uuid":"lv-m", "vg_uuid":"vg", "lv_size":"4194304", "lv_tags":"",
		"pool_lv":"", "origin":"", "lv_active_locally":"1", "lv_device_open":"0", "lv_health_status":"", "lv_metadata_size":"", "data_percent":"",
		"metadata_percent":"", "lv_time":"1", "lv_suspended":"0", "lv_inactive_table":"0"`
	const segment = `{"pv_uuid":"pv-1", "pvseg_start":"0", "pvseg_size":"10", "lv_uuid":"lv-m", "lv_name":"[pvmove0]", "move_pv":"/dev/ubdb"}`
	const image = `{"pv_uuid":"pv-1", "pvseg_start":"0", "pvseg_size":"10", "lv_uuid":"lv-i", "lv_name":"[pvmove0_mimage_0]", "move_pv":""}`
	for name, c := range map[string]struct {
		volume, layout, segments, want string
		moving                         bool
	}{
		"hidden":               {"[pvmove0]", "unknown", "", "pvmove0", false},
		"shown":                {"pvmove12", "unknown", "", "pvmove12", false},
		"by another name":      {"[pvmove0]", "error", "", "pvmove0", false},
		"at work":              {"[pvmove0]", "mirror", segment, "", true},
		"at work, atomic":      {"[pvmove0]", "mirror", image, "", true},
		"shown, and not empty": {"pvmove0", "linear", "", "", true},
		"another's":            {"[pvmovement]", "linear", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			vgs, _, err := parseReport([]byte(`{"report": [{"vg": [{"vg_name":"g", "vg_uuid":"vg", "vg_size":"1", "vg_free":"1", "vg_extent_size":"4", "vg_tags":"",
				"vg_missing_pv_count":"0", "vg_partial":"0", "vg_exported":"0", "vg_systemid":"", "vg_seqno":"7"}], "lv": [{"lv_name":"` + c.volume + `", "lv_layout":"` + c.layout + `", ` + left + `}],
				"pvseg": [` + c.segments + `]}]}`))
			if err != nil {
				t.Fatal(err)
			}
			if vgs[0].Emptied != c.want || (vgs[0].Moving != nil) != c.moving || len(vgs[0].Volumes) != 0 {
				t.Errorf("left: %q, move %v, volumes %v", vgs[0].Emptied, vgs[0].Moving, vgs[0].Volumes)
			}
		})
	}
}
