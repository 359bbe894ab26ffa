package debian

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseDeb822(t *testing.T) {
	text := `Types: deb
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/k.gpg

Types: deb-src
URIs: http://mirror.example/src
Suites: bookworm
Components: main
`
	want := []source{{uri: "http://mirror.example/debian", suites: []string{"bookworm", "bookworm-updates"}, components: []string{"main", "contrib"}}}
	if diff := cmp.Diff(want, parseDeb822(text), cmp.AllowUnexported(source{})); diff != "" {
		t.Error(diff)
	}
}

func TestParseOneLine(t *testing.T) {
	text := `# comment
deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main contrib
deb http://mirror.example/security bookworm-security main
deb-src http://mirror.example/debian bookworm main
deb broken
`
	want := []source{
		{uri: "http://mirror.example/debian", suites: []string{"bookworm"}, components: []string{"main", "contrib"}},
		{uri: "http://mirror.example/security", suites: []string{"bookworm-security"}, components: []string{"main"}},
	}
	if diff := cmp.Diff(want, parseOneLine(text), cmp.AllowUnexported(source{})); diff != "" {
		t.Error(diff)
	}
}
