package volume

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/volumeid"
)

// maxMapperName is the longest name that device-mapper takes. In it a dash of either name is written twice.
const maxMapperName = 127

// nameForm are the names that LVM takes, without those that could be read as an option or a path.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_+][A-Za-z0-9_+.-]{0,126}$`)

// reservedPrefixes and reservedParts are what LVM keeps for names of its own.
var (
	reservedPrefixes = []string{"pvmove", "snapshot"}
	reservedParts    = []string{
		"_cdata", "_cmeta", "_corig", "_cvol", "_imeta", "_iorig", "_mimage", "_mlog", "_pmspare", "_rimage", "_rmeta", "_tdata", "_tmeta",
		"_vdata", "_vorigin", "_wcorig",
	}
)

// CheckNames refuses, with plan.ErrInvalid, what cannot be the name of a group, or of a volume or pool in it.
func CheckNames(group, name string) error {
	if err := plan.CheckGroupName(group); err != nil {
		return err
	}
	return CheckName(group, name)
}

// CheckName refuses, with plan.ErrInvalid, what cannot be the name of a volume or pool in the group.
func CheckName(group, name string) error {
	ok := nameForm.MatchString(name)
	for _, p := range reservedPrefixes {
		ok = ok && !strings.HasPrefix(name, p)
	}
	for _, p := range reservedParts {
		ok = ok && !strings.Contains(name, p)
	}
	if !ok {
		return fmt.Errorf("volume name %q: %w", name, plan.ErrInvalid)
	}
	if n := len(group) + len(name) + strings.Count(group+name, "-") + len("-"); n > maxMapperName {
		return fmt.Errorf("volume name %q makes a device name of %d characters, at most %d are taken: %w",
			name, n, maxMapperName, plan.ErrInvalid)
	}
	return nil
}

// OtherIDs are the ids of the volumes of a group that have the name of one of ours, by name, where the id is not what the names of node, group and volume
// make now. Whoever asks for a volume by another id than its own does not get it.
func OtherIDs(node string, g plan.Group) map[string]string {
	out := map[string]string{}
	for _, v := range g.LogicalVolumes {
		if now := (volumeid.ID{Node: node, Group: g.Name, Name: v.Name}); v.TailOf == "" && volumeid.IsName(v.Name) && v.ID != now.String() {
			out[v.Name] = v.ID
		}
	}
	return out
}

// Removing are the volumes of a group whose removal has begun, ordered.
func Removing(g plan.Group) []string {
	var out []string
	for _, v := range g.LogicalVolumes {
		if v.TailOf == "" && v.Removing {
			out = append(out, v.Name)
		}
	}
	slices.Sort(out)
	return out
}
