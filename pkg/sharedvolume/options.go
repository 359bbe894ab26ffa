package sharedvolume

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Options are the checked mount options of a share.
type Options struct {
	// Version of the protocol: "3", "4.0", "4.1", "4.2".
	Version string
	// Port of the server; empty means the usual one.
	Port string
	// Data are the options of NFS itself, without version, port, transport and address.
	Data []string
	// Flags are the options of the mount, each by its name: "ro", "noexec", "noatime", "nodiratime", "relatime". nosuid and nodev
	// are always added, and are not listed.
	Flags []string
}

// ReadOnly reports whether pods can only read.
func (o Options) ReadOnly() bool { return slices.Contains(o.Flags, "ro") }

// DefaultVersion of the protocol.
const DefaultVersion = "4.2"

// dataForms are the options of NFS that are accepted, with the form of their values. An empty form takes no value.
var dataForms = compileForms(map[string]string{
	"timeo": `[1-9][0-9]{0,4}`, "retrans": `[0-9]{1,3}`, "rsize": `[1-9][0-9]{0,7}`, "wsize": `[1-9][0-9]{0,7}`,
	"acregmin": `[0-9]{1,6}`, "acregmax": `[0-9]{1,6}`, "acdirmin": `[0-9]{1,6}`, "acdirmax": `[0-9]{1,6}`, "actimeo": `[0-9]{1,6}`,
	"lookupcache": `all|none|pos|positive`, "nconnect": `[1-9]|1[0-6]`, "max_connect": `[1-9]|1[0-6]`,
	"local_lock": `all|flock|posix|none`, "namlen": `[1-9][0-9]{0,3}`, "mountport": portForm, "mountproto": `tcp|udp`,
	"hard": "", "soft": "", "softerr": "", "softreval": "", "nosoftreval": "", "ac": "", "noac": "", "acl": "", "noacl": "", "cto": "",
	"nocto": "", "rdirplus": "", "nordirplus": "", "resvport": "", "noresvport": "", "nolock": "", "fsc": "", "trunkdiscovery": "",
	"notrunkdiscovery": "", "nomigration": "", "sec": `sys`, "nosharecache": "",
})

const portForm = `[1-9][0-9]{0,4}`

// refusals say why an option is refused that somebody may well try.
var refusals = map[string]string{
	"suid":        "files of the share could give the rights of root on a node",
	"dev":         "files of the share could stand for the devices of a node",
	"addr":        "the address follows from the server",
	"clientaddr":  "the address of the node is the kernel's choice",
	"mountaddr":   "the address follows from the server",
	"mounthost":   "the address follows from the server",
	"migration":   "the server could send the node to another server",
	"sharecache":  "volumes on one node would share one connection's fate",
	"lock":        "locks of NFS version 3 need a daemon on every node, and are kept by each node for itself",
	"sec":         "only sec=sys is supported: Kerberos needs a daemon on every node",
	"remount":     "mounts are made, never changed",
	"bind":        "a share is mounted, not a directory of the node",
	"source":      "the source follows from server and path",
	"retry":       "Quarry itself tries again",
	"bg":          "Quarry itself tries again",
	"proto":       "only tcp is supported",
	"nfsprog":     "the program's number is fixed",
	"mountprog":   "the program's number is fixed",
	"mountvers":   "it follows from the version",
	"udp":         "only tcp is supported",
	"rdma":        "only tcp is supported",
	"xprtsec":     "TLS needs a daemon on every node",
	"context":     "labels of the share are not supported",
	"fscontext":   "labels of the share are not supported",
	"defcontext":  "labels of the share are not supported",
	"rootcontext": "labels of the share are not supported",
}

var mountFlags = []string{"ro", "noexec", "noatime", "nodiratime", "relatime"}

// ignored are options that say what is so anyway. Kernels ignore intr.
var ignored = []string{"defaults", "rw", "nosuid", "nodev", "exec", "auto", "noauto", "_netdev", "nofail", "fg", "intr", "nointr", "async", "tcp", "sec=sys"}

var versions = map[string]string{"3": "3", "4": DefaultVersion, "4.0": "4.0", "4.1": "4.1", "4.2": "4.2"}

var portValue = regexp.MustCompile(`^` + portForm + `$`)

func compileForms(forms map[string]string) map[string]*regexp.Regexp {
	out := map[string]*regexp.Regexp{}
	for name, form := range forms {
		out[name] = regexp.MustCompile(`^(?:` + form + `)$`)
	}
	return out
}

// ParseOptions checks mount options. One entry may hold several, joined by commas. What is not known to be safe is refused.
func ParseOptions(entries []string) (Options, error) {
	out := Options{Version: DefaultVersion}
	minor := ""
	for _, entry := range entries {
		for option := range strings.SplitSeq(entry, ",") {
			name, value, _ := strings.Cut(option, "=")
			if name == "minorversion" {
				minor = value
				continue
			}
			if err := out.add(option, name, value); err != nil {
				return Options{}, err
			}
		}
	}
	if minor != "" {
		version, ok := versions["4."+minor]
		if !ok || !strings.HasPrefix(out.Version, "4") {
			return Options{}, fmt.Errorf("mount option minorversion=%.20q: %w", minor, ErrInvalid)
		}
		out.Version = version
	}
	return out, nil
}

func (o *Options) add(option, name, value string) error {
	switch {
	case slices.Contains(ignored, option), option == "proto=tcp", option == "proto=tcp6":
		return nil
	case slices.Contains(mountFlags, option):
		o.Flags = appendOnce(o.Flags, option)
		return nil
	case name == "vers" || name == "nfsvers":
		version, ok := versions[value]
		if !ok {
			return fmt.Errorf("mount option %.100q: version 3, 4.0, 4.1 or 4.2 is expected: %w", option, ErrInvalid)
		}
		o.Version = version
		return nil
	case name == "port" && portValue.MatchString(value):
		o.Port = value
		return nil
	}
	form := dataForms[name]
	if form != nil && form.MatchString(value) && !strings.HasSuffix(option, "=") {
		o.Data = appendOnce(o.Data, option)
		return nil
	}
	if why := refusals[name]; why != "" {
		return fmt.Errorf("mount option %.100q is refused: %s: %w", option, why, ErrInvalid)
	}
	return fmt.Errorf("mount option %.100q is not known to be safe: %w", option, ErrInvalid)
}

func appendOnce(list []string, item string) []string {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}
