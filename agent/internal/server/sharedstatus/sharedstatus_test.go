package sharedstatus

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/pkg/sharedlun"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

func TestOf(t *testing.T) {
	other := errors.New("another one")
	for name, c := range map[string]struct {
		err  error
		want codes.Code
	}{
		"none":                                 {nil, codes.OK},
		"of no kind":                           {other, codes.Unknown},
		"could not be read":                    {fmt.Errorf("x: %w: %w", sharedlun.ErrUnread, other), codes.Aborted},
		"could not be read after a change":     {fmt.Errorf("%w: %w", sharedlun.ErrUnknown, sharedlun.ErrUnread), codes.Unavailable},
		"a target without reservations":        {sharedlun.ErrNoReservations, codes.FailedPrecondition},
		"a refused one that could not be read": {errors.Join(sharedlun.ErrNoKey, sharedlun.ErrUnknown), codes.Unavailable},
	} {
		if got := status.Code(Of(c.err)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	for reason, want := range map[string]codes.Code{
		sharedlun.ReasonPortalUnreachable: codes.Unavailable, sharedlun.ReasonWrongChap: codes.FailedPrecondition,
	} {
		s := status.Convert(Of(fmt.Errorf("x: %w", sharedlun.NewProblem(reason, "It is so."))))
		if d := s.Details(); s.Code() != want || len(d) != 1 || d[0].(*agentv1.IscsiProblem).GetReason() != reason {
			t.Errorf("%v", s)
		}
	}
}

// TestTold: only of what is known to be a refusal it is said that nothing was changed.
func TestTold(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"none":                     {nil, false},
		"of no kind":               {errors.New("another one"), false},
		"a refusal":                {fmt.Errorf("x: %w", sharedlun.ErrNoKey), true},
		"could not be read":        {sharedlun.ErrUnread, true},
		"busy":                     {sharedlun.ErrBusy, true},
		"not known":                {errors.Join(sharedlun.ErrNoKey, sharedlun.ErrUnknown), false},
		"a refusal after a change": {fmt.Errorf("x: %w", sharedlun.AfterChange(sharedlun.ErrNoKey)), false},
	} {
		err := Told(c.err)
		if status.Code(err) != status.Code(Of(c.err)) {
			t.Errorf("%s: %v, and %v", name, err, Of(c.err))
		}
		says := slices.ContainsFunc(status.Convert(err).Details(), func(d any) bool { _, is := d.(*agentv1.Unchanged); return is })
		if says != c.want {
			t.Errorf("%s: it says that nothing was changed: %t", name, says)
		}
	}
}

// TestOf_whole: every kind of error that the package has is in the table.
func TestOf_whole(t *testing.T) {
	files, err := filepath.Glob("../../../../pkg/sharedlun/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	// ErrNotOurs is about handles, which no agent is asked about.
	kinds := -1
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				kinds += count(g)
			}
		}
	}
	if kinds != len(codeOf) {
		t.Errorf("the table has %d kinds, the package %d", len(codeOf), kinds)
	}
}

// count counts the errors that a declaration exports.
func count(g *ast.GenDecl) int {
	n := 0
	for _, spec := range g.Specs {
		for _, name := range spec.(*ast.ValueSpec).Names {
			if strings.HasPrefix(name.Name, "Err") {
				n++
			}
		}
	}
	return n
}
