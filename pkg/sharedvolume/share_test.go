package sharedvolume

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHost(t *testing.T) {
	for server, want := range map[string]string{
		"nas": "nas", "nas.example.com": "nas.example.com", "nas.example.com.": "nas.example.com.", "10.0.0.1": "10.0.0.1", "fd00::1": "fd00::1",
		"[fd00::1]": "fd00::1", "[fe80::1%eth0]": "fe80::1%eth0", "fe80::1%eth0.5": "fe80::1%eth0.5", "::1": "::1", "nfs_server": "nfs_server",
		"nas.default.svc.cluster.local": "nas.default.svc.cluster.local", "1and1.example": "1and1.example",
	} {
		if got, err := Host(server); err != nil || got != want {
			t.Errorf("%q: %q, %v", server, got, err)
		}
	}
}

func TestHost_refuses(t *testing.T) {
	for _, server := range []string{
		"", " ", "nas ", "nas/", "nas:/export", "nas:2049", "10.0.0.1:2049", "10.0.0", "10.0.0.256", "1", "0x7f.1", "[10.0.0.1]", "[fd00::1", "fd00::1]",
		"[nas]", "fd00::g", "::", "0.0.0.0", "224.0.0.1", "ff02::1", "fe80::1%", "fe80::1%eth0,addr=1", "fd00::1%eth0", "nas,addr=10.0.0.1", "nas\x00", "nas\n",
		"-nas", "nas-.example", "nas..example", ".nas", "näs", "nas;reboot", "$(reboot)", strings.Repeat("a", 64), strings.Repeat("a.", 130) + "a",
	} {
		if got, err := Host(server); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %q, %v", server, got, err)
		}
	}
}

func TestCheckPath(t *testing.T) {
	for _, p := range []string{"/", "/export", "/srv/nfs/a b", "/srv/ä", "/a:b", "/a,b", "/.hidden"} {
		if err := CheckPath(p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
	for _, p := range []string{
		"", "export", "./export", "~", "//export", "/export/", "/export/..", "/../etc", "/a/./b", "/a//b", "/a\x00b", "/a\nb", "/a\xff", "/..",
		"/" + strings.Repeat("a", 256), "/" + strings.Repeat("a/", 600) + "a", "export:/a", " /a", "/a\u202eb",
	} {
		if err := CheckPath(p); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", p, err)
		}
	}
}

func TestCanonical(t *testing.T) {
	for _, same := range [][2]string{{"NAS.example.com", "nas.example.com."}, {"[fd00::1]", "fd00:0:0:0:0:0:0:1"}, {"::ffff:10.0.0.1", "10.0.0.1"}} {
		a, errA := Canonical(same[0], "/a")
		b, errB := Canonical(same[1], "/a")
		if errA != nil || errB != nil || a != b {
			t.Errorf("%v: %q, %q, %v, %v", same, a, b, errA, errB)
		}
	}
	for _, other := range [][4]string{{"a", "/a", "a", "/b"}, {"a", "/a", "b", "/a"}, {"fd00::1", "/", "fd00::2", "/"}} {
		a, errA := Canonical(other[0], other[1])
		b, errB := Canonical(other[2], other[3])
		if errA != nil || errB != nil || a == b {
			t.Errorf("%v: %q, %q, %v, %v", other, a, b, errA, errB)
		}
	}
	if got, err := Canonical("fd00::1", "/a"); err != nil || got != "[fd00::1]:/a" {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range [][2]string{{"", "/a"}, {"a", "a"}} {
		if got, err := Canonical(bad[0], bad[1]); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %q, %v", bad, got, err)
		}
	}
}

func TestContains(t *testing.T) {
	for _, yes := range [][2]string{{"/", "/"}, {"/", "/a"}, {"/a", "/a"}, {"/a", "/a/b/c"}} {
		if !Contains(yes[0], yes[1]) {
			t.Errorf("%v", yes)
		}
	}
	for _, no := range [][2]string{{"/a", "/"}, {"/a", "/ab"}, {"/a/b", "/a"}, {"/a/b", "/a/c"}, {"/a", "/b/a"}} {
		if Contains(no[0], no[1]) {
			t.Errorf("%v", no)
		}
	}
	if !SameServer("NAS.", "nas") || SameServer("a", "b") || SameServer("", "") {
		t.Error("servers are not told apart")
	}
}

func TestParseOptions(t *testing.T) {
	for text, want := range map[string]Options{
		"":                         {Version: "4.2"},
		"vers=3,nolock":            {Version: "3", Data: []string{"nolock"}},
		"nfsvers=4.1":              {Version: "4.1"},
		"vers=4":                   {Version: "4.2"},
		"vers=4,minorversion=1":    {Version: "4.1"},
		"minorversion=0":           {Version: "4.0"},
		"port=20049":               {Version: "4.2", Port: "20049"},
		"ro,noexec,noatime,ro":     {Version: "4.2", Flags: []string{"ro", "noexec", "noatime"}},
		"rsize=1048576,nconnect=4": {Version: "4.2", Data: []string{"rsize=1048576", "nconnect=4"}},
		"hard,_netdev,rw,tcp,sec=sys,proto=tcp6,nosuid": {Version: "4.2", Data: []string{"hard"}},
	} {
		var entries []string
		if text != "" {
			entries = []string{text}
		}
		got, err := ParseOptions(entries)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
		parts, err := ParseOptions(strings.Split(text, ",")[:len(entries)*len(strings.Split(text, ","))])
		if diff := cmp.Diff(want, parts); diff != "" || err != nil {
			t.Errorf("%q in parts: %s, %v", text, diff, err)
		}
	}
	if o, err := ParseOptions([]string{"ro"}); err != nil || !o.ReadOnly() {
		t.Errorf("ro: %+v, %v", o, err)
	}
}

func TestParseOptions_refuses(t *testing.T) {
	for option, says := range map[string]string{
		"suid": "rights of root", "dev": "devices", "addr=10.0.0.2": "follows from the server", "clientaddr=10.0.0.2": "kernel's choice",
		"mountaddr=1.2.3.4": "follows", "mounthost=a": "follows", "migration": "another server", "sharecache": "volumes", "lock": "daemon",
		"sec=krb5": "Kerberos", "remount": "never changed", "bind": "directory of the node", "source=a:/b": "source", "proto=udp": "tcp", "proto=rdma": "tcp",
		"udp": "tcp", "xprtsec=tls": "TLS", "context=system_u:object_r:a": "labels", "vers=2": "version", "vers=": "version", "vers=4.3": "version",
		"": "not known", " ro": "not known", "ro ": "not known", "ro=1": "not known", "port=0": "not known", "port=2049a": "not known", "timeo=": "not known",
		"timeo=-1": "not known", "hard=1": "not known", "HARD": "not known", "unknown": "not known", "rsize=1\x00": "not known", "ro\n": "not known",
		"nconnect=17": "not known", "lookupcache=some": "not known", "minorversion=9": "minorversion", "loop": "not known", "x-systemd.automount": "not known",
	} {
		_, err := ParseOptions([]string{"hard", option})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", option, err, says)
		}
	}
	if _, err := ParseOptions([]string{"ro,suid"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("an option behind a comma: %v", err)
	}
	if _, err := ParseOptions([]string{"vers=3", "minorversion=1"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a minor version of version 3: %v", err)
	}
}

func TestAttributes(t *testing.T) {
	want := Attributes{Server: "nas", Path: "/export", MountOptions: []string{"vers=3", "nolock"}, Directory: "team/data", OnDelete: Archive, ShareID: uid}
	m := want.Map()
	m["storage.kubernetes.io/csiProvisionerIdentity"] = "1-2-nfs.quarry.storage"
	got, err := ParseAttributes(m)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for key, values := range map[string][]string{
		KeyServer: {"", "a:b", "nas,addr=1"}, KeyPath: {"", "export", "/a/.."}, KeyDirectory: {"", "..", ".quarry", "/a"},
		KeyOnDelete: {"", "purge"}, KeyMountOptions: {"suid", "ro,dev"}, KeyShareID: {"a", "../" + uid},
	} {
		for _, value := range values {
			m := want.Map()
			m[key] = value
			if got, err := ParseAttributes(m); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s=%q: %+v, %v", key, value, got, err)
			}
		}
	}
	if _, err := ParseAttributes(nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("no attributes: %v", err)
	}
}

func TestPolicy(t *testing.T) {
	for text, want := range map[string]Policy{"": Delete, "delete": Delete, "retain": Retain, "archive": Archive} {
		if got, err := ParsePolicy(text); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"Delete", "purge", " delete", "delete\n"} {
		if got, err := ParsePolicy(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, c := range [][3]Policy{{Delete, Archive, Archive}, {Archive, Retain, Retain}, {Delete, Retain, Retain}, {Delete, Delete, Delete}, {"", Delete, Delete}} {
		if Safer(c[0], c[1]) != c[2] || Safer(c[1], c[0]) != c[2] {
			t.Errorf("%v", c)
		}
	}
}

func TestCheckOwner(t *testing.T) {
	if err := CheckOwner(uid); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "..", uid + "/", strings.ToUpper(uid)} {
		if err := CheckOwner(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
