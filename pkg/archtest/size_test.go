package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Limits of size. A file or a package near its limit wants a second noun.
const (
	maxPackageFiles  = 12
	maxFileLines     = 300
	maxTestLines     = 800
	maxFunctionLines = 60
	maxMainLines     = 60
)

// apiPackages hold one file per kind, whatever the number of kinds.
var apiPackages = []string{"pkg/api"}

// largePackages are over the limit today, with the number of files that they may have until they are split. The list only ever
// shrinks.
var largePackages = map[string]int{
	"agent/internal/host/disk":                    14,
	"controller/internal/reconcile/harborcluster": 13,
}

func TestPackagesAreSmall(t *testing.T) {
	left := maps.Clone(largePackages)
	for _, p := range load(t) {
		name := relative(p.ImportPath)
		if bound(p.ImportPath, apiPackages) {
			continue
		}
		limit, large := largePackages[name]
		delete(left, name)
		if !large {
			limit = maxPackageFiles
		}
		files := 0
		for _, f := range slices.Concat(p.GoFiles, p.CgoFiles) {
			if !generated(f) {
				files++
			}
		}
		switch {
		case files > limit:
			t.Errorf("%s has %d files, the limit is %d: split it by a second noun", name, files, limit)
		case large && files <= maxPackageFiles:
			t.Errorf("%s has %d files: take it off the list of large packages", name, files)
		}
	}
	for name := range left {
		t.Errorf("%s is on the list of large packages and does not exist", name)
	}
}

// generated reports whether a file is written by a program.
func generated(name string) bool {
	return strings.HasPrefix(name, "zz_generated") || strings.HasSuffix(name, ".pb.go")
}

func TestFilesAndFunctionsAreSmall(t *testing.T) {
	for _, p := range load(t) {
		for _, name := range p.GoFiles {
			if generated(name) {
				continue
			}
			checkSize(t, filepath.Join(p.Dir, name), relative(p.ImportPath)+"/"+name)
		}
	}
}

func checkSize(t *testing.T, path, shown string) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	limit := maxFileLines
	switch base := filepath.Base(path); {
	case base == "main.go":
		limit = maxMainLines
	case strings.HasSuffix(base, "_test.go"):
		limit = maxTestLines
	}
	if lines := bytes.Count(src, []byte("\n")); lines > limit {
		t.Errorf("%s has %d lines, the limit is %d", shown, lines, limit)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		if lines := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; lines > maxFunctionLines {
			t.Errorf("%s: function %s has %d lines, the limit is %d", shown, f.Name.Name, lines, maxFunctionLines)
		}
	}
}

func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range load(t) {
		documented := len(p.GoFiles) == 0
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			documented = documented || file.Doc != nil
		}
		if !documented {
			t.Errorf("%s has no package comment: say what it is for and what it must not know", relative(p.ImportPath))
		}
	}
}
