package sharedlun

import (
	"errors"
	"testing"
)

// TestVolume_unreadUnknownBoot: a boot that nobody knows is one that a tag can name, and that no node reports. What the node says in place of it is not told by a volume.
func TestVolume_unreadUnknownBoot(t *testing.T) {
	reader := Boot{Node: "n2", ID: UnknownBoot}
	if err := reader.Check(); err != nil {
		t.Fatal(err)
	}
	v := Volume{Name: "v"}
	if !v.Mark(reader.Tag()) || len(v.Readers) != 1 || v.Readers[0] != reader {
		t.Fatalf("the tag %s is read as %+v", reader.Tag(), v.Readers)
	}
	for name, c := range map[string]struct {
		reported []Boot
		held     bool
	}{
		"nobody reports":             {nil, true},
		"another node reports":       {[]Boot{{"n1", "boot-1"}}, true},
		"it reports none":            {[]Boot{{"n2", ""}}, true},
		"it reports one":             {[]Boot{{"n2", "boot-1"}}, false},
		"somebody made the word up":  {[]Boot{{"n2", UnknownBoot}}, true},
		"it reports one, and others": {[]Boot{{"n1", "boot-1"}, {"n2", "boot-1"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := (Group{}).Unread(v, c.reported); errors.Is(err, ErrHeld) != c.held {
				t.Errorf("%v", err)
			}
		})
	}
}
