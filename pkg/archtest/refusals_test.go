package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// refusal is the message of a rule of a schema, or of a policy.
var refusal = regexp.MustCompile(`message="([^"]+)"|(?m)^ +message: (?:>-\n +)?"?(\S.*)$`)

// refusing are the files of which each refusal has a row: those of storages and their Members.
var refusing = []string{
	"pkg/api/v1alpha1/ceph_types.go", "pkg/api/v1alpha1/cluster_types.go", "pkg/api/v1alpha1/iscsi_types.go", "pkg/api/v1alpha1/nfs_types.go", "pkg/api/v1alpha1/thinpool_types.go",
	"deploy/base/cluster-admission.yaml", "deploy/base/member-admission.yaml",
}

// TestRefusalsAreDocumented: what the API server refuses is looked up by its first words.
func TestRefusalsAreDocumented(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, section, found := strings.Cut(read("docs/troubleshooting.md"), "\n## What the API server refuses\n")
	if !found {
		t.Fatal("docs/troubleshooting.md has no section about refusals")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var known []string
	for _, row := range strings.Split(section, "\n") {
		if cells := strings.Split(row, "|"); len(cells) > 1 {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
				known = append(known, strings.TrimRight(m[1], "… "))
			}
		}
	}
	for _, file := range refusing {
		messages := refusal.FindAllStringSubmatch(read(file), -1)
		if len(messages) == 0 {
			t.Errorf("%s has no refusal: are they written in another way now?", file)
		}
		for _, m := range messages {
			message, documented := m[1]+m[2], false
			for _, words := range known {
				documented = documented || strings.HasPrefix(message, words)
			}
			if !documented {
				t.Errorf("no row of \"What the API server refuses\" begins like the message of %s: %q", file, message)
			}
		}
	}
}
