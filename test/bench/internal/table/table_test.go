package table

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/test/bench/internal/measure"
)

// update writes the golden page anew: go test ./test/bench/internal/table -update
var update = flag.Bool("update", false, "write the golden page")

func TestWrite_golden(t *testing.T) {
	golden := filepath.Join("testdata", "page.md")
	out, err := os.Create(filepath.Join(t.TempDir(), "page.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := Write(out, filepath.Join("testdata", "absent.md"), []string{"testdata/volumes.json", "testdata/counts.json", "testdata/shared.json", "testdata/ceph.json"}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWrite_refuses(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte("no report"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"an absent report": "testdata/absent.json", "what is no report": bad} {
		if err := Write(os.Stdout, filepath.Join("testdata", "absent.md"), []string{file}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestPage_keepsWhatWasNotMeasured: a page written from one report has the other sections of the page before, letter by letter.
func TestPage_keepsWhatWasNotMeasured(t *testing.T) {
	before, err := os.ReadFile(filepath.Join("testdata", "page.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(before), Page(measure.Report{}, string(before))); diff != "" {
		t.Errorf("nothing was measured (-before +after):\n%s", diff)
	}
	r := measure.Report{Machine: "Linux 7.0.0, LVM 2.04", Claims: []string{"last Bound after 1.0 s"}}
	after := Page(r, string(before))
	for title, text := range sections(string(before)) {
		got := sections(after)[title]
		if changed := title == "# Benchmarks" || title == "## A hundred claims"; changed == (got == text) {
			t.Errorf("%s: changed is %v:\n%s", title, !changed, got)
		}
	}
	if len(sections(after)) != len(sections(string(before))) {
		t.Errorf("sections were lost or made:\n%s", after)
	}
}
