package cephvolume

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/cephname"
)

const (
	fsid   = "7a1c6d1e-0000-4000-8000-000000000001"
	claim  = "pvc-0f3b2c1d-1111-2222-3333-444455556666"
	aes    = "AQBDzQVrmkueLhAAX1mFwjHJGUCpFWeoSk/A1w=="
	aes256 = "AgA/zQVrqvXeHSAAgZ2iSC7w+mPNaDL9ttX4bJTe7Cvib0Ukv85XRW+GY7I="
)

func TestHandles(t *testing.T) {
	for _, name := range []string{claim, "My Volume/1", "", "--force", "vol-x00000000000000000000"} {
		id, err := New(fsid, Name(name))
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if back, err := Parse(id.String()); back != id || err != nil || len(id.String()) > 91 {
			t.Errorf("%s: %v, %v", id, back, err)
		}
		s := SnapshotID{Of: id, Name: SnapshotName("snapshot-" + name)}
		if back, err := ParseSnapshot(s.String()); back != s || err != nil || len(s.String()) > 119 {
			t.Errorf("%s: %v, %v", s, back, err)
		}
		if target, ok := CopyTarget(CopyName(id.Name)); target != id.Name || !ok || ValidSnapshotName(CopyName(id.Name)) {
			t.Errorf("copy %s: %s, %t", id.Name, target, ok)
		}
	}
	if Name(claim) != claim || SnapshotName("snapshot-"+claim[4:]) != "snap-"+claim[4:] || Name("vol-x00000000000000000000") == "vol-x00000000000000000000" {
		t.Error("names of Kubernetes do not stay, or a name that looks hashed does")
	}
}

func TestParse_refuses(t *testing.T) {
	for _, bad := range []string{
		"", "x", fsid, fsid + "/quarry/quarry/", fsid + "/quarry/quarry/..", fsid + "/quarry/quarry/--force", fsid + "/other/quarry/" + claim, fsid + "/quarry/other/" + claim,
		strings.ToUpper(fsid) + "/quarry/quarry/" + claim, fsid + "/quarry/quarry/" + claim + "/x", fsid + "/quarry/quarry/" + claim + "\n", "/quarry/quarry/" + claim,
	} {
		if id, err := Parse(bad); !errors.Is(err, ErrNotOurs) {
			t.Errorf("%q: %v, %v", bad, id, err)
		}
	}
	for _, bad := range []string{"", fsid + "/" + claim, fsid + "/" + claim + "/" + CopyName(claim), fsid + "/" + claim + "/snap-x", "x/" + claim + "/snap-" + claim[4:]} {
		if id, err := ParseSnapshot(bad); !errors.Is(err, ErrNotOurs) {
			t.Errorf("%q: %v, %v", bad, id, err)
		}
	}
}

func TestAttributes(t *testing.T) {
	id := ID{fsid, claim}
	want := Attributes{Path: cephname.GroupPath + "/" + claim + "/" + fsid, Monitors: []string{"10.0.0.1:3300", "[fd00::1]:3300"}}
	got, err := ParseAttributes(id, want.Map())
	if err != nil || got.Path != want.Path || !slices.Equal(got.Monitors, want.Monitors) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, path := range []string{"", "/", cephname.GroupPath, "/volumes/other/" + claim + "/" + fsid, cephname.GroupPath + "/" + Name("b") + "/" + fsid, want.Path + "/..", want.Path + ",secret=x"} {
		if _, err := ParseAttributes(id, map[string]string{KeyPath: path}); !errors.Is(err, ErrInvalid) {
			t.Errorf("path %q: %v", path, err)
		}
	}
	for _, monitors := range []string{"a", "10.0.0.1", "10.0.0.1:3300,", "10.0.0.1:0", "mon.example:3300", "10.0.0.1:3300/x", "[fe80::1%eth0]:3300", strings.Repeat("10.0.0.1:3300,", 17)} {
		if _, err := ParseAttributes(id, map[string]string{KeyPath: want.Path, KeyMonitors: monitors}); !errors.Is(err, ErrInvalid) {
			t.Errorf("monitors %q: %v", monitors, err)
		}
	}
}

func TestCredential(t *testing.T) {
	for text, want := range map[string]Cipher{aes: CipherAES, aes256: CipherAES256} {
		c, err := ParseCredential(map[string]string{cephname.KeyUser: "quarry-csi", cephname.KeySecret: text + "\n", SecretMonitors: "10.0.0.2:3300, 10.0.0.1:3300"})
		if err != nil || c.Cipher != want || c.Key.Reveal() != text || !slices.Equal(c.Monitors, []string{"10.0.0.1:3300", "10.0.0.2:3300"}) {
			t.Errorf("%v, %v", c, err)
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, shown := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v %q %x", c, c, c.Key, c.Key), fmt.Sprintf("%v %s", &c, &c.Key), string(b)} {
			if strings.Contains(shown, text[:12]) || strings.Contains(shown, fmt.Sprintf("%x", text[:12])) {
				t.Errorf("the key is shown: %s", shown)
			}
		}
	}
}

func TestCredential_refusesWithoutShowing(t *testing.T) {
	for name, secret := range map[string]map[string]string{
		"nothing":       nil,
		"no key":        {cephname.KeyUser: "a"},
		"no user":       {cephname.KeySecret: aes},
		"a bad user":    {cephname.KeyUser: "a,secret=b", cephname.KeySecret: aes},
		"no base64":     {cephname.KeyUser: "a", cephname.KeySecret: "hunter2,hunter2"},
		"a short key":   {cephname.KeyUser: "a", cephname.KeySecret: aes[:20]},
		"another kind":  {cephname.KeyUser: "a", cephname.KeySecret: "AwBDzQVrmkueLhAAX1mFwjHJGUCpFWeoSk/A1w=="},
		"a bad monitor": {cephname.KeyUser: "a", cephname.KeySecret: aes, SecretMonitors: "x"},
	} {
		_, err := ParseCredential(secret)
		if !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), aes[:8]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
