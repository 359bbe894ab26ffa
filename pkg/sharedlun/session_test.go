package sharedlun

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestTarget_check(t *testing.T) {
	good := Target{IQN: "iqn.2026-01.storage.quarry.lab:disk_1.a", Portals: []string{"10.0.0.1:3260", "[fd00::1]:3260"}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, iqn := range []string{"eui.0123456789abcdef", "naa.52004567ba64678d", "iqn.2001-04.com.example"} {
		if err := (Target{iqn, good.Portals}).Check(); err != nil {
			t.Error(err)
		}
	}
	for _, iqn := range []string{
		"", "iqn", "iqn.2026-01", "iqn.2026-01.a/../b", "iqn.2026-01.a:../x", "iqn.2026-01.a:b c", "iqn.2026-01.a\n", "-o", "iqn.2026-01.a:" + strings.Repeat("x", 230),
	} {
		err := Target{iqn, good.Portals}.Check()
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", iqn, err)
		}
	}
	for _, portals := range [][]string{
		nil,
		{""},
		{"10.0.0.1"},
		{"nas:3260"},
		{"10.0.0.1:0"},
		{"fd00::1:3260"},
		{"[fe80::1%eth0]:3260"},
		{"10.0.0.1:3260", "10.0.0.1:3260"},
		{"10.0.0.1:03260"},
		{"[FD00::1]:3260"},
		make([]string, MaxPortals+1),
	} {
		if err := (Target{good.IQN, portals}).Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", portals, err)
		}
	}
}

func TestChap(t *testing.T) {
	good := Chap{"user", "secret $\"'#=", "", ""}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", good, good, good, &good); strings.Contains(text, "secret") {
		t.Errorf("%s", text)
	}
	for name, c := range map[string]Chap{
		"none": {}, "no password": {"user", "", "", ""}, "half mutual": {"u", "secret", "m", ""}, "a line": {"u", "secret\nnode.x = y", "", ""},
		"a blank": {"u", "secret ", "", ""}, "long": {"u", strings.Repeat("secret", 50), "", ""}, "no text": {"u", "secret\xff", "", ""},
	} {
		err := c.Check()
		if !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
