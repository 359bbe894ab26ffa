package handover

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"

	"quarry.storage/quarry/controller/internal/decide/handover"
)

// TestRunner_tell: trouble is told when it begins, and again when it comes back after a step that went well.
func TestRunner_tell(t *testing.T) {
	var lines []string
	r := &Runner{Earlier: "quarry-system", Log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})}
	refused, other := errors.New("refused"), errors.New("other")
	waits, well := handover.Step{Why: "pods start"}, handover.Step{}
	said := ""
	for i, c := range []struct {
		step handover.Step
		err  error
		want string
	}{
		{well, refused, "refused"},
		{well, refused, ""},
		{well, other, "other"},
		{well, nil, ""},
		{well, other, "other"},
		{waits, nil, "pods start"},
		{waits, nil, ""},
		{well, nil, ""},
		{waits, nil, "pods start"},
		{waits, refused, "refused"},
		{waits, nil, "pods start"},
	} {
		lines = nil
		said = r.tell(said, c.step, c.err)
		if told := slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, c.want) }); len(lines) > 1 || told != (c.want != "") {
			t.Errorf("%d: %q, want %q", i, lines, c.want)
		}
	}
}
