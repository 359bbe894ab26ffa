package backend

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	// maxLines is the number of lines that go into one message.
	maxLines = 10
	// maxText is the length of a message in bytes.
	maxText = 3 << 10
)

// Shorten joins names with commas, and says how many more there are than shown.
func Shorten(names []string, limit int) string {
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
}

// Text joins lines, not more than a person can read and an object should hold. Where there is no room for all, the longest are cut, so that
// each of them says something.
func Text(lines []string) string {
	if more := len(lines) - maxLines; more > 0 {
		lines = append(append([]string{}, lines[:maxLines]...), fmt.Sprintf("and %d more", more))
	}
	limit := share(lines, maxText-len(lines)*len("…\n"))
	cut := make([]string, 0, len(lines))
	for _, l := range lines {
		cut = append(cut, Cut(l, limit))
	}
	return strings.Join(cut, "\n")
}

// share returns the length to which lines have to be cut so that they fit into a room together.
func share(lines []string, room int) int {
	lengths := make([]int, 0, len(lines))
	for _, l := range lines {
		lengths = append(lengths, len(l))
	}
	slices.Sort(lengths)
	for i, n := range lengths {
		if left := len(lengths) - i; n*left > room {
			return room / left
		}
		room -= n
	}
	return maxText
}

// Cut shortens a text to a number of bytes.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// Sentence returns s, or another sentence when s is empty.
func Sentence(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// brief returns a step as a storage shows it: its Member shows all of it. A step of the whole has none, and is shown here alone.
func brief(s v1alpha1.PlanStep) v1alpha1.PlanStep {
	if s.Host != "" {
		s.Reason = Cut(s.Reason, briefReason)
	}
	if more := len(s.Volumes) - briefDevices; more > 0 {
		s.Volumes = append(slices.Clone(s.Volumes[:briefDevices]), fmt.Sprintf("and %d more", more))
	}
	if more := len(s.Devices) - briefDevices; more > 0 {
		s.Devices = append(slices.Clone(s.Devices[:briefDevices]), fmt.Sprintf("and %d more", more))
	}
	return s
}

// sizeOf returns about the size in bytes of a step in a status.
func sizeOf(s v1alpha1.PlanStep) int {
	const names = 120
	n := names + len(s.Host) + len(s.Action) + len(s.VolumeGroup) + len(s.ThinPool) + len(s.Reason) + len(s.Consent) + len(s.Digest)
	for _, d := range s.Devices {
		n += len(d) + len(`"",`)
	}
	return n
}
