package systemid

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	long := strings.Repeat("a", 121)
	for name, c := range map[string]struct {
		node, want string
		hashed     bool
	}{
		"a short name":                        {node: "n1", want: "quarry-n1"},
		"a name with dots":                    {node: "n1.rack-2.example", want: "quarry-n1.rack-2.example"},
		"a name that LVM takes for no ID":     {node: "localhost", want: "quarry-localhost"},
		"the longest that LVM keeps whole":    {node: long, want: "quarry-" + long},
		"a longer one":                        {node: long + "a", want: "quarry-" + strings.Repeat("a", 93) + "-", hashed: true},
		"characters that LVM would leave out": {node: "n 1", want: "quarry-n_1-", hashed: true},
	} {
		got := Of(c.node)
		if len(got) > maxLength || !plain.MatchString(got) {
			t.Errorf("%s: LVM does not keep %q", name, got)
		}
		if c.hashed && len(got) > 16 {
			got = got[:len(got)-16]
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestOf_longNamesStayApart: LVM would cut both to the same ID.
func TestOf_longNamesStayApart(t *testing.T) {
	long := strings.Repeat("a", 250)
	if a, b := Of(long+"b"), Of(long+"c"); a == b {
		t.Errorf("both are %q", a)
	}
}

func TestNode(t *testing.T) {
	for _, node := range []string{"n1", "localhost", "a.b"} {
		if got, ok := Node(Of(node)); !ok || got != node {
			t.Errorf("%s: %q %v", node, got, ok)
		}
	}
	for _, id := range []string{"", "host", "quarry-", Of(strings.Repeat("a", 200)), "quarry-a b"} {
		if got, ok := Node(id); ok {
			t.Errorf("%q is of node %q", id, got)
		}
	}
}

func TestDescribe(t *testing.T) {
	for id, want := range map[string]string{
		"quarry-n1": "node n1",
		"san-host":  `the host with LVM system ID "san-host"`,
	} {
		if got := Describe(id); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
}
