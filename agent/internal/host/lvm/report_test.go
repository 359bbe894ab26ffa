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
	const vg = "TpiqIy-Ori2-nG7a-G1u6-BQZS-8r0n-wyIcYM"
	vgs, pvs, err := parseReport(recorded(t, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	wantVGs := []VG{{
		Name: "quarry-a", UUID: vg, SizeBytes: 201326592, FreeBytes: 184549376, ExtentBytes: 4 << 20,
		Tags: []string{"other", tag}, Volumes: []string{"v1", "v2"},
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
	if len(vgs) != 2 || !vgs[0].Duplicate || !vgs[1].Duplicate || len(vgs[0].Volumes) != 0 || len(vgs[1].Volumes) != 2 {
		t.Errorf("got %+v", vgs)
	}
}

func TestParseReport_hiddenVolumesAreLeftOut(t *testing.T) {
	doc := strings.Replace(string(recorded(t, "report.json")), `"lv_name":"v1"`, `"lv_name":"[v1_rimage_0]"`, 1)
	vgs, _, err := parseReport([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"v2"}, vgs[0].Volumes); diff != "" {
		t.Error(diff)
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
		"a group without a UUID":    strings.Replace(good, `"vg_uuid":"TpiqIy-Ori2-nG7a-G1u6-BQZS-8r0n-wyIcYM", "vg_size"`, `"vg_uuid":"", "vg_size"`, 1),
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
