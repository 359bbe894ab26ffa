// Package option knows which options Ceph is told, and which of them counts for a daemon. It is pure.
package option

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// all is whom an option is for that is for all daemons.
const all = "global"

// own are the options that Ceph is told without being asked to, in sets that go together: with them a host that dies with a monitor and the metadata server that serves
// keeps others from their files for less than a minute (docs/decisions/0102-failover-within-a-minute.md). Ceph's own values are 60, 10 and 30 seconds.
var own = []map[string]string{
	{
		// For how many seconds without a word a metadata server is not replaced while a monitor is away. It may have told that very monitor.
		"mon.mds_beacon_mon_down_grace": "20",
		// Who talks to a monitor that died asks every 5 seconds whether it is there, and talks to another one after 15. So who lives is heard within those 20.
		"mds.mon_client_ping_interval": "5", "mds.mon_client_ping_timeout": "12",
	},
	{"osd.mon_client_ping_interval": "5", "osd.mon_client_ping_timeout": "12"},
}

// Of returns the options of the spec of a Cluster.
func Of(c *v1alpha1.Cluster) map[string]string {
	out := map[string]string{}
	if c.Spec.Ceph != nil {
		for key, value := range c.Spec.Ceph.Config {
			out[key] = string(value)
		}
	}
	return out
}

// Wanted returns what Ceph is to be told: the options of a spec, and each set of Quarry's own of which the spec names none.
func Wanted(spec map[string]string) map[string]string {
	out := map[string]string{}
	for _, set := range own {
		if !named(set, spec) {
			maps.Copy(out, set)
		}
	}
	maps.Copy(out, spec)
	return out
}

// named reports whether a spec has a value for one of a set of options, for the same daemons or for all.
func named(set, spec map[string]string) bool {
	for key := range set {
		_, name, _ := strings.Cut(key, ".")
		for _, theirs := range []string{key, all + "." + name} {
			if _, is := spec[theirs]; is {
				return true
			}
		}
	}
	return false
}

// Refused says what Ceph said of each option that it refuses, but for Quarry's own: without one of these Ceph works as it does by itself, and nobody has anything to correct.
func Refused(refused, spec map[string]string) []string {
	var out []string
	for key, said := range refused {
		if _, theirs := spec[key]; theirs || !slices.ContainsFunc(own, func(set map[string]string) bool { return set[key] != "" }) {
			out = append(out, key+": "+said)
		}
	}
	slices.Sort(out)
	return out
}

// Differing names each option that is to have another value, with the one that Ceph was told.
func Differing(told, want map[string]string) []string {
	var out []string
	for key, value := range want {
		if before, is := told[key]; !is {
			out = append(out, fmt.Sprintf("%s is to be %.60q", key, value))
		} else if before != value {
			out = append(out, fmt.Sprintf("%s is to be %.60q, and was %.60q", key, value, before))
		}
	}
	for key, before := range told {
		if _, is := want[key]; !is {
			out = append(out, fmt.Sprintf("%s is to have no value any more, and was %.60q", key, before))
		}
	}
	slices.Sort(out)
	return out
}

// Monitors returns the values that options give to one of the monitors' own, by its name: the one that counts first. Ceph takes no value that an option cannot have, so
// that the next one counts then. The keys of options are whom they are for, a dot, and the name.
func Monitors(options map[string]string, name string) []string {
	var out []string
	for _, who := range []string{"mon", all} {
		if value, is := options[who+"."+name]; is {
			out = append(out, value)
		}
	}
	return out
}
