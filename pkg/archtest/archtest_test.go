package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// listed is what `go list -json` tells of one package.
type listed struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	CgoFiles     []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// load returns every package of the module. Run with -count=1: the test cache does not see the listed sources.
func load(t *testing.T) []listed {
	t.Helper()
	packages, err := list()
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// list asks the go command once for all tests.
var list = sync.OnceValues(func() ([]listed, error) {
	cmd := exec.Command("go", "list", "-tags=cephbox,e2e,hostroot,sanity", "-json=ImportPath,Dir,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = filepath.Join("..", "..")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list output: %w", err)
		}
		packages = append(packages, p)
	}
	if len(packages) < 10 {
		return nil, fmt.Errorf("go list found %d packages only", len(packages))
	}
	return packages, nil
})

func TestImportRules(t *testing.T) {
	packages := load(t)
	names, known := backends(packages), reached(packages)
	for _, r := range rules {
		for _, entry := range r.idle(names, known) {
			t.Errorf("%s: %s stands for no package that there is: mend the rule, or take it off", r.name, entry)
		}
		r = r.withBackends(names)
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
					t.Errorf("the rule binds no package in %s: take it off the rule, or give all rooms of a backend the same name", prefix)
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

// siblings are rooms whose packages must not know each other, with what each of them may know besides itself.
var siblings = []struct {
	room    string
	allowed []string
}{
	{room: "agent/internal/host", allowed: []string{"run"}},
	{room: "agent/internal/apply"},
	{room: "controller/internal/backend"},
	{room: "controller/internal/csi", allowed: []string{"frame"}},
}

func TestSiblingsAreIndependent(t *testing.T) {
	packages := load(t)
	for _, s := range siblings {
		t.Run(s.room, func(t *testing.T) {
			checked := 0
			for _, p := range packages {
				name, ok := sibling(p.ImportPath, s.room)
				if !ok {
					continue
				}
				checked++
				for _, d := range p.Deps {
					if other, ok := sibling(d, s.room); ok && other != name && !slices.Contains(s.allowed, other) {
						t.Errorf("%s reaches %s: they must not know each other", relative(p.ImportPath), relative(d))
					}
				}
			}
			if checked < 2 {
				t.Errorf("%d packages in %s: the rule keeps nothing apart", checked, s.room)
			}
		})
	}
}

// sibling is the first element of a path below the room.
func sibling(path, room string) (string, bool) {
	below, ok := strings.CutPrefix(path, module+room+"/")
	name, _, _ := strings.Cut(below, "/")
	return name, ok
}

func TestOneImporter(t *testing.T) {
	packages := load(t)
	for restricted, importers := range onlyDirect {
		for _, prefix := range importers {
			if !slices.ContainsFunc(packages, func(p listed) bool { return bound(p.ImportPath, []string{prefix}) && p.imports(restricted) }) {
				t.Errorf("no package in %s imports %s: take it off the list", prefix, restricted)
			}
		}
	}
	for _, p := range packages {
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

// imports reports whether the package or a test of it imports a path, or one below that.
func (p listed) imports(prefix string) bool {
	return slices.ContainsFunc(slices.Concat(p.Imports, p.TestImports, p.XTestImports), func(d string) bool { return within(d, prefix) })
}

// reached returns the import paths of all packages of the tree, and of all that they and their tests import.
func reached(packages []listed) map[string]bool {
	all := map[string]bool{}
	for _, p := range packages {
		all[p.ImportPath] = true
		for _, d := range slices.Concat(p.Deps, p.Imports, p.TestImports, p.XTestImports) {
			all[d] = true
		}
	}
	return all
}
