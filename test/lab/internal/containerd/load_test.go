package containerd

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
)

func tarOf(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		if err := addToTar(w, name, int64(len(content)), bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func saved(t *testing.T, layers ...[]byte) []byte {
	t.Helper()
	files := map[string][]byte{}
	names, diffIDs := []string{}, []string{}
	for _, l := range layers {
		name := blobName(digestOf(l)) + ".tar"
		names, diffIDs = append(names, name), append(diffIDs, digestOf(l))
		files[name] = l
	}
	config, err := json.Marshal(object{"rootfs": object{"type": "layers", "diff_ids": diffIDs}})
	if err != nil {
		t.Fatal(err)
	}
	files["config.json"] = config
	manifest, err := json.Marshal([]object{{"Config": "config.json", "RepoTags": []string{"example.com/a:1"}, "Layers": names}})
	if err != nil {
		t.Fatal(err)
	}
	files["manifest.json"] = manifest
	return tarOf(t, files)
}

func namesIn(t *testing.T, archive []byte) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names[header.Name] = true
	}
}

func TestSavedImage_writeOCILeavesPresentLayersOut(t *testing.T) {
	base := tarOf(t, map[string][]byte{"etc/os-release": []byte("base")})
	top := tarOf(t, map[string][]byte{"bin/agent": []byte("program")})
	archive := bytes.NewReader(saved(t, base, top))
	image, err := readSaved(archive)
	if err != nil || image == nil {
		t.Fatalf("readSaved = %v, %v", image, err)
	}
	var out bytes.Buffer
	if err := image.writeOCI(&out, archive, map[string]bool{digestOf(base): true}); err != nil {
		t.Fatal(err)
	}
	names := namesIn(t, out.Bytes())
	if names[blobName(digestOf(base))] {
		t.Error("a layer that is present is in the archive")
	}
	for _, want := range []string{"oci-layout", "index.json", blobName(digestOf(top)), blobName(digestOf(image.config))} {
		if !names[want] {
			t.Errorf("the archive lacks %s", want)
		}
	}
}

func TestReadSaved_compressedLayersAreLeftToTheRuntime(t *testing.T) {
	image, err := readSaved(bytes.NewReader(saved(t, append([]byte{0x1f, 0x8b}, make([]byte, 1024)...))))
	if err != nil || image != nil {
		t.Errorf("readSaved = %v, %v; want none", image, err)
	}
}
