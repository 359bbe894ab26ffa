package node

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quarry.storage/quarry/test/bench/internal/measure"
)

func TestMemory_ofThisProcess(t *testing.T) {
	m, err := memory(os.Getpid())
	if err != nil || m.ResidentKiB <= 0 || m.AnonymousKiB <= 0 || m.AnonymousKiB > m.ResidentKiB {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestBench_timeLeavesTheFirstRoundOut(t *testing.T) {
	b := &Bench{cfg: Config{Log: io.Discard}}
	for _, round := range []int{firstRound, 0, 1} {
		if err := b.time(measure.Contender{Who: measure.Bare}, measure.Create, round, 1, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.report.Samples); n != 2 {
		t.Errorf("%d samples", n)
	}
}

func TestRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), CountedName)
	if got, err := records(path); err != nil || len(got) != 0 {
		t.Errorf("of nothing: %v, %v", got, err)
	}
	text := `{"name":"lvcreate","milliseconds":1.5,"began":"2026-01-02T03:04:05Z"}` + "\n"
	if err := os.WriteFile(path+".record", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := records(path)
	if err != nil || len(got) != 1 || got[0].Name != "lvcreate" || got[0].Milliseconds != 1.5 || got[0].Began.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCopyPrivate_narrowsToTheDisk(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	conf := "config {\n}\ndevices {\n\tdir=\"/dev\"\n}\nbackup {\n\tarchive_dir=\"" + from + "/archive\"\n}\n"
	if err := os.WriteFile(filepath.Join(from, "lvm.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := copyPrivate(from, to, "/dev/ubdx"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(to, "lvm.conf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"devices {\n\tfilter=[ \"a|^/dev/ubdx$|\", \"r|.*|\" ]\n", "archive_dir=\"" + to + "/archive\""} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}
