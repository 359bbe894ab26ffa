package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLabsOfTests: test/all gives each end-to-end test to one lab, by its name. One whose name there is wrong would run beside others that it
// must not have beside it.
func TestLabsOfTests(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "..", "test", "all"))
	if err != nil {
		t.Fatal(err)
	}
	tests := endToEndTests(t)
	patterns := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+)\+?='([^']*)'$`).FindAllStringSubmatch(string(script), -1) {
		if patterns[m[1]] += m[2]; !strings.HasPrefix(patterns[m[1]], "^Test(") {
			delete(patterns, m[1])
		}
	}
	if len(patterns) != 2 {
		t.Fatalf("test/all chooses by %v: is that written in another way now?", patterns)
	}
	lab := map[string]string{}
	for name, pattern := range patterns {
		for _, one := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(pattern, "^Test("), ")"), "|") {
			found := false
			for _, test := range tests {
				if strings.HasPrefix(test, "Test"+one) {
					found = true
					if other := lab[test]; other != "" && other != name {
						t.Errorf("%s is in $%s and in $%s", test, other, name)
					}
					lab[test] = name
				}
			}
			if !found {
				t.Errorf("$%s of test/all names Test%s, and there is no such end-to-end test", name, one)
			}
		}
	}
}

// endToEndTests are the names of the end-to-end tests.
func endToEndTests(t *testing.T) (out []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "test", "e2e", "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t `).FindAllStringSubmatch(string(text), -1) {
			out = append(out, m[1])
		}
	}
	return out
}
