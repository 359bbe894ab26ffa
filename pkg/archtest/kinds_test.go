package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ahead are names of rooms besides those of backends: storage types whose backend has another name, and systems that have a client of their own. Their rooms may name them.
var ahead = []string{"cephfs", "ceph", "gluster", "iscsi"}

// named are the constants that name a storage type, a driver, a kind of storages, an action of steps or a parameter of a StorageClass; homes hold them.
var named = regexp.MustCompile(`^(StorageType|Driver|Kind|Action|Parameter)[A-Z]`)

var homes = []string{"pkg/quarry", "pkg/api/v1alpha1"}

// singles are words in the names of types of the API, besides the names of backends, that make a type theirs, by the rooms that may name it. What it has in common with others has another
// name. Fields of such a type in others, such as Spec.Ceph, are not seen.
var singles = map[string]string{
	"lvm": `ThinPool|VolumeGroup|MemberGroup|^(Kind|Parameter)?Cluster$`, "iscsi": `MemberGroup|Lun`, "ceph": `OSD|^(Kind|Parameter)?Cluster$`, "cephfs": `(?i:ceph)`,
}

// namer finds what names a storage type.
type namer struct {
	// types are the elements of a path that make it a room of one storage type; owned is what is theirs, by the words in its name.
	types []string
	owned map[string]*regexp.Regexp
	// constants that name a storage type, a driver, a kind of storages, an action or a parameter.
	constants []string
	// kinds are the kinds of storages, and what else of the API's types is one backend's.
	kinds []string
	// words are literals that do.
	words *regexp.Regexp
	// files are the files of the API that declare types of one backend, single the names of such types in other files.
	files, single *regexp.Regexp
	// literals is false where literals mean something else.
	literals bool
}

// newNamer knows the backends that the tree has, and the constants of their names.
func newNamer(t *testing.T, packages []listed) namer {
	t.Helper()
	n := namer{types: systems(backends(packages)), owned: map[string]*regexp.Regexp{}}
	for _, of := range n.types {
		n.owned[of] = regexp.MustCompile(`(?i:` + of + `)` + strings.TrimSuffix("|"+singles[of], "|"))
	}
	all := strings.Join(n.types, "|")
	n.words = regexp.MustCompile(`^(` + all + `)([.]quarry[.]storage)?$`)
	n.files, n.single = regexp.MustCompile(`^(`+all+`|thinpool)`), regexp.MustCompile(`(?i:`+all+`)|`+strings.Join(slices.Sorted(maps.Values(singles)), "|"))
	for _, p := range packages {
		if slices.Contains(homes, relative(p.ImportPath)) {
			for _, f := range p.GoFiles {
				constants, types := n.declared(t, filepath.Join(p.Dir, f))
				n.constants, n.kinds = append(n.constants, constants...), append(n.kinds, types...)
			}
		}
	}
	for _, c := range n.constants {
		if kind, ok := strings.CutPrefix(c, "Kind"); ok {
			n.kinds = append(n.kinds, kind)
		}
	}
	if len(n.constants) < 50 || len(n.kinds) < 20 {
		t.Fatalf("constants %v of kinds %v in %v: the rule finds too little", n.constants, n.kinds, homes)
	}
	return n
}

// declared returns the constants of a file that name something of one backend, and the exported types that are one's.
func (n namer) declared(t *testing.T, path string) (constants, types []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if g.Tok == token.CONST && named.MatchString(name.Name) {
						constants = append(constants, name.Name)
					}
				}
			case *ast.TypeSpec:
				if s.Name.IsExported() && (n.files.MatchString(filepath.Base(path)) || n.single.MatchString(s.Name.Name)) {
					types = append(types, s.Name.Name)
				}
			}
		}
	}
	return constants, types
}

// words are packages in which a literal means something else. Constants count there as everywhere.
var words = map[string]string{
	"agent/internal/host/block":   "a kind of device-mapper device",
	"agent/internal/plan":         "what a disk carries",
	"pkg/transport":               "how a disk is attached",
	"controller/internal/agents":  "the service of a package of the wire",
	"controller/internal/gluster": "how glusterd2 makes a volume group of a device",
}

// TestStorageTypesStayInTheirRooms counts the packages that name a storage type, its driver, its kind, or an action, a parameter or a type of the API that is one backend's outside its own rooms. A room
// of one backend is counted if it names what has another one's words in its name. Most actions have no such words: they are seen in packages that are no room. `make verify` prints the count, and what is exempt
// with the reason.
func TestStorageTypesStayInTheirRooms(t *testing.T) {
	outside, packages := 0, load(t)
	n := newNamer(t, packages)
	used := map[string]bool{}
	for _, p := range packages {
		name := relative(p.ImportPath)
		if !bound(p.ImportPath, []string{"agent", "controller", "pkg"}) || name == "agent" {
			continue
		}
		if of, ok := namerOf(p.ImportPath); ok {
			used[of] = true
			continue
		}
		n.literals = words[name] == ""
		var found []string
		for _, f := range slices.Concat(p.GoFiles, p.CgoFiles) {
			for _, hit := range n.namedIn(t, filepath.Join(p.Dir, f)) {
				if n.isRoom(name) && !n.foreign(name, hit.name) {
					continue
				}
				if key := name + " " + hit.name; slices.Contains(exempt[name].names, hit.name) {
					used[key] = true
					continue
				}
				found = append(found, hit.name+" in "+hit.at)
			}
		}
		if len(found) > 0 {
			outside++
			t.Errorf("%s names storage types: %s. Let the backend say what differs (its Profile, View or driver), or move the code to a room of "+
				"the backend", name, strings.Join(found, ", "))
		}
	}
	t.Logf("packages that name a storage type outside its own rooms: %d", outside)
	report(t, used)
}

// report prints what is exempt, and complains about what needs no exemption.
func report(t *testing.T, used map[string]bool) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(namers)) {
		t.Logf("exempt: %s: %s", name, namers[name])
		if !used[name] {
			t.Errorf("no package is in %s: take it off namers", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(words)) {
		t.Logf("exempt: literals in %s: %s", name, words[name])
	}
	for _, name := range slices.Sorted(maps.Keys(exempt)) {
		e := exempt[name]
		t.Logf("exempt: %s in %s: %s", strings.Join(e.names, ", "), name, e.why)
		for _, one := range e.names {
			if !used[name+" "+one] {
				t.Errorf("%s names no %s: take it off exempt", name, one)
			}
		}
	}
}

func (n namer) isRoom(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(e string) bool { return slices.Contains(n.types, e) })
}

// foreign reports whether the words in a name make it another backend's than that of a room, and not that one's.
func (n namer) foreign(room, name string) bool {
	theirs := false
	for _, of := range n.types {
		if !n.owned[of].MatchString(name) {
			continue
		}
		if slices.Contains(strings.Split(room, "/"), of) {
			return false
		}
		theirs = true
	}
	return theirs
}

// hit is a name of a storage type, and where it stands.
type hit struct{ name, at string }

// namedIn returns the names of storage types in one file, each with its position.
func (n namer) namedIn(t *testing.T, path string) []hit {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []hit
	ast.Inspect(f, func(node ast.Node) bool {
		text := ""
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.SelectorExpr:
			if x, ok := node.X.(*ast.Ident); ok && x.Name == "v1alpha1" && slices.Contains(n.kinds, node.Sel.Name) {
				text = node.Sel.Name
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
			found = append(found, hit{text, filepath.Base(at.Filename) + ":" + strconv.Itoa(at.Line)})
		}
		return true
	})
	return found
}

// TestNamer: what names a backend is seen, and what only sounds like it is not.
func TestNamer(t *testing.T) {
	n := newNamer(t, load(t))
	n.literals = true
	for name, c := range map[string]struct {
		code string
		want []string
	}{
		"a storage type":                  {"x := v1alpha1.StorageTypeLVM", []string{"StorageTypeLVM"}},
		"a kind":                          {"var x v1alpha1.Iscsi", []string{"Iscsi"}},
		"the list of a kind":              {"var x v1alpha1.IscsiList", []string{"IscsiList"}},
		"a kind that is none of storages": {"var x []v1alpha1.GlusterNode", []string{"GlusterNode"}},
		"a part of a Member":              {"var x *v1alpha1.MemberCeph", []string{"MemberCeph"}},
		"an action":                       {"x := v1alpha1.ActionForgetMissingDevice", []string{"ActionForgetMissingDevice"}},
		"a parameter":                     {"x := v1alpha1.ParameterCluster", []string{"ParameterCluster"}},
		"a word":                          {`x := "nfs"`, []string{`"nfs"`}},
		"what storages share":             {"var x v1alpha1.Member; y := x.Action", nil},
		"a type of another package":       {"var x kube.GlusterNode", nil},
	} {
		path := filepath.Join(t.TempDir(), "code.go")
		if err := os.WriteFile(path, []byte("package p\n\nfunc f() {\n"+c.code+"\n}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range n.namedIn(t, path) {
			got = append(got, h.name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestNamer_foreign: a room of one backend may name what is its own, and nothing that is another's.
func TestNamer_foreign(t *testing.T) {
	n := newNamer(t, load(t))
	for of, want := range map[[2]string]bool{
		{"controller/internal/decide/gluster/device", "MemberOSD"}: true,
		{"controller/internal/decide/nfs", "KindIscsi"}:            true,
		{"controller/internal/decide/nfs", `"lvm.quarry.storage"`}: true,
		{"controller/internal/decide/nfs", "Cluster"}:              true,
		{"controller/internal/decide/ceph/view", "MemberOSD"}:      false,
		{"controller/internal/decide/ceph", "StorageTypeCephFS"}:   false,
		{"agent/internal/host/cephfs", "DriverCephFS"}:             false,
		{"controller/internal/decide/lvm", "ParameterCluster"}:     false,
		{"controller/internal/decide/iscsi", "MemberGroup"}:        false,
		{"controller/internal/decide/gluster", "GlusterCluster"}:   false,
		{"controller/internal/decide/ceph", "ActionSetNoOut"}:      false,
	} {
		if got := n.foreign(of[0], of[1]); got != want {
			t.Errorf("%s in %s: %t", of[1], of[0], got)
		}
	}
}
