package kernel

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedvolume"
)

// Purpose says what a mount is for.
type Purpose string

const (
	// Manage is a mount through which the agent works on directories. A server that is gone makes its calls fail after some seconds,
	// and nothing is taken from a cache, for other agents work on the same share.
	Manage Purpose = "manage"
	// Use is a mount for pods. A server that is gone makes its calls wait until it is back.
	Use Purpose = "use"
)

// parameter is one option, as fsconfig takes it; a flag has no value.
type parameter struct{ key, value string }

// manageDefaults and useDefaults come first; an option of the Nfs replaces one of the same kind. timeo is in tenths of a second.
var (
	manageDefaults = []string{"softerr", "timeo=50", "retrans=1", "noac", "lookupcache=none", "nosharecache"}
	useDefaults    = []string{"hard", "timeo=600", "retrans=2", "nosharecache"}
	// manageTakes are the options of the Nfs that count for the agent's own mount: they decide whether a server can be reached.
	manageTakes = []string{"rsize", "wsize", "mountport", "mountproto", "resvport", "noresvport", "noacl"}
)

// replaces names options that rule each other out.
var replaces = map[string][]string{
	"soft": {"hard"}, "softerr": {"hard"}, "timeo": {"timeo"}, "retrans": {"retrans"},
}

// parameters are what fsconfig is given for a share.
func parameters(host, path string, at netip.AddrPort, o sharedvolume.Options, purpose Purpose) ([]parameter, error) {
	err := sharedvolume.CheckSource(host, path)
	if err != nil && purpose == Manage {
		// The address is as good as the name, and may be shorter. A mount of a pod is recognised by the name.
		host = at.Addr().String()
		err = sharedvolume.CheckSource(host, path)
	}
	if err != nil {
		return nil, sharedvolume.NewProblem(sharedvolume.ReasonInvalid, "%v.", err)
	}
	transport := "tcp"
	if at.Addr().Is6() {
		transport = "tcp6"
	}
	out := []parameter{{"source", sharedvolume.Source(host, path)}, {"addr", at.Addr().String()}, {"vers", o.Version}, {"proto", transport}}
	if o.Port != "" || o.Version != "3" {
		out = append(out, parameter{"port", strconv.Itoa(int(at.Port()))})
	}
	if o.Version == "3" {
		out = append(out, parameter{"mountproto", transport}, parameter{"nolock", ""})
	}
	for _, option := range effective(o.Data, purpose) {
		key, value, _ := strings.Cut(option, "=")
		if key == "nolock" || key == "sec" || key == "mountproto" && o.Version != "3" {
			continue
		}
		out = slices.DeleteFunc(out, func(p parameter) bool { return p.key == key })
		out = append(out, parameter{key, value})
	}
	return out, nil
}

// effective are the options of NFS for a purpose.
func effective(own []string, purpose Purpose) []string {
	out := slices.Clone(useDefaults)
	if purpose == Manage {
		out = slices.Clone(manageDefaults)
		own = slices.DeleteFunc(slices.Clone(own), func(o string) bool {
			key, _, _ := strings.Cut(o, "=")
			return !slices.Contains(manageTakes, key)
		})
	}
	for _, o := range own {
		key, _, _ := strings.Cut(o, "=")
		out = slices.DeleteFunc(out, func(d string) bool {
			name, _, _ := strings.Cut(d, "=")
			return d == o || slices.Contains(replaces[key], name)
		})
		out = append(out, o)
	}
	return out
}

// attributes are the flags of a mount. Files of a share never give rights, and never stand for devices of the node.
func attributes(o sharedvolume.Options, purpose Purpose) int {
	out := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	if purpose == Manage {
		return out | unix.MOUNT_ATTR_NOEXEC
	}
	for _, f := range o.Flags {
		out |= map[string]int{
			"ro": unix.MOUNT_ATTR_RDONLY, "noexec": unix.MOUNT_ATTR_NOEXEC, "noatime": unix.MOUNT_ATTR_NOATIME,
			"nodiratime": unix.MOUNT_ATTR_NODIRATIME,
		}[f]
	}
	return out
}
