package image

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"quarry.storage/quarry/test/lab/internal/build"
)

func TestComposeSidecar_hasTheUsualNameAndEntrypoint(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("ELF"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := composeSidecar(dir, build.Sidecar{Name: "csi-resizer", Version: "v2.0.0"}, program); err != nil {
		t.Fatal(err)
	}
	entries := readArchive(t, filepath.Join(dir, archiveName))
	if want := []byte(`"registry.k8s.io/sig-storage/csi-resizer:v2.0.0"`); !bytes.Contains(entries["manifest.json"], want) {
		t.Errorf("manifest %s lacks %s", entries["manifest.json"], want)
	}
	for name, content := range entries {
		if name != "manifest.json" && filepath.Ext(name) == ".json" && !bytes.Contains(content, []byte(`"Entrypoint":["/csi-resizer"]`)) {
			t.Errorf("configuration %s does not start the program", content)
		}
	}
}
