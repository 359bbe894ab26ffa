package sharedvolume

import (
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"strings"
)

const (
	maxServer = 253
	maxPath   = 1024
	// maxSource is what fsconfig takes for one string, without its end (fs/fsopen.c of the kernel).
	maxSource = 255
)

var hostForm = regexp.MustCompile(`^[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9])?)*\.?$`)

// Host checks the server of an Nfs and returns it without brackets: a DNS name, an IPv4 address or an IPv6 address, with a zone where
// the address is link-local.
func Host(server string) (string, error) {
	if server == "" {
		return "", fmt.Errorf("server is empty: %w", ErrInvalid)
	}
	bare, bracketed := strings.CutPrefix(server, "[")
	if bracketed {
		var closed bool
		if bare, closed = strings.CutSuffix(bare, "]"); !closed {
			return "", fmt.Errorf("server %.300q has a bracket that is not closed: %w", server, ErrInvalid)
		}
	}
	if address, err := netip.ParseAddr(bare); err == nil {
		return bare, checkAddress(server, address, bracketed)
	}
	switch {
	case bracketed || strings.Contains(bare, ":"):
		return "", fmt.Errorf("server %.300q is not an IPv6 address: %w", server, ErrInvalid)
	case len(server) > maxServer || !hostForm.MatchString(server):
		return "", fmt.Errorf("server %.300q is neither a DNS name nor an address: %w", server, ErrInvalid)
	case onlyNumbers(server):
		return "", fmt.Errorf("server %.300q is not an IPv4 address: %w", server, ErrInvalid)
	}
	return server, nil
}

func checkAddress(server string, address netip.Addr, bracketed bool) error {
	switch {
	case bracketed && !address.Is6():
		return fmt.Errorf("server %.300q: brackets are for IPv6: %w", server, ErrInvalid)
	case address.IsUnspecified() || address.IsMulticast() || !plainZone(address):
		return fmt.Errorf("server %.300q is not the address of a server: %w", server, ErrInvalid)
	}
	return nil
}

// zoneForm is the name of a network interface.
var zoneForm = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,15}$`)

func plainZone(a netip.Addr) bool {
	return a.Zone() == "" || a.IsLinkLocalUnicast() && zoneForm.MatchString(a.Zone())
}

// onlyNumbers reports whether the last label is a number: such a name is a mistyped address.
func onlyNumbers(host string) bool {
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	return strings.Trim(labels[len(labels)-1], "0123456789") == ""
}

// CheckPath refuses an exported path that is not absolute and clean.
func CheckPath(exported string) error {
	switch {
	case !strings.HasPrefix(exported, "/"):
		return fmt.Errorf("path %.300q is not absolute: %w", exported, ErrInvalid)
	case len(exported) > maxPath:
		return fmt.Errorf("path has %d bytes, at most %d are allowed: %w", len(exported), maxPath, ErrInvalid)
	case path.Clean(exported) != exported:
		return fmt.Errorf("path %.300q is not clean: no \"..\", no \".\", no double and no last slash: %w", exported, ErrInvalid)
	}
	for c := range strings.SplitSeq(exported, "/") {
		if len(c) > maxComponent {
			return fmt.Errorf("path has a component of %d bytes, at most %d are allowed: %w", len(c), maxComponent, ErrInvalid)
		}
	}
	return checkText(exported)
}

// CheckSource refuses a checked host and path that are too long together: the kernel takes both as one text.
func CheckSource(host, exported string) error {
	if n := len(Source(host, exported)); n > maxSource {
		return fmt.Errorf("server and path have %d bytes together, the kernel takes %d: %w", n, maxSource, ErrInvalid)
	}
	return nil
}

// Canonical is one text for all ways to write the same server and path, so that two objects with the same share are recognised. A
// name and its address are different texts.
func Canonical(server, exported string) (string, error) {
	host, err := Host(server)
	if err != nil {
		return "", err
	}
	if err := CheckPath(exported); err != nil {
		return "", err
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return Source(address.Unmap().String(), exported), nil
	}
	return Source(strings.ToLower(strings.TrimSuffix(host, ".")), exported), nil
}

// Contains reports whether a path is another one, or is above it. Both are clean and absolute.
func Contains(outer, inner string) bool {
	return outer == inner || strings.HasPrefix(inner, strings.TrimSuffix(outer, "/")+"/")
}

// SameServer reports whether two texts name one server. A name and its address are different texts.
func SameServer(a, b string) bool {
	one, err := Canonical(a, "/")
	other, otherErr := Canonical(b, "/")
	return err == nil && otherErr == nil && one == other
}

// Source writes a host and a path as one text, as mount tables have it: IPv6 addresses stand in brackets.
func Source(host, exported string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + exported
}
