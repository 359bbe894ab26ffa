package ceph

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestActions: the list of all actions has each one that the file declares, once.
func TestActions(t *testing.T) {
	text, err := os.ReadFile("step.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared []Action
	for _, m := range regexp.MustCompile(`(?m)^\t\w+ +Action = "(\w+)"$`).FindAllStringSubmatch(string(text), -1) {
		declared = append(declared, Action(m[1]))
	}
	listed := slices.Clone(Actions)
	slices.Sort(declared)
	slices.Sort(listed)
	if len(declared) < 20 || !slices.Equal(declared, listed) {
		t.Errorf("declared are %q, and the list has %q", declared, listed)
	}
}
