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

// storageNames are the constants that name a storage type or a driver.
var storageNames = regexp.MustCompile(`^(StorageType|Driver)(LVM|NFS|CephFS|ISCSI)$`)

// storageWords are literals that name a storage type or a driver.
var storageWords = regexp.MustCompile(`^(lvm|nfs|iscsi|cephfs)([.]quarry[.]storage)?$`)

// storageTypes are the elements of a path that make it a room of one storage type.
var storageTypes = []string{"lvm", "nfs", "iscsi", "cephfs", "ceph", "gluster"}

// namers may name storage types although they are no room of one: the API, what both sides know of one type, and the places that put
// the program together.
var namers = []string{"pkg/api", "pkg/quarry", "pkg/volumeid", "pkg/sharedvolume", "controller/internal/setup", "agent/agenttest"}

// words are packages in which a literal means something else.
var words = map[string]string{
	"agent/internal/host/block":  "a kind of device-mapper device",
	"controller/internal/agents": "the service of a package of the wire",
}

// TestStorageTypesStayInTheirRooms counts the packages that name a storage type outside its own rooms. `make verify` prints the count.
func TestStorageTypesStayInTheirRooms(t *testing.T) {
	outside := 0
	for _, p := range load(t) {
		name := relative(p.ImportPath)
		if !bound(p.ImportPath, []string{"agent", "controller", "pkg"}) || name == "agent" || bound(p.ImportPath, namers) || isRoom(name) {
			continue
		}
		if _, other := words[name]; other {
			continue
		}
		var found []string
		for _, f := range slices.Concat(p.GoFiles, p.CgoFiles) {
			found = append(found, namedIn(t, filepath.Join(p.Dir, f))...)
		}
		if len(found) > 0 {
			outside++
			t.Errorf("%s names storage types: %s", name, strings.Join(found, ", "))
		}
	}
	t.Logf("packages that name a storage type outside its own rooms: %d", outside)
}

func isRoom(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(e string) bool { return slices.Contains(storageTypes, e) })
}

// namedIn returns the names of storage types in one file, each with its position.
func namedIn(t *testing.T, path string) []string {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(f, func(n ast.Node) bool {
		text := ""
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Ident:
			if storageNames.MatchString(n.Name) {
				text = n.Name
			}
		case *ast.BasicLit:
			if value, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && storageWords.MatchString(value) {
				text = n.Value
			}
		}
		if text != "" {
			at := files.Position(n.Pos())
			found = append(found, text+" in "+filepath.Base(at.Filename)+":"+strconv.Itoa(at.Line))
		}
		return true
	})
	return found
}
