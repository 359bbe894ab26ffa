package backend

import (
	"fmt"
	"strings"
)

const (
	// maxLines is the number of lines that go into one message.
	maxLines = 10
	// maxText is the length of a message in bytes.
	maxText = 4 << 10
)

// Shorten joins names with commas, and says how many more there are than shown.
func Shorten(names []string, limit int) string {
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
}

// Text joins lines, not more than a person can read and an object should hold.
func Text(lines []string) string {
	if more := len(lines) - maxLines; more > 0 {
		lines = append(append([]string{}, lines[:maxLines]...), fmt.Sprintf("and %d more", more))
	}
	return Cut(strings.Join(lines, "\n"), maxText)
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
