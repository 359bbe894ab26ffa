package plan

import "slices"

// Changes are the paths of the devices of which the plan changes what they carry, ordered, each once: those that become or cease to be
// a physical volume, join or leave a group, or are wiped. The others that it touches carry the same as before to whoever looks.
func (p Plan) Changes() []string {
	var out []string
	for _, step := range p.Steps {
		switch s := step.(type) {
		case Destructive:
			out = append(out, s.Token().Device().Path)
		case CreateVG:
			out = append(out, s.Devices...)
		case ExtendVG:
			out = append(out, s.Devices...)
		case ReduceVG:
			out = append(out, s.Devices...)
		case RemoveVG:
			out = append(out, s.GroupDevices...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
