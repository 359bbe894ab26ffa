package lvm

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/run"
)

// TestLVM_refreshDropsWhatIsLoadedFirst: LVM would make a loaded table live before it looks what the metadata says.
func TestLVM_refreshDropsWhatIsLoadedFirst(t *testing.T) {
	dev := t.TempDir()
	if err := os.Mkdir(filepath.Join(dev, "mapper"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fast--1-po--ol", "fast--1-po--ol-tpool", "fast--1-po--ol_tdata", "fast--1-other"} {
		if err := os.WriteFile(filepath.Join(dev, "mapper", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refresh := func(steps ...run.Step) ([]string, error) {
		fake := run.NewFake(steps...)
		l, err := New(Config{Runner: fake, Dir: filepath.Join(t.TempDir(), "lvm"), Dev: dev})
		if err != nil {
			t.Fatal(err)
		}
		err = l.RefreshLV(t.Context(), Owned{Name: "fast-1", Devices: []string{"/dev/a"}, Tag: tag}, "po-ol", volumeTag)
		var words []string
		for _, c := range fake.Calls() {
			words = append(words, filepath.Base(c.Path)+" "+c.Args[0]+" "+c.Args[len(c.Args)-1])
		}
		return words, err
	}
	got, err := refresh(run.Step{}, run.Step{}, run.Step{}, run.Step{})
	want := "dmsetup clear fast--1-po--ol, dmsetup clear fast--1-po--ol-tpool, dmsetup clear fast--1-po--ol_tdata, lvm lvchange fast-1/po-ol"
	if strings.Join(got, ", ") != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	broken := errors.New("broken")
	if got, err = refresh(run.Step{Err: broken}); !errors.Is(err, broken) || len(got) != 1 {
		t.Errorf("after a failure %q, %v", got, err)
	}
}

// TestLVM_ActivatePool: the metadata of a pool that holds volumes is looked at first. What is damaged is not activated, and told in every report
// until the pool is active.
func TestLVM_ActivatePool(t *testing.T) {
	const at = 3 * 4096
	two, none := recordedMetadata(t, "two"), recordedMetadata(t, "none")
	device := filepath.Join(t.TempDir(), "disk")
	where := func(name string) run.Step {
		return run.Step{Result: run.Result{Stdout: fmt.Appendf(nil, `{"report":[{"pvseg":[{"pv_name":%q,"pe_start":"4096","vg_extent_size":"4096",`+
			`"pvseg_start":"2","pvseg_size":"512","lv_name":"[%s_tmeta]","seg_start":"0"}]}]}`, device, name)}}
	}
	recorded := run.Step{Result: run.Result{Stdout: []byte(`{"report":[{"seg":[{"lv_name":"a","pool_lv":"p","transaction_id":"0","thin_id":"1"},` +
		`{"lv_name":"b","pool_lv":"p","transaction_id":"1","thin_id":"2"},{"lv_name":"p","pool_lv":"","transaction_id":"2","thin_id":""}]}]}`)}}
	broken := run.Step{Err: errors.New("broken")}
	told := func(l *LVM, active bool) string {
		groups := []VG{{Name: owned.Name, Tags: []string{"other", owned.Tag}, Volumes: []LV{{Name: "p", ThinPool: true, Active: active}, {Name: "q"}}}}
		l.damaged.tell(groups)
		return groups[0].Volumes[0].Damage + groups[0].Volumes[1].Damage
	}
	check := run.Step{Err: &run.Error{ExitCode: 5, Stderr: "  Check of pool g/p failed (status:1). Manual repair required!\n"}}
	older := run.Step{Err: &run.Error{ExitCode: 5, Stderr: "  Thin pool g-p-tpool (254:2) transaction_id is 0, while expected 2.\n"}}
	zero, spoiled := make([]byte, len(two)), append([]byte{two[0] + 1}, two[1:]...)
	for name, c := range map[string]struct {
		metadata []byte
		holds    bool
		steps    []run.Step
		want     error
	}{
		"well":                              {two, true, []run.Step{where("p"), recorded, {}}, nil},
		"its first block is zero":           {zero, true, []run.Step{where("p")}, ErrDamaged},
		"a new one, which begins like that": {zero, false, []run.Step{{}}, nil},
		"its volumes are not there":         {none, true, []run.Step{where("p"), recorded}, ErrDamaged},
		"only LVM's check can tell":         {spoiled, true, []run.Step{where("p"), recorded, check}, ErrDamaged},
		"LVM finds damage":                  {two, true, []run.Step{where("p"), recorded, check}, ErrDamaged},
		"the kernel has other metadata":     {two, true, []run.Step{where("p"), recorded, older}, ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(device, append(make([]byte, at), c.metadata...), 0o600); err != nil {
				t.Fatal(err)
			}
			l, fake := newLVM(t, c.steps...)
			if err := l.ActivatePool(t.Context(), owned, "p", volumeTag, c.holds); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if got := told(l, false); (got != "") != (c.want != nil) || fake.Left() != 0 {
				t.Errorf("told: %q; %d calls left", got, fake.Left())
			}
			if got := told(l, true) + told(l, false); got != "" {
				t.Errorf("a pool that was active since is %q", got)
			}
		})
	}
	for name, c := range map[string]struct {
		size  int64
		steps []run.Step
	}{
		"LVM does not tell where":            {at, []run.Step{where("other")}},
		"it cannot be read":                  {at, []run.Step{where("p")}},
		"LVM does not tell what it recorded": {1 << 20, []run.Step{where("p"), broken}},
	} {
		must(t, os.WriteFile(device, append(make([]byte, at), two...), 0o600), os.Truncate(device, c.size))
		l, fake := newLVM(t, c.steps...)
		if err := l.ActivatePool(t.Context(), owned, "p", volumeTag, true); err == nil || told(l, false) != "" || fake.Left() != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// recordedMetadata is metadata of a pool of transaction 2, of those that package thin was tested with.
func recordedMetadata(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("thin", "testdata", name+".gz"))
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	content, err := io.ReadAll(z)
	must(t, err)
	return content
}
