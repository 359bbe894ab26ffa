package measure

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadCeph(t *testing.T) {
	got, err := ReadCeph(strings.NewReader("=== RUN\n    a_test.go:30: CephBench: bring-up took 300.5 s\n    a_test.go:30: CephBench: round 1 cephfs claim to Bound took 1.250 s\n" +
		"    a_test.go:30: CephBench: round 1 lvm claim to Bound took 0.500 s\n    a_test.go:30: CephBench: ceph-osd has 70000 KiB, of it anonymous 50000 KiB\nPASS\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Sample{
		{Contender{Who: CephFS}, BringUp, 0, 300500}, {Contender{Who: CephFS}, ClaimToBound, 1, 1250}, {Contender{Who: LVM}, ClaimToBound, 1, 500},
	}
	if diff := cmp.Diff(want, got.Samples); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(got.Daemons) != 1 || got.Daemons[0].Process != "ceph-osd" || got.Daemons[0].ResidentKiB != 70000 || got.Daemons[0].AnonymousKiB != 50000 {
		t.Errorf("%+v", got.Daemons)
	}
	if s := Ratio(got.Samples, ClaimToBound, Contender{Who: CephFS}, Contender{Who: LVM}); s.Count != 1 || s.Median != 2.5 {
		t.Errorf("%+v", s)
	}
}

func TestReadCeph_refuses(t *testing.T) {
	const memory = "CephBench: ceph-osd has 70000 KiB, of it anonymous 50000 KiB\n"
	for name, lines := range map[string]string{
		"no figures":           "FAIL\n",
		"it did not end":       "CephBench: bring-up took 300.5 s\n",
		"no seconds":           memory + "CephBench: bring-up took a while s\n",
		"what nobody times":    memory + "CephBench: round 1 cephfs rest took 1.0 s\n",
		"somebody else":        memory + "CephBench: round 1 nfs claim to Bound took 1.0 s\n",
		"less than nothing":    memory + "CephBench: bring-up took -1.0 s\n",
		"no time":              memory + "CephBench: bring-up\n",
		"a round with no name": memory + "CephBench: round 1 took 1.0 s\n",
	} {
		if got, err := ReadCeph(strings.NewReader(lines)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
