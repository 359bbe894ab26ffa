package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// reason is a constant with the reason of a condition, an event or a denial.
var reason = regexp.MustCompile(`\bReason[A-Z][A-Za-z]* +(?:[A-Za-z]+ )?= "([A-Z][A-Za-z]+)"`)

// wellReasons are of things that are as they should be: nobody looks for what to do about them.
var wellReasons = []string{"AgentConnected", "Approved", "External", "Healthy"}

// TestReasonsAreDocumented: what a user sees in a condition or an event is explained on a page.
func TestReasonsAreDocumented(t *testing.T) {
	var pages strings.Builder
	read := func(dir, suffix string, each func(text string)) {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, suffix) || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			each(string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	read("docs", ".md", func(text string) { pages.WriteString(text) })
	for _, well := range wellReasons {
		pages.WriteString(" `" + well + "` ")
	}
	known := map[string]bool{}
	for _, word := range regexp.MustCompile(`[A-Za-z]+`).FindAllString(pages.String(), -1) {
		known[word] = true
	}
	found := 0
	for _, dir := range []string{"pkg", "controller", "agent"} {
		read(dir, ".go", func(text string) {
			for _, m := range reason.FindAllStringSubmatch(text, -1) {
				if found++; !known[m[1]] {
					t.Errorf("no page below docs explains the reason %s", m[1])
				}
			}
		})
	}
	if found < 50 {
		t.Errorf("only %d reasons were found: are they written in another way now?", found)
	}
}
