package history

import (
	"reflect"
	"testing"
)

func TestDecide(t *testing.T) {
	one := func(name, hash string, number int64, owner Ownership) Revision {
		return Revision{Name: name, Hash: hash, Template: "template " + hash, Number: number, Owner: owner}
	}
	for name, tc := range map[string]struct {
		revisions []Revision
		live      map[string]bool
		limit     int
		want      Plan
	}{
		"the first template": {
			limit: 10, want: Plan{Name: "db-c", Number: 1, Create: true},
		},
		"a changed template": {
			revisions: []Revision{one("db-a", "a", 1, Ours), one("db-b", "b", 2, Ours)},
			limit:     10, want: Plan{Name: "db-c", Number: 3, Create: true},
		},
		"a template that is known": {
			revisions: []Revision{one("db-c", "c", 2, Ours), one("db-a", "a", 1, Ours)},
			limit:     10, want: Plan{Name: "db-c", Number: 2},
		},
		"the template of before is the highest again": {
			revisions: []Revision{one("db-c", "c", 1, Ours), one("db-a", "a", 2, Ours)},
			limit:     10, want: Plan{Name: "db-c", Number: 3, Renumber: true},
		},
		"a name that somebody else has is not used": {
			revisions: []Revision{one("db-c", "c", 7, Others), one("db-c-1", "x", 8, Others)},
			limit:     10, want: Plan{Name: "db-c-2", Number: 1, Create: true, Collisions: 2},
		},
		"another template of the same hash is no match": {
			revisions: []Revision{{Name: "db-c", Hash: "c", Template: "other", Number: 1, Owner: Ours}},
			live:      map[string]bool{"c": true},
			limit:     10, want: Plan{Name: "db-c-1", Number: 2, Create: true, Collisions: 1},
		},
		"what nobody has is adopted, what others have is left alone": {
			revisions: []Revision{one("db-a", "a", 1, Nobodys), one("db-c", "c", 2, Nobodys), one("db-b", "b", 5, Others)},
			limit:     10, want: Plan{Name: "db-c", Number: 2, Adopt: []string{"db-c", "db-a"}},
		},
		"the oldest go beyond the limit, but none that a replica has": {
			revisions: []Revision{one("db-a", "a", 1, Ours), one("db-b", "b", 2, Ours), one("db-d", "d", 3, Ours), one("db-e", "e", 4, Ours), one("db-c", "c", 5, Ours)},
			live:      map[string]bool{"a": true, "c": true},
			limit:     1, want: Plan{Name: "db-c", Number: 5, Delete: []string{"db-d", "db-b"}},
		},
		"with no limit but zero only those in use stay": {
			revisions: []Revision{one("db-a", "a", 1, Ours), one("db-b", "b", 2, Nobodys), {Name: "db-x", Number: 9, Owner: Ours}},
			live:      map[string]bool{"a": true},
			limit:     0, want: Plan{Name: "db-c", Number: 10, Create: true, Delete: []string{"db-x", "db-b"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Owner: "db", Hash: "c", Template: "template c", Revisions: tc.revisions, Live: tc.live, Limit: tc.limit}
			got := Decide(in)
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
