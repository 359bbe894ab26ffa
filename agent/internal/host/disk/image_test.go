package disk

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30

	testSize = 64 * mib
)

// newImage makes an empty image file of the given size.
func newImage(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.img")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return path
}

// put writes bytes into an image; a negative offset counts from its end.
func put(t *testing.T, path string, off int64, b string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if off < 0 {
		st, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		off += st.Size()
	}
	if _, err := f.WriteAt([]byte(b), off); err != nil {
		t.Fatal(err)
	}
}

// tool runs a program on an image, or skips the test where the program is not installed.
func tool(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) || err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return out
}

// facts probes an image.
func facts(t *testing.T, path string) Facts {
	t.Helper()
	f, err := New().Probe(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func types(f Facts) map[string]bool {
	out := map[string]bool{}
	for _, s := range f.Signatures {
		out[s.Type] = true
	}
	return out
}
