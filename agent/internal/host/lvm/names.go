package lvm

import (
	"crypto/sha256"
	"fmt"
	"math/big"
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

// UUID makes an LVM UUID out of a text, always the same for the same text, so that making a physical volume can be repeated.
func UUID(seed string) string {
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	sum := sha256.Sum256([]byte(seed))
	n, base := new(big.Int).SetBytes(sum[:]), big.NewInt(int64(len(alphabet)))
	digit := new(big.Int)
	chars := make([]byte, 32)
	for i := range chars {
		n.DivMod(n, base, digit)
		chars[i] = alphabet[digit.Int64()]
	}
	return fmt.Sprintf("%s-%s-%s-%s-%s-%s-%s",
		chars[0:6], chars[6:10], chars[10:14], chars[14:18], chars[18:22], chars[22:26], chars[26:32])
}
