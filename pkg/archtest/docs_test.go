package archtest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// namedTest is how a page names a test: alone, or after the end of its package's path where several packages have one of that name.
var namedTest = regexp.MustCompile("`(?:([a-z0-9/]+)\\.)?((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`")

// eachFile passes the text of every file below a directory of the tree whose name ends so.
func eachFile(t *testing.T, dir, suffix string, do func(path, text string)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, suffix) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		do(filepath.ToSlash(rel), string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// definedTests returns the directories that define each test.
func definedTests(t *testing.T) map[string][]string {
	t.Helper()
	defined := map[string][]string{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	for _, dir := range []string{"agent", "controller", "pkg", "proto", "test"} {
		eachFile(t, dir, "_test.go", func(file, text string) {
			for _, m := range function.FindAllStringSubmatch(text, -1) {
				if in := path.Dir(file); !slices.Contains(defined[m[1]], in) {
					defined[m[1]] = append(defined[m[1]], in)
				}
			}
		})
	}
	return defined
}

// meant returns the directories that a page may mean by a test.
func meant(defined map[string][]string, in, test string) []string {
	return slices.DeleteFunc(slices.Clone(defined[test]), func(dir string) bool {
		return in != "" && !strings.HasSuffix("/"+dir, "/"+in)
	})
}

// TestNamedTestsExist: a rule on a page below docs names the tests that hold it. Whoever renames or removes one mends the page.
func TestNamedTestsExist(t *testing.T) {
	defined, found := definedTests(t), 0
	eachFile(t, "docs", ".md", func(file, text string) {
		for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
			if found++; len(meant(defined, m[1], m[2])) == 0 {
				t.Errorf("%s names the test %s, which does not exist", file, strings.Trim(m[0], "`"))
			}
		}
	})
	if found < 100 {
		t.Errorf("only %d tests are named: are they written in another way now?", found)
	}
}

// ruleHead begins a table of rules.
const ruleHead = "| rule | test |"

// TestSafetyNamesTheTestOfEachRule: every section of docs/safety.md has a table of its rules, and every rule names the few tests that hold it
// best, so that nobody has to guess which.
func TestSafetyNamesTheTestOfEachRule(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "safety.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range unheld(string(text), definedTests(t)) {
		t.Error(complaint)
	}
}

// unheld says what is wrong with the rules of a page, and the tests that it names for them.
func unheld(page string, defined map[string][]string) (complaints []string) {
	for _, section := range strings.Split(page, "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		before, rows, has := strings.Cut(body, ruleHead+"\n|---|---|\n")
		if !has {
			complaints = append(complaints, title+": no table of rules")
			continue
		}
		if namedTest.MatchString(before) {
			complaints = append(complaints, title+": a test is named outside of the table")
		}
		for _, row := range strings.Split(strings.TrimSpace(rows), "\n") {
			rule, tests, _ := strings.Cut(strings.Trim(row, "| "), " | ")
			named := namedTest.FindAllStringSubmatch(tests, -1)
			if len(rule) < 10 || len(named) == 0 || len(named) > 5 {
				complaints = append(complaints, title+": a rule has 1 to 5 tests: "+row)
			}
			for _, m := range named {
				if at := meant(defined, m[1], m[2]); len(at) != 1 {
					complaints = append(complaints, title+": "+m[0]+" may be in any of "+strings.Join(at, ", ")+": "+rule)
				}
			}
		}
	}
	return complaints
}

func TestUnheld(t *testing.T) {
	defined := map[string][]string{"TestOne": {"a/b"}, "TestTwo": {"a/b", "c/b", "c/d"}}
	const head = "# Page\n\n## Section\n\n" + ruleHead + "\n|---|---|\n"
	for name, c := range map[string]struct {
		page string
		want int
	}{
		"a rule with its tests":          {head + "| a rule of ours | `TestOne`, `c/d.TestTwo` |\n", 0},
		"a test that several have":       {head + "| a rule of ours | `TestTwo` |\n", 1},
		"a package that several are":     {head + "| a rule of ours | `b.TestTwo` |\n", 1},
		"a test that nobody has":         {head + "| a rule of ours | `TestThree` |\n", 1},
		"a test of another package":      {head + "| a rule of ours | `c/d.TestOne` |\n", 1},
		"a rule without a test":          {head + "| a rule of ours | the suite |\n", 1},
		"a heap of tests":                {head + "| a rule of ours | " + strings.Repeat("`TestOne`, ", 6) + " |\n", 1},
		"a section without a table":      {"# Page\n\n## Section\n\nHeld by `TestOne`.\n", 1},
		"a test that is named elsewhere": {"# Page\n\n## Section\n\nHeld by `TestOne`.\n" + strings.TrimPrefix(head, "# Page\n\n## Section\n") + "| a rule of ours | `TestOne` |\n", 1},
	} {
		if got := unheld(c.page, defined); len(got) != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
