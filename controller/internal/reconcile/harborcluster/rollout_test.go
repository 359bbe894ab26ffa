package harborcluster

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files again")

func TestRollout_golden(t *testing.T) {
	s := newSuite(t)
	s.add()
	var story []string
	for pass := 1; pass < 20; pass++ {
		c := s.reconcile()
		story = append(story, fmt.Sprintf("pass %d", pass))
		for _, line := range s.log.take() {
			story = append(story, "  controller: "+line)
		}
		for _, e := range s.told() {
			story = append(story, "  event:      "+strings.ReplaceAll(e, "\n", " / "))
		}
		if c.Status.Status == v1alpha1.HarborHealthy {
			break
		}
		s.operators.step()
		for _, line := range s.operators.told {
			story = append(story, "  operators:  "+line)
		}
		s.operators.told = nil
	}
	got := strings.ReplaceAll(strings.Join(story, "\n")+"\n", s.namespace, "NAMESPACE")
	path := filepath.Join("testdata", "rollout.golden")
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	before := s.written()
	s.reconcile()
	if diff := cmp.Diff(before, s.written()); diff != "" {
		t.Errorf("something was written, and nothing changed:\n%s", diff)
	}
	if lines := s.log.take(); len(lines) > 0 {
		t.Errorf("something is told, and nothing changed: %v", lines)
	}
}
