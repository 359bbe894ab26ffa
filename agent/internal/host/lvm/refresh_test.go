package lvm

import (
	"errors"
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
