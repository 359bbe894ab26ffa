package ceph

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
)

// Version of Ceph. The zero Version is one that is not known.
type Version struct{ Major, Minor, Patch int }

var version = regexp.MustCompile(`^(?:ceph version )?(\d+)\.(\d+)\.(\d+)(?:[-+~ ].*)?$`)

// ParseVersion reads a version as Ceph writes it, in short or with its commit. It returns an error for anything else.
func ParseVersion(text string) (Version, error) {
	m := version.FindStringSubmatch(text)
	if m == nil {
		return Version{}, fmt.Errorf("%q is no version of Ceph", text)
	}
	var n [3]int
	for i := range n {
		v, err := strconv.Atoi(m[i+1])
		if err != nil {
			return Version{}, fmt.Errorf("%q is no version of Ceph: %w", text, err)
		}
		n[i] = v
	}
	return Version{n[0], n[1], n[2]}, nil
}

// String is the version as people write it.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Compare returns -1 if a version is earlier than another one, 1 if it is later, and 0 if it is the same.
func (v Version) Compare(o Version) int {
	return cmp.Or(cmp.Compare(v.Major, o.Major), cmp.Compare(v.Minor, o.Minor), cmp.Compare(v.Patch, o.Patch))
}

// MinMajor is the earliest major version: programs before it do not prepare disks as the agent wants.
const MinMajor = 20

// tagged are the tags of images that name a version, as the Ceph project's own do: v18, v18.2, v18.2.7-20250717. A number alone, without the letter, may count anything.
var tagged = regexp.MustCompile(`^(?:v(\d{1,3})|v?(\d{1,3})\.\d+(?:\.\d+)?)(?:[-+~].*)?$`)

// firstMajor is that of the first version that was in an image. A smaller number in a tag is that of somebody's own counting.
const firstMajor = 10

// TooOld reports whether the tag of an image names a version before the earliest one. A tag that names none says nothing.
func TooOld(tag string) bool {
	m := tagged.FindStringSubmatch(tag)
	if m == nil {
		return false
	}
	major, err := strconv.Atoi(m[1] + m[2])
	return err == nil && major >= firstMajor && major < MinMajor
}

// maxSkip is how many major versions an upgrade may go ahead.
const maxSkip = 2

// Allowed says why daemons must not get a version; empty if they may. What the monitors and OSDs require now is the floor: below it no daemon joins.
func Allowed(to Version, daemons []Daemon, minRelease, requireRelease int) string {
	switch {
	case to == (Version{}):
		return "The version of the image is not known."
	case to.Major < MinMajor:
		return fmt.Sprintf("Version %s is older than %d.", to, MinMajor)
	case to.Major < minRelease || to.Major < requireRelease:
		return fmt.Sprintf("Version %s is older than what the monitors (%d) and OSDs (%d) require since they run a later one.", to, minRelease, requireRelease)
	}
	for _, d := range daemons {
		switch {
		case d.Version == (Version{}) && !d.Running:
			// Another image may be what mends it.
		case d.Version == (Version{}):
			return fmt.Sprintf("The version of %s is not known.", d)
		case to.Major > d.Version.Major+maxSkip:
			return fmt.Sprintf("%s has version %s, and an upgrade goes at most %d major versions ahead.", d, d.Version, maxSkip)
		case to.Major < d.Version.Major:
			return fmt.Sprintf("%s has written data with version %s, which version %s may not read.", d, d.Version, to)
		}
	}
	return ""
}
