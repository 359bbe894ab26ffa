package writer

import "testing"

func TestStanding(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(s *Standing)
		want bool
	}{
		"it answers, and has its key":  {func(*Standing) {}, true},
		"it is away, or leaves":        {func(s *Standing) { s.Answers = false }, false},
		"it has no key for this boot":  {func(s *Standing) { s.Admitted = false }, false},
		"it is fenced":                 {func(s *Standing) { s.Fenced = true }, false},
		"somebody asked to leave it":   {func(s *Standing) { s.Maintenance = true }, false},
		"nothing is known of the node": {func(s *Standing) { *s = Standing{} }, false},
	} {
		s := Standing{Answers: true, Admitted: true}
		if c.edit(&s); s.MayChange() != c.want {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
