package lvm

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	nameForm = regexp.MustCompile(`^[a-zA-Z0-9+_.][a-zA-Z0-9+_.-]{0,126}$`)
	tagForm  = regexp.MustCompile(`^[a-zA-Z0-9+_.][a-zA-Z0-9+_./=!:&#-]*$`)
	uuidForm = regexp.MustCompile(`^[a-zA-Z0-9]{6}(-[a-zA-Z0-9]{4}){5}-[a-zA-Z0-9]{6}$`)
)

// validName refuses what is no name of a volume group or a volume, among it everything that could be read as an option.
func validName(name string) error {
	if !nameForm.MatchString(name) || name == "." || name == ".." {
		return fmt.Errorf("%w: name %q", ErrInvalid, name)
	}
	return nil
}

// validTag refuses what LVM does not take as a tag.
func validTag(tag string) error {
	if len(tag) > 1024 || !tagForm.MatchString(tag) {
		return fmt.Errorf("%w: tag %q", ErrInvalid, tag)
	}
	return nil
}

// validDevice wants an absolute, clean path. A comma would make two devices of it, "@" at its start a tag.
func validDevice(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsAny(path, ",\n\x00") {
		return fmt.Errorf("%w: device %q", ErrInvalid, path)
	}
	return nil
}
