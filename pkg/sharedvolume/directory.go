package sharedvolume

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MarkDirectory is the directory at the root of a share in which Quarry keeps its records. No volume is ever below it.
	MarkDirectory = ".quarry"
	// RemovingDirectory is the directory below MarkDirectory in which directories of volumes are while they are being deleted.
	RemovingDirectory = "removing"
	// maxComponent is what every filesystem takes for one name, in bytes.
	maxComponent = 255
	// maxDirectory and maxDepth bound a whole directory.
	maxDirectory = 1024
	maxDepth     = 16
)

// CheckDirectory refuses a directory that is not safe below the root of a share. A safe one is relative, has no empty component, no
// "." or "..", no component that begins with a dot (they belong to servers, to clients and to us), and no control character.
func CheckDirectory(directory string) error {
	switch {
	case directory == "":
		return fmt.Errorf("directory is empty: %w", ErrInvalid)
	case len(directory) > maxDirectory:
		return fmt.Errorf("directory has %d bytes, at most %d are allowed: %w", len(directory), maxDirectory, ErrInvalid)
	case strings.HasPrefix(directory, "/"):
		return fmt.Errorf("directory %.300q is absolute, it has to be relative to the share: %w", directory, ErrInvalid)
	case strings.HasSuffix(directory, "/"):
		return fmt.Errorf("directory %.300q ends in a slash: %w", directory, ErrInvalid)
	}
	components := strings.Split(directory, "/")
	if len(components) > maxDepth {
		return fmt.Errorf("directory %.300q has %d components, at most %d are allowed: %w", directory, len(components), maxDepth, ErrInvalid)
	}
	for _, c := range components {
		if err := checkComponent(c); err != nil {
			return fmt.Errorf("directory %.300q: %w", directory, err)
		}
	}
	return nil
}

func checkComponent(c string) error {
	switch {
	case c == "":
		return fmt.Errorf("a component is empty: %w", ErrInvalid)
	case len(c) > maxComponent:
		return fmt.Errorf("a component has %d bytes, at most %d are allowed: %w", len(c), maxComponent, ErrInvalid)
	case c == "." || c == "..":
		return fmt.Errorf("component %q is not allowed: %w", c, ErrInvalid)
	case strings.HasPrefix(c, "."):
		return fmt.Errorf("component %.100q begins with a dot: %w", c, ErrInvalid)
	case c == "lost+found":
		return fmt.Errorf("component %q belongs to the filesystem: %w", c, ErrInvalid)
	case strings.TrimSpace(c) != c:
		return fmt.Errorf("component %.100q begins or ends with a space: %w", c, ErrInvalid)
	}
	return checkText(c)
}

// checkText refuses bytes that are no text, and characters that steer a terminal or hide what follows.
func checkText(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%.100q is not UTF-8: %w", s, ErrInvalid)
	}
	for _, r := range s {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return fmt.Errorf("%.100q has a control character: %w", s, ErrInvalid)
		}
	}
	return nil
}
