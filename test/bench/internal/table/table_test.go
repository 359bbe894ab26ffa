package table

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	if err := Write(out, []string{"testdata/volumes.json", "testdata/counts.json"}); err != nil {
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
		if err := Write(os.Stdout, []string{file}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
