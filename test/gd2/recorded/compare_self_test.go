package recorded

import (
	"encoding/json"
	"testing"
)

// TestComparison_seesEveryDifference changes the values of each recorded body, one at a time, and wants the comparison to notice.
func TestComparison_seesEveryDifference(t *testing.T) {
	leaves := 0
	for _, run := range []string{"a", "e", "k", "q", "t", "v", "w", "x"} {
		for _, r := range load(t, run) {
			theirs, err := parse(r.Body)
			if r.Request == nil || err != nil || theirs == nil {
				continue
			}
			c := newComparison()
			ours, err := parse(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.value("body", theirs, ours); err != nil {
				t.Fatalf("%s differs from itself: %s", r.Name, err)
			}
			each(ours, func(set func(any), v any) {
				leaves++
				set(other(v))
				if c.value("body", theirs, ours) == nil {
					t.Errorf("%s: %v is changed, and nothing noticed", r.Name, v)
				}
				set(v)
			})
		}
	}
	t.Logf("%d values were changed", leaves)
}

// each calls do for each value that has no parts.
func each(v any, do func(set func(any), v any)) {
	visit := func(set func(any), v any) {
		switch v.(type) {
		case map[string]any, []any:
			each(v, do)
		default:
			do(set, v)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for k, one := range v {
			visit(func(n any) { v[k] = n }, one)
		}
	case []any:
		for i, one := range v {
			// The long tables of options are alike throughout.
			if len(v) > 100 && i%20 != 0 {
				continue
			}
			visit(func(n any) { v[i] = n }, one)
		}
	}
}

func other(v any) any {
	switch v := v.(type) {
	case string:
		return v + "x"
	case json.Number:
		return v + "7"
	case bool:
		return !v
	}
	return "x"
}
