package iscsi

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"quarry.storage/quarry/test/lab/internal/spec"
)

// plain is a tree of plain files, in which the kernel's attributes are there
// before they are written.
func plain(t *testing.T, targets ...spec.Target) tree {
	t.Helper()
	f := tree{t.TempDir()}
	for _, target := range targets {
		var steps []step
		for _, l := range target.LUNs {
			steps = append(steps, backstore(l)...)
		}
		for _, s := range append(steps, served(target, initiators)...) {
			if s.do == write {
				must(t, os.MkdirAll(filepath.Dir(f.at(s.path)), 0o755))
			}
		}
		must(t, os.MkdirAll(f.at(groupDir(target)+"/lun"), 0o755))
		must(t, f.serve(target, initiators))
	}
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestServe_mayBeRepeated(t *testing.T) {
	f := plain(t, one, two)
	// A disk that is served cannot be taken a second time.
	control := f.at(backstoreDir(one.LUNs[0]) + "/control")
	must(t, os.Remove(control))
	must(t, f.serve(one, initiators))
	if _, err := os.Stat(control); err == nil {
		t.Error("a disk was taken twice")
	}
	to, err := os.Readlink(f.at(groupDir(one) + "/acls/" + initiators[1] + "/lun_1/lun"))
	if err != nil || to != f.at(groupDir(one)+"/lun/lun_1") {
		t.Errorf("LUN 1 of an initiator leads to %s, %v", to, err)
	}
	if !f.says(groupDir(two)+"/enable", "0") || !f.says(groupDir(one)+"/enable", "1") {
		t.Error("the wrong target is stopped")
	}
}

func TestSays_readsTheUnitSerial(t *testing.T) {
	f := tree{t.TempDir()}
	must(t, os.WriteFile(f.at("serial"), []byte("T10 VPD Unit Serial Number: abc\n"), 0o600))
	for value, want := range map[string]bool{"abc": true, "bc": false, "": false} {
		if f.says("serial", value) != want {
			t.Errorf("it says %q: %t", value, !want)
		}
	}
	if f.says("missing", "") {
		t.Error("an attribute that is not there has a value")
	}
}

// TestDrop_keepsWhatStays: a LUN number that is to have another disk loses the
// one that it has, at its initiators too. The other LUN, the other path and the
// other target stay.
func TestDrop_keepsWhatStays(t *testing.T) {
	f := plain(t, one, two)
	must(t, os.RemoveAll(f.at(backstoreDir(one.LUNs[0]))))
	foreign := f.at("iscsi/iqn.2003-01.org.example:x/tpgt_1")
	must(t, os.MkdirAll(foreign, 0o755))
	wiped := one
	wiped.Portals = 1
	wiped.LUNs = []spec.LUN{{Serial: "dd", Device: "/dev/ubdf"}, one.LUNs[1]}
	must(t, f.drop(Wish{Targets: []spec.Target{wiped, two}}))
	want := []string{
		"iscsi/" + one.IQN() + "/tpgt_1/lun/lun_1/disk", "iscsi/" + two.IQN() + "/tpgt_1/lun/lun_0/disk",
	}
	if got := f.list("iscsi/*/tpgt_1/lun/lun_*/disk"); !slices.Equal(got, want) {
		t.Errorf("served are %q, want %q", got, want)
	}
	if got := f.list(groupDir(one) + "/acls/*/lun_0"); len(got) != 0 {
		t.Errorf("initiators still have %q", got)
	}
	if got := f.list(groupDir(one) + "/acls/*/lun_1/lun"); len(got) != 2 {
		t.Errorf("of the LUN that stays initiators have %q", got)
	}
	if got := f.list("iscsi/*/tpgt_1/np/*"); len(got) != 2 {
		t.Errorf("portals are %q", got)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a target of somebody else: %v", err)
	}
}
