package kernel

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

func TestParameters(t *testing.T) {
	for name, c := range map[string]struct {
		host, at string
		options  []string
		purpose  Purpose
		want     string
	}{
		"for pods": {
			"nas", "10.0.0.1:2049", nil, Use,
			"source=nas:/a addr=10.0.0.1 vers=4.2 proto=tcp port=2049 hard timeo=600 retrans=2 nosharecache",
		},
		"for the agent": {
			"nas", "10.0.0.1:2049", nil, Manage,
			"source=nas:/a addr=10.0.0.1 vers=4.2 proto=tcp port=2049 softerr timeo=50 retrans=1 noac lookupcache=none nosharecache",
		},
		"version 3": {
			"nas", "10.0.0.1:2049",
			[]string{"vers=3", "nolock"},
			Use,
			"source=nas:/a addr=10.0.0.1 vers=3 proto=tcp mountproto=tcp nolock hard timeo=600 retrans=2 nosharecache",
		},
		"version 3 with ports, IPv6": {
			"fd00::1", "[fd00::1]:20049",
			[]string{"nfsvers=3,port=20049,mountport=20048"},
			Manage,
			"source=[fd00::1]:/a addr=fd00::1 vers=3 proto=tcp6 port=20049 mountproto=tcp6 nolock softerr timeo=50 retrans=1 noac lookupcache=none nosharecache mountport=20048",
		},
		"link-local": {
			"fe80::1%eth0", "[fe80::1%eth0]:2049", nil, Use,
			"source=[fe80::1%eth0]:/a addr=fe80::1%eth0 vers=4.2 proto=tcp6 port=2049 hard timeo=600 retrans=2 nosharecache",
		},
		"own options replace": {
			"nas", "10.0.0.1:2049",
			[]string{"soft", "timeo=30", "rsize=4096", "ro", "vers=4.1", "mountproto=udp"},
			Use,
			"source=nas:/a addr=10.0.0.1 vers=4.1 proto=tcp port=2049 retrans=2 nosharecache soft timeo=30 rsize=4096",
		},
		"own options for pods stay away from the agent": {
			"nas", "10.0.0.1:2049",
			[]string{"hard", "timeo=9999", "retrans=99", "ac", "actimeo=600", "noresvport", "ro"},
			Manage,
			"source=nas:/a addr=10.0.0.1 vers=4.2 proto=tcp port=2049 softerr timeo=50 retrans=1 noac lookupcache=none nosharecache noresvport",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := sharedvolume.ParseOptions(c.options)
			if err != nil {
				t.Fatal(err)
			}
			list, err := parameters(c.host, "/a", netip.MustParseAddrPort(c.at), o, c.purpose)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range list {
				got = append(got, strings.TrimSuffix(p.key+"="+p.value, "="))
			}
			if diff := cmp.Diff(strings.Fields(c.want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParameters_longSource(t *testing.T) {
	host, at := strings.Repeat("a.", 100)+"example", netip.MustParseAddrPort("10.0.0.1:2049")
	list, err := parameters(host, "/"+strings.Repeat("b", 100), at, sharedvolume.Options{Version: "4.2"}, Manage)
	if err != nil || !strings.HasPrefix(list[0].value, "10.0.0.1:/b") {
		t.Errorf("%v, %v", list, err)
	}
	for purpose, path := range map[Purpose]string{Use: "/" + strings.Repeat("b", 100), Manage: "/" + strings.Repeat("b/", 150)} {
		var problem *sharedvolume.Problem
		if _, err := parameters(host, path, at, sharedvolume.Options{Version: "4.2"}, purpose); !errors.As(err, &problem) || problem.Reason != sharedvolume.ReasonInvalid {
			t.Errorf("%s: %v", purpose, err)
		}
	}
}

func TestAttributes(t *testing.T) {
	o, err := sharedvolume.ParseOptions([]string{"ro,noatime,nodiratime,noexec"})
	if err != nil {
		t.Fatal(err)
	}
	always := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	if got := attributes(sharedvolume.Options{}, Use); got != always {
		t.Errorf("%#x", got)
	}
	if got := attributes(o, Use); got != always|unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOATIME|unix.MOUNT_ATTR_NODIRATIME|unix.MOUNT_ATTR_NOEXEC {
		t.Errorf("%#x", got)
	}
	if got := attributes(o, Manage); got != always|unix.MOUNT_ATTR_NOEXEC {
		t.Errorf("%#x: the agent has to write", got)
	}
}

func TestRefused(t *testing.T) {
	s := Source{Host: "nas", Path: "/a", Options: sharedvolume.Options{Version: "4.2"}}
	for errno, reason := range map[unix.Errno]string{
		unix.EACCES: sharedvolume.ReasonRefused, unix.EPERM: sharedvolume.ReasonRefused, unix.ENOENT: sharedvolume.ReasonNotExported,
		unix.EPROTONOSUPPORT: sharedvolume.ReasonNotNFS, unix.ETIMEDOUT: sharedvolume.ReasonUnreachable, unix.EINVAL: sharedvolume.ReasonInvalid,
		unix.ECONNREFUSED: sharedvolume.ReasonUnreachable, unix.ENOMEM: sharedvolume.ReasonUnknown,
	} {
		err := refused(s, netip.MustParseAddrPort("10.0.0.1:2049"), errno, " (NFS: said so)")
		var p *sharedvolume.Problem
		if !errors.As(err, &p) || p.Reason != reason {
			t.Errorf("%v: %v, want %s", errno, err, reason)
			continue
		}
		for _, part := range []string{"nas:/a", "4.2", "10.0.0.1:2049", errno.Error(), "said so"} {
			if !strings.Contains(p.Message, part) {
				t.Errorf("%q does not say %q", p.Message, part)
			}
		}
	}
}

// TestEveryOptionIsKnownToTheMount keeps the list of accepted options and what is done with them together.
func TestEveryOptionIsKnownToTheMount(t *testing.T) {
	for _, key := range manageTakes {
		value := map[string]string{"rsize": "=4096", "wsize": "=4096", "mountport": "=1", "mountproto": "=tcp"}[key]
		o, err := sharedvolume.ParseOptions([]string{key + value})
		if err != nil || !slices.Contains(o.Data, key+value) {
			t.Errorf("%s: %+v, %v", key, o, err)
		}
	}
}
