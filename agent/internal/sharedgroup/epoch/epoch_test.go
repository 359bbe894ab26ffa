package epoch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const owner = "0f3b2c1d-1111-2222-3333-444455556666"

func TestFiles(t *testing.T) {
	f := Files{Dir: filepath.Join(t.TempDir(), "shared")}
	want := func(epoch uint64) {
		t.Helper()
		if got, err := f.Promised(owner); err != nil || got != epoch {
			t.Errorf("promised %d, %v, want %d", got, err, epoch)
		}
	}
	want(0)
	for _, c := range [][2]uint64{{3, 3}, {3, 3}, {2, 3}, {4, 4}, {1<<64 - 1, 1<<64 - 1}} {
		if err := f.Promise(owner, c[0]); err != nil {
			t.Fatal(err)
		}
		want(c[1])
	}
	if other, err := f.Promised("00000000-1111-2222-3333-444455556666"); err != nil || other != 0 {
		t.Errorf("another owner: %d, %v", other, err)
	}
	for _, bad := range []string{"", "..", "../x", "a/b", strings.Repeat("a", 65)} {
		if _, err := f.Promised(bad); err == nil {
			t.Errorf("owner %q", bad)
		}
		if err := f.Promise(bad, 1); err == nil {
			t.Errorf("owner %q", bad)
		}
	}
}

// TestFiles_cannotBeRead: what cannot be read is never taken for no promise, and never replaced.
func TestFiles_cannotBeRead(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "cut off": "12", "no number": "twelve\n", "zero": "0\n", "negative": "-1\n", "two lines": "1\n2\n", "spaces": " 1\n",
		"zeroes of a filesystem that crashed": "\x00\x00\x00",
	} {
		f := Files{Dir: t.TempDir()}
		path := filepath.Join(f.Dir, owner, file)
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := f.Promised(owner); err == nil {
			t.Errorf("%s: %d", name, n)
		}
		if err := f.Promise(owner, 7); err == nil {
			t.Errorf("%s: replaced", name)
		}
	}
	f := Files{Dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(f.Dir, owner), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Promised(owner); err == nil {
		t.Errorf("a file in the place of the directory: %d", n)
	}
	f = Files{Dir: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(f.Dir, owner, file), 0o700); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Promised(owner); err == nil {
		t.Errorf("a directory in the place of the file: %d", n)
	}
}

// TestFiles_cutOff: a promise that was cut off before its name was there is made again.
func TestFiles_cutOff(t *testing.T) {
	f := Files{Dir: t.TempDir()}
	if err := f.Promise(owner, 3); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.Dir, owner, file+".new"), []byte("4"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Promised(owner); err != nil || n != 3 {
		t.Errorf("%d, %v", n, err)
	}
	if err := f.Promise(owner, 5); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Promised(owner); err != nil || n != 5 {
		t.Errorf("%d, %v", n, err)
	}
}
