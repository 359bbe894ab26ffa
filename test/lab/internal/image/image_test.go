package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestBaseNames(t *testing.T) {
	dockerfile := `# syntax comment
FROM --platform=linux/amd64 docker.io/library/debian:trixie-slim AS tools
RUN true
FROM tools AS more
FROM scratch
from gcr.io/distroless/static-debian12:nonroot
COPY --from=tools /x /x
`
	want := []string{trixieSlim, distroless}
	if got := baseNames(dockerfile); !slices.Equal(got, want) {
		t.Errorf("baseNames = %v, want %v", got, want)
	}
}

func TestArchive_isReproducibleAndNamesItsLayer(t *testing.T) {
	dir := t.TempDir()
	a := archive{Name: "example.com/a:1", Config: config{Entrypoint: []string{"/a"}}}
	fill := func(l layerWriter) error { return l.file("a", 0o755, []byte("program")) }
	if err := a.compose(dir, fill); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, archiveName)
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.compose(dir, fill); err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(path)
	if err != nil || string(first) != string(second) {
		t.Errorf("the same content gives another archive (%v)", err)
	}

	entries := readArchive(t, path)
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(entries["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || manifest[0].RepoTags[0] != a.Name {
		t.Fatalf("manifest = %+v", manifest)
	}
	for _, name := range append(manifest[0].Layers, manifest[0].Config) {
		if _, ok := entries[name]; !ok {
			t.Errorf("the archive lacks %s", name)
		}
	}
}

func readArchive(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	entries := map[string][]byte{}
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		if entries[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
