package run

import (
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestReal_root runs this very program where it is the only file.
func TestReal_root(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := elf.Open(self)
	if err != nil {
		t.Skipf("this program is no ELF file: %v", err)
	}
	defer func() { _ = program.Close() }()
	if slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Skip("needs a test without cgo (CGO_ENABLED=0)")
	}
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "me"), content, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := Command{Path: "/me", Args: []string{"-test.list=^TestReal_root$"}}
	if _, err := (Real{}).Run(t.Context(), cmd); err == nil {
		t.Fatal("there is a /me outside")
	}
	cmd.Root = root
	res, err := Real{}.Run(t.Context(), cmd)
	if err != nil || !strings.Contains(string(res.Stdout), "TestReal_root") {
		t.Errorf("%s, %v", res.Stdout, err)
	}
}

func TestReal_rootRefused(t *testing.T) {
	for _, root := range []string{"tmp", ".", "/tmp\x00/x"} {
		if _, err := (Real{}).Run(t.Context(), Command{Path: "/bin/true", Root: root}); err == nil {
			t.Errorf("root %q is accepted", root)
		}
	}
	if _, err := (Real{}).Start(Command{Path: "/bin/true", Root: "/tmp"}); err == nil {
		t.Error("a process that is talked to gets a root of its own")
	}
}
