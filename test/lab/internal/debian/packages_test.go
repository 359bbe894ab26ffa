package debian

import (
	"slices"
	"testing"
)

func TestParseList(t *testing.T) {
	got := ParseList("# comment\n\nlvm2\nudev # trailing\n  kmod  \n")
	if want := []string{"lvm2", "udev", "kmod"}; !slices.Equal(got, want) {
		t.Errorf("ParseList = %v, want %v", got, want)
	}
}

func TestMissing_countsOnlyInstalled(t *testing.T) {
	status := "lvm2 installed\nudev not-installed\nkmod half-configured\n"
	got := missing([]string{"lvm2", "udev", "kmod", "unknown"}, status)
	if want := []string{"udev", "kmod", "unknown"}; !slices.Equal(got, want) {
		t.Errorf("missing = %v, want %v", got, want)
	}
}
