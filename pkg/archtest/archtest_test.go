package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// listed is what `go list -json` tells of one package.
type listed struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	CgoFiles     []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// load lists every package of the module. Run with -count=1: the test cache does not see the listed sources.
func load(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-tags=e2e,hostroot,sanity", "-json=ImportPath,Dir,GoFiles,CgoFiles,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = filepath.Join("..", "..")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list output: %v", err)
		}
		packages = append(packages, p)
	}
	if len(packages) < 10 {
		t.Fatalf("go list found %d packages only", len(packages))
	}
	return packages
}

func TestImportRules(t *testing.T) {
	packages := load(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			checked := map[string]bool{}
			for _, p := range packages {
				if !bound(p.ImportPath, r.of) || bound(p.ImportPath, r.except) {
					continue
				}
				for _, prefix := range r.of {
					checked[prefix] = checked[prefix] || bound(p.ImportPath, []string{prefix})
				}
				checkRule(t, r, p)
			}
			for _, prefix := range r.of {
				if !checked[prefix] {
					t.Errorf("the rule binds no package in %s", prefix)
				}
			}
		})
	}
}

func checkRule(t *testing.T, r rule, p listed) {
	t.Helper()
	for _, d := range p.Deps {
		if withinAny(d, r.deny) && !withinAny(d, r.allow) {
			t.Errorf("%s reaches %s (go list -deps; `go mod why` tells the way)", relative(p.ImportPath), relative(d))
		}
	}
	for _, d := range p.Imports {
		for _, bad := range r.denyDirect {
			if d == bad {
				t.Errorf("%s imports %s", relative(p.ImportPath), d)
			}
		}
	}
}

func TestHostToolsAreIndependent(t *testing.T) {
	const host = module + "agent/internal/host/"
	for _, p := range load(t) {
		tool, ok := strings.CutPrefix(p.ImportPath, host)
		if !ok {
			continue
		}
		tool, _, _ = strings.Cut(tool, "/")
		for _, d := range p.Deps {
			other, ok := strings.CutPrefix(d, host)
			if !ok {
				continue
			}
			other, _, _ = strings.Cut(other, "/")
			if other != tool && other != "run" {
				t.Errorf("host/%s imports host/%s: tools must not know each other", tool, other)
			}
		}
	}
}

func TestOneImporter(t *testing.T) {
	for _, p := range load(t) {
		for _, d := range p.Imports {
			for restricted, importers := range onlyDirect {
				if d != restricted && !strings.HasPrefix(d, restricted+"/") {
					continue
				}
				if !bound(p.ImportPath, importers) {
					t.Errorf("%s imports %s: only %v may", relative(p.ImportPath), d, importers)
				}
			}
		}
	}
}
