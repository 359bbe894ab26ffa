package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
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

func TestPackagesAreSmall(t *testing.T) {
	for _, p := range load(t) {
		if bound(p.ImportPath, apiPackages) {
			continue
		}
		files := 0
		for _, f := range slices.Concat(p.GoFiles, p.CgoFiles) {
			if !generated(f) {
				files++
			}
		}
		if files > maxPackageFiles {
			t.Errorf("%s has %d files, the limit is %d: split it by a second noun", relative(p.ImportPath), files, maxPackageFiles)
		}
	}
}

// generated reports whether a file is written by a program.
func generated(name string) bool {
	return strings.HasPrefix(name, "zz_generated") || strings.HasSuffix(name, ".pb.go")
}

func TestFilesAndFunctionsAreSmall(t *testing.T) {
	for _, p := range load(t) {
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.TestGoFiles, p.XTestGoFiles) {
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
	limit, base := maxFileLines, filepath.Base(path)
	if base == "main.go" {
		limit = maxMainLines
	}
	test := strings.HasSuffix(base, "_test.go")
	if test {
		limit = maxTestLines
	}
	if lines := bytes.Count(src, []byte("\n")); lines > limit {
		t.Errorf("%s has %d lines, the limit is %d", shown, lines, limit)
	}
	if test {
		// A table of cases may be longer than a function.
		return
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
