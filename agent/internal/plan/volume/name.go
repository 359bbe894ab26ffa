package volume

import (
	"fmt"
	"regexp"
	"strings"

	"quarry.storage/quarry/agent/internal/plan"
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
