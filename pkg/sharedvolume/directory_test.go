package sharedvolume

import (
	"errors"
	"path"
	"strings"
	"testing"
)

func TestCheckDirectory_accepts(t *testing.T) {
	for _, directory := range []string{
		"a", "a/b", "team/data-0", "a.b", "a..b", "Volumes of März/数据", "a b", "a:b", "-a", "archived-a", strings.Repeat("a", 255),
		strings.Repeat("a/", 15) + "a",
	} {
		if err := CheckDirectory(directory); err != nil {
			t.Errorf("%q: %v", directory, err)
		}
	}
}

// hostileDirectories reach outside of the share, into our records, or mean two things to two readers.
var hostileDirectories = map[string]string{
	"empty":                        "",
	"a slash":                      "/",
	"absolute":                     "/etc",
	"a trailing slash":             "a/",
	"an empty component":           "a//b",
	"a dot":                        ".",
	"dots":                         "..",
	"dots in front":                "../a",
	"dots behind":                  "a/..",
	"dots inside":                  "a/../../b",
	"a dot inside":                 "a/./b",
	"our marks":                    ".quarry",
	"below our marks":              ".quarry/volumes",
	"our marks below":              "a/.quarry/b",
	"a leading dot":                ".snapshot",
	"a leading dot below":          "a/.nfs0001",
	"three dots":                   "...",
	"NUL":                          "a\x00b",
	"NUL and a way out":            "a\x00/../b",
	"a line end":                   "a\nb",
	"a carriage return":            "a\rb",
	"an escape sequence":           "a\x1b[2Jb",
	"delete":                       "a\x7f",
	"a C1 control character":       "a\u0085b",
	"a right-to-left override":     "a\u202eb",
	"a zero-width space":           "a\u200bb",
	"a line separator":             "a\u2028b",
	"not UTF-8":                    "a\xffb",
	"an overlong slash":            "a\xc0\xafb",
	"a space in front":             " a",
	"a space behind":               "a/b ",
	"what belongs to a filesystem": "lost+found",
	"a component too long":         strings.Repeat("a", 256),
	"a component too long in utf8": strings.Repeat("ä", 128),
	"too long":                     strings.Repeat(strings.Repeat("a", 200)+"/", 5) + strings.Repeat("a", 200),
	"too deep":                     strings.Repeat("a/", 16) + "a",
}

func TestCheckDirectory_refuses(t *testing.T) {
	for name, directory := range hostileDirectories {
		if err := CheckDirectory(directory); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %q: %v", name, directory, err)
		}
	}
}

func TestExpandTemplate(t *testing.T) {
	values := Values{Namespace: "team-a", Claim: "data", Volume: "pvc-" + uid}
	for template, want := range map[string]string{
		"":                                 "pvc-" + uid,
		"${pv.name}":                       "pvc-" + uid,
		"${pvc.namespace}/${pvc.name}":     "team-a/data",
		"k8s/${pvc.namespace}-${pvc.name}": "k8s/team-a-data",
		"fixed":                            "fixed",
		"${pvc.name}${pvc.name}":           "datadata",
		"{pvc.name}":                       "{pvc.name}",
		"a}${pvc.name}":                    "a}data",
		"${pvc.namespace}/${pvc.name}/${pv.name}": "team-a/data/pvc-" + uid,
	} {
		got, err := ExpandTemplate(template, values)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", template, got, err, want)
		}
	}
}

func TestExpandTemplate_refusesTemplates(t *testing.T) {
	for _, template := range []string{
		"$", "${", "${}", "${pvc.name", "${PVC.NAME}", "${pvc.uid}", "$pvc.name", "$${pvc.name}", "${pvc.name }", "${${pvc.name}}",
		"../${pvc.name}", "/${pvc.name}", "${pvc.name}/", "${pvc.namespace}//${pvc.name}", ".${pvc.name}", "${pvc.name}/..",
		".quarry/${pvc.name}", "$(reboot)", "a\x00${pvc.name}", "${pvc.name}\n", " ${pvc.name}", "${pvc.namespace}/.${pvc.name}",
	} {
		if got, err := ExpandTemplate(template, Values{Namespace: "n", Claim: "c", Volume: "v"}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %q, %v", template, got, err)
		}
	}
}

func TestExpandTemplate_refusesHostileValues(t *testing.T) {
	for _, value := range []string{
		"", ".", "..", "../a", "a/b", "a/../..", "/a", "a/", ".a", "a\x00", "a\n", "A", "${pv.name}", " a", "a ", "-a", "a-", "ä", strings.Repeat("a", 254),
	} {
		for _, values := range []Values{
			{Namespace: value, Claim: "c", Volume: "v"}, {Namespace: "n", Claim: value, Volume: "v"}, {Namespace: "n", Claim: "c", Volume: value},
		} {
			if got, err := ExpandTemplate("${pvc.namespace}/${pvc.name}/${pv.name}", values); !errors.Is(err, ErrInvalid) {
				t.Errorf("%+v: %q, %v", values, got, err)
			}
		}
	}
	if got, err := ExpandTemplate("${pv.name}", Values{Namespace: "..", Claim: "/", Volume: "v"}); err != nil || got != "v" {
		t.Errorf("values that the template does not name: %q, %v", got, err)
	}
}

func FuzzCheckDirectory(f *testing.F) {
	for _, d := range hostileDirectories {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, directory string) {
		if CheckDirectory(directory) != nil {
			return
		}
		joined := path.Join("/root", directory)
		if joined != "/root/"+directory || strings.Contains(directory, "..") && path.Clean(directory) != directory {
			t.Errorf("%q is another place as %q", directory, joined)
		}
	})
}
