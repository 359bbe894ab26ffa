package disk

import (
	"fmt"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
)

// Describe returns a device as a person recognises it: "path (model serial, size)".
func Describe(d decide.Device) string {
	size := decide.Bytes(d.SizeBytes)
	var what []string
	for _, s := range []string{d.Model, d.Serial} {
		if s != "" {
			what = append(what, s)
		}
	}
	if len(what) == 0 {
		return fmt.Sprintf("%s (%s)", d.Path, size)
	}
	return fmt.Sprintf("%s (%s, %s)", d.Path, strings.Join(what, " "), size)
}

// Identity returns what tells a device from another one at the same path: its WWN, or its serial number.
func Identity(d decide.Device) string {
	if d.WWN != "" {
		return d.WWN
	}
	return d.Serial
}

// Why returns the refusals of a device as one sentence.
func Why(d decide.Device) string {
	if len(d.Refusals) == 0 {
		return "its content could not be read"
	}
	parts := make([]string, 0, len(d.Refusals))
	for _, r := range d.Refusals {
		parts = append(parts, fmt.Sprintf("%s (%s)", strings.TrimSuffix(r.Message, "."), r.Reason))
	}
	return strings.Join(parts, ", ")
}
