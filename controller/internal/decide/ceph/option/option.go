// Package option knows which of the options in spec.ceph.config counts for a daemon. It is pure.
package option

// Monitors returns the values that options give to one of the monitors' own, by its name: the one that counts first. Ceph takes no value that an option cannot have, so
// that the next one counts then. The keys of options are whom they are for, a dot, and the name.
func Monitors(options map[string]string, name string) []string {
	var out []string
	for _, who := range []string{"mon", "global"} {
		if value, is := options[who+"."+name]; is {
			out = append(out, value)
		}
	}
	return out
}
