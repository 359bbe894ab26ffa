// Package containerd puts image archives into the store of a container runtime
// that runs beside it. It knows archives and ctr, not nodes.
package containerd

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// Load imports an image archive in the format of `docker save` into the
// container runtime. Layers the runtime has already are not sent to it again:
// a user-mode kernel takes seconds for what a new build rarely changes. root is
// the runtime's directory; all that was written to its filesystem is on its
// disk when Load returns.
func Load(path, root string) error {
	archive, err := os.Open(path)
	if err != nil {
		return err
	}
	defer archive.Close()
	image, err := readSaved(archive)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if image == nil {
		return importArchive(path, root, nil)
	}
	out, err := exec.Command("ctr", "-n", "k8s.io", "content", "ls", "-q").Output()
	if err != nil {
		return fmt.Errorf("list the runtime's content: %w", err)
	}
	present := make(map[string]bool)
	for _, digest := range strings.Fields(string(out)) {
		present[digest] = true
	}
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(image.writeOCI(writer, archive, present)) }()
	return importArchive("-", root, reader)
}

func importArchive(path, root string, stdin io.Reader) error {
	// The client sends the content itself: the runtime's transfer service
	// takes twice as long.
	cmd := exec.Command("ctr", "-n", "k8s.io", "images", "import", "--local", path)
	cmd.Stdin = stdin
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import image: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return settle(root)
}

// Root is the directory of the container runtime of a node.
const Root = "/var/lib/containerd"

// settle waits until all that was written to the filesystem of a directory is
// on its disk. The runtime does not: a node that loses its power within half a
// minute of an import would come back with an image of empty files, under which
// each container ends at once.
func settle(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("write out the filesystem of %s: %w", dir, err)
	}
	return nil
}

// savedImage is an image in an archive of uncompressed layers.
type savedImage struct {
	names  []string
	config []byte
	layers []savedLayer
}

type savedLayer struct {
	digest       string
	offset, size int64
}

// readSaved finds the parts of a saved image; it is nil when the archive is of
// another kind.
func readSaved(archive io.ReadSeeker) (*savedImage, error) {
	small, places, err := indexTar(archive)
	if err != nil {
		return nil, err
	}
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if json.Unmarshal(small["manifest.json"], &manifest) != nil || len(manifest) != 1 {
		return nil, nil
	}
	image := &savedImage{names: manifest[0].RepoTags, config: small[manifest[0].Config]}
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(image.config, &config); err != nil || len(config.RootFS.DiffIDs) != len(manifest[0].Layers) {
		return nil, errors.Join(errors.New("its configuration does not fit its layers"), err)
	}
	for i, name := range manifest[0].Layers {
		layer, ok := places[name]
		if !ok || !layer.isTar(archive) {
			return nil, nil
		}
		// The digest of an uncompressed layer is the one the image's
		// configuration has of it.
		layer.digest = config.RootFS.DiffIDs[i]
		image.layers = append(image.layers, layer)
	}
	return image, nil
}

// maxSmall is up to which size files of an archive are kept while it is read.
const maxSmall = 1 << 20

func indexTar(archive io.ReadSeeker) (small map[string][]byte, places map[string]savedLayer, err error) {
	small, places = map[string][]byte{}, map[string]savedLayer{}
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return small, places, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		offset, err := archive.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, nil, err
		}
		places[header.Name] = savedLayer{offset: offset, size: header.Size}
		if header.Size <= maxSmall && strings.HasSuffix(header.Name, ".json") {
			if small[header.Name], err = io.ReadAll(r); err != nil {
				return nil, nil, err
			}
		}
	}
}

// isTar tells an uncompressed layer by the mark in its first header. An empty
// layer, which has none, is left to the runtime's own import.
func (l savedLayer) isTar(archive io.ReadSeeker) bool {
	const markOffset = 257
	mark := make([]byte, 5)
	if _, err := archive.Seek(l.offset+markOffset, io.SeekStart); err != nil {
		return false
	}
	_, err := io.ReadFull(archive, mark)
	return err == nil && string(mark) == "ustar"
}
