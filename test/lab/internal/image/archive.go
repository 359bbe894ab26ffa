// Package image makes container images without a registry: small ones put
// together file by file, bigger ones built from a Dockerfile on bases that are
// made here. It knows image formats and buildah, not the lab's nodes.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// archive is an image of one layer, in the format of `docker save`.
type archive struct {
	// Name is the image's name with its tag.
	Name   string
	Config config
}

// config is what the image says about running it.
type config struct {
	Env        []string `json:"Env,omitempty"`
	Entrypoint []string `json:"Entrypoint,omitempty"`
	Cmd        []string `json:"Cmd,omitempty"`
	User       string   `json:"User,omitempty"`
	WorkingDir string   `json:"WorkingDir,omitempty"`
}

// revision is part of every archive's cache key: raising it makes all anew.
const revision = "2"

// epoch is the time in everything made here: equal inputs give equal images.
var epoch = time.Unix(0, 0).UTC()

// write makes the archive at path from the uncompressed tar file of its layer.
func (a archive) write(path, layerPath string) error {
	layer, err := os.Open(layerPath)
	if err != nil {
		return err
	}
	defer layer.Close()
	digest := sha256.New()
	size, err := io.Copy(digest, layer)
	if err != nil {
		return err
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return err
	}
	layerID := hex.EncodeToString(digest.Sum(nil))
	configJSON, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "created": epoch,
		"config": a.Config,
		// Builders count the entries that made a layer.
		"history": []map[string]any{{"created": epoch, "created_by": "lab"}},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + layerID}},
	})
	if err != nil {
		return err
	}
	configName := fmt.Sprintf("%x.json", sha256.Sum256(configJSON))
	manifest, err := json.Marshal([]map[string]any{{
		"Config": configName, "RepoTags": []string{a.Name}, "Layers": []string{layerID + ".tar"},
	}})
	if err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	for _, entry := range []struct {
		name    string
		size    int64
		content io.Reader
	}{
		{"manifest.json", int64(len(manifest)), bytes.NewReader(manifest)},
		{configName, int64(len(configJSON)), bytes.NewReader(configJSON)},
		{layerID + ".tar", size, layer},
	} {
		if err := w.WriteHeader(&tar.Header{Name: entry.name, Size: entry.size, Mode: 0o644, ModTime: epoch}); err != nil {
			return err
		}
		if _, err := io.Copy(w, entry.content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Close()
}

// layerWriter puts a layer together.
type layerWriter struct{ tar *tar.Writer }

func (l layerWriter) dir(name string, mode int64) error {
	return l.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, ModTime: epoch})
}

func (l layerWriter) file(name string, mode int64, content []byte) error {
	if err := l.tar.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content)), ModTime: epoch}); err != nil {
		return err
	}
	_, err := l.tar.Write(content)
	return err
}

func (l layerWriter) link(name, target string) error {
	return l.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, ModTime: epoch})
}

// writeLayer makes a layer's tar file.
func writeLayer(path string, fill func(layerWriter) error) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	if err := fill(layerWriter{w}); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Close()
}
