// Package option knows which options Ceph is told, and which of them counts for a daemon. It is pure.
package option

import (
	"maps"
	"strings"
)

// all is whom an option is for that is for all daemons.
const all = "global"

// own are the options that Ceph is told without being asked to: with them a host that dies with a monitor and the metadata server that serves keeps others from their
// files for less than a minute (docs/decisions/0102-failover-within-a-minute.md). Ceph's own values are 60, 10 and 30 seconds.
var own = map[string]string{
	// For how many seconds without a word a metadata server is not replaced while a monitor is away. It may have told that very monitor.
	"mon.mds_beacon_mon_down_grace": "20",
	// Who talks to a monitor that died asks every 5 seconds whether it is there, and talks to another one after 10. So who lives is heard within those 20.
	"mds.mon_client_ping_interval": "5", "mds.mon_client_ping_timeout": "10",
	"osd.mon_client_ping_interval": "5", "osd.mon_client_ping_timeout": "10",
}

// Wanted returns what Ceph is to be told: the options of a spec, and Quarry's own where the spec says nothing of that name.
func Wanted(spec map[string]string) map[string]string {
	out := maps.Clone(own)
	for key := range own {
		if _, name, _ := strings.Cut(key, "."); spec[all+"."+name] != "" {
			delete(out, key)
		}
	}
	maps.Copy(out, spec)
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
