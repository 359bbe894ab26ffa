package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNamedTestsExist: a rule on a page below docs names the tests that hold it. Whoever renames or removes one mends the page.
func TestNamedTestsExist(t *testing.T) {
	root := filepath.Join("..", "..")
	each := func(dir, suffix string, do func(path, text string)) {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, suffix) {
				return err
			}
			text, err := os.ReadFile(path)
			do(path, string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	defined, found := map[string]bool{}, 0
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	for _, dir := range []string{"agent", "controller", "pkg", "proto", "test"} {
		each(dir, "_test.go", func(_, text string) {
			for _, m := range function.FindAllStringSubmatch(text, -1) {
				defined[m[1]] = true
			}
		})
	}
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`")
	each("docs", ".md", func(path, text string) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if found++; !defined[m[1]] {
				t.Errorf("%s names the test %s, which does not exist", strings.TrimPrefix(path, root+string(filepath.Separator)), m[1])
			}
		}
	})
	if found < 100 {
		t.Errorf("only %d tests are named: are they written in another way now?", found)
	}
}
