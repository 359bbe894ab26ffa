package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ahead are storage types without a backend yet, and systems that have a client of their own. Their rooms may name them.
var ahead = []string{"cephfs", "ceph", "gluster", "iscsi"}

// named are the constants that name a storage type, a driver or a kind of storages; homes hold them.
var named = regexp.MustCompile(`^(StorageType|Driver|Kind)[A-Z]`)

var homes = []string{"pkg/quarry", "pkg/api/v1alpha1"}

// namer finds what names a storage type.
type namer struct {
	// types are the elements of a path that make it a room of one storage type.
	types []string
	// constants that name a storage type, a driver or a kind of storages.
	constants []string
	// kinds are the kinds of storages, as types of the API.
	kinds []string
	// words are literals that do.
	words *regexp.Regexp
	// literals is false where literals mean something else.
	literals bool
}

// newNamer knows the backends that the tree has, and the constants of their names.
func newNamer(t *testing.T, packages []listed) namer {
	t.Helper()
	n := namer{types: slices.Concat(backends(packages), ahead)}
	n.words = regexp.MustCompile(`^(` + strings.Join(n.types, "|") + `)([.]quarry[.]storage)?$`)
	for _, p := range packages {
		if slices.Contains(homes, relative(p.ImportPath)) {
			for _, f := range p.GoFiles {
				n.constants = append(n.constants, constantsIn(t, filepath.Join(p.Dir, f))...)
			}
		}
	}
	for _, c := range n.constants {
		if kind, ok := strings.CutPrefix(c, "Kind"); ok {
			n.kinds = append(n.kinds, kind)
		}
	}
	if len(n.constants) == 0 || len(n.kinds) < 2 {
		t.Fatalf("constants %v of kinds %v in %v: the rule finds too little", n.constants, n.kinds, homes)
	}
	return n
}

// constantsIn returns the constants StorageTypeX, DriverX and KindX of a file.
func constantsIn(t *testing.T, path string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			if v, ok := s.(*ast.ValueSpec); ok {
				for _, name := range v.Names {
					if named.MatchString(name.Name) {
						found = append(found, name.Name)
					}
				}
			}
		}
	}
	return found
}

// namers may name storage types although they are no room of one: the API, what both sides know of one type, and the places that put
// the program together or bind a kind to its backends, and what says of each type what a node lacks for it.
var namers = []string{
	"pkg/api", "pkg/quarry", "pkg/volumeid", "pkg/sharedlun", "pkg/sharedvolume", "pkg/cephvolume", "controller/internal/setup", "controller/internal/reconcile/cluster", "agent/agenttest", "agent/internal/doctor",
}

// words are packages in which a literal means something else. Constants count there as everywhere.
var words = map[string]string{
	"agent/internal/host/block":  "a kind of device-mapper device",
	"agent/internal/plan":        "what a disk carries",
	"pkg/transport":              "how a disk is attached",
	"controller/internal/agents": "the service of a package of the wire",
}

// TestStorageTypesStayInTheirRooms counts the packages that name a storage type, its driver or its kind outside its own rooms. `make verify` prints the count.
func TestStorageTypesStayInTheirRooms(t *testing.T) {
	outside, packages := 0, load(t)
	n := newNamer(t, packages)
	for _, p := range packages {
		name := relative(p.ImportPath)
		if !bound(p.ImportPath, []string{"agent", "controller", "pkg"}) || name == "agent" || bound(p.ImportPath, namers) || n.isRoom(name) {
			continue
		}
		n.literals = words[name] == ""
		var found []string
		for _, f := range slices.Concat(p.GoFiles, p.CgoFiles) {
			found = append(found, n.namedIn(t, filepath.Join(p.Dir, f))...)
		}
		if len(found) > 0 {
			outside++
			t.Errorf("%s names storage types: %s. Let the backend say what differs (its Profile, View or driver), or move the code to a room of "+
				"the backend", name, strings.Join(found, ", "))
		}
	}
	t.Logf("packages that name a storage type outside its own rooms: %d", outside)
}

func (n namer) isRoom(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(e string) bool { return slices.Contains(n.types, e) })
}

// namedIn returns the names of storage types in one file, each with its position.
func (n namer) namedIn(t *testing.T, path string) []string {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(f, func(node ast.Node) bool {
		text := ""
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.SelectorExpr:
			if x, ok := node.X.(*ast.Ident); ok && x.Name == "v1alpha1" && slices.Contains(n.kinds, node.Sel.Name) {
				text = "v1alpha1." + node.Sel.Name
			}
		case *ast.Ident:
			if slices.Contains(n.constants, node.Name) {
				text = node.Name
			}
		case *ast.BasicLit:
			if value, err := strconv.Unquote(node.Value); err == nil && n.literals && node.Kind == token.STRING && n.words.MatchString(value) {
				text = node.Value
			}
		}
		if text != "" {
			at := files.Position(node.Pos())
			found = append(found, text+" in "+filepath.Base(at.Filename)+":"+strconv.Itoa(at.Line))
		}
		return true
	})
	return found
}
