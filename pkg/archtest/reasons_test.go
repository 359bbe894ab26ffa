package archtest

import (
	"regexp"
	"strings"
	"testing"
)

// reason is a constant with the reason of a condition, an event or a denial.
var reason = regexp.MustCompile(`\bReason[A-Z][A-Za-z]* +(?:[A-Za-z]+ )?= "([A-Z][A-Za-z]+)"`)

// fence is a block of code on a page: what is in it explains nothing. quoted is a word that a page marks as one that the product says.
var (
	fence  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	quoted = regexp.MustCompile("`([A-Z][A-Za-z]+)`")
)

// wellReasons are of things that are as they should be, and no page has a list that they belong to: nobody looks for what to do about them.
var wellReasons = []string{"Approved"}

// TestReasonsAreDocumented: what a user sees in a condition or an event is explained on a page. Decisions are read by whoever changes the program.
func TestReasonsAreDocumented(t *testing.T) {
	known := map[string]bool{}
	eachFile(t, "docs", ".md", func(path, text string) {
		if strings.HasPrefix(path, "docs/decisions/") {
			return
		}
		for _, m := range quoted.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			known[m[1]] = true
		}
	})
	for _, well := range wellReasons {
		if known[well] {
			t.Errorf("a page explains the reason %s: take it off wellReasons", well)
		}
		known[well] = true
	}
	found := 0
	for _, dir := range []string{"pkg", "controller", "agent"} {
		eachFile(t, dir, ".go", func(path, text string) {
			if strings.HasSuffix(path, "_test.go") {
				return
			}
			for _, m := range reason.FindAllStringSubmatch(text, -1) {
				if found++; !known[m[1]] {
					t.Errorf("%s has the reason %s, which no page below docs explains: give it a row in docs/troubleshooting.md or on the page of its kind", path, m[1])
				}
			}
		})
	}
	if found < 50 {
		t.Errorf("only %d reasons were found: are they written in another way now?", found)
	}
}
