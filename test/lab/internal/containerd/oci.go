package containerd

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// object is a JSON document.
type object = map[string]any

const ociMediaType = "application/vnd.oci.image."

func ociDescriptor(kind string, digest string, size int64) object {
	return object{"mediaType": ociMediaType + kind, "digest": digest, "size": size}
}

// ociDocuments are the manifest of a saved image and the index that names it.
func (s *savedImage) ociDocuments() (manifest, index []byte, err error) {
	layers := []object{}
	for _, l := range s.layers {
		layers = append(layers, ociDescriptor("layer.v1.tar", l.digest, l.size))
	}
	manifest, err = json.Marshal(object{
		"schemaVersion": 2, "mediaType": ociMediaType + "manifest.v1+json",
		"config": ociDescriptor("config.v1+json", digestOf(s.config), int64(len(s.config))),
		"layers": layers,
	})
	if err != nil {
		return nil, nil, err
	}
	manifests := []object{}
	for _, name := range s.names {
		d := ociDescriptor("manifest.v1+json", digestOf(manifest), int64(len(manifest)))
		d["annotations"] = object{"io.containerd.image.name": name}
		manifests = append(manifests, d)
	}
	index, err = json.Marshal(object{"schemaVersion": 2, "manifests": manifests})
	return manifest, index, err
}

// writeOCI writes the image as an OCI archive without the layers that are
// present.
func (s *savedImage) writeOCI(out io.Writer, archive io.ReadSeeker, present map[string]bool) error {
	manifest, index, err := s.ociDocuments()
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	for _, f := range []struct {
		name    string
		content []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", index},
		{blobName(digestOf(manifest)), manifest},
		{blobName(digestOf(s.config)), s.config},
	} {
		if err := addToTar(w, f.name, int64(len(f.content)), bytes.NewReader(f.content)); err != nil {
			return err
		}
	}
	for _, l := range s.layers {
		if present[l.digest] {
			continue
		}
		if _, err := archive.Seek(l.offset, io.SeekStart); err != nil {
			return err
		}
		if err := addToTar(w, blobName(l.digest), l.size, io.LimitReader(archive, l.size)); err != nil {
			return err
		}
	}
	return w.Close()
}

func addToTar(w *tar.Writer, name string, size int64, content io.Reader) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o644}); err != nil {
		return err
	}
	_, err := io.Copy(w, content)
	return err
}

func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

func blobName(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }
