package disk

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/transport"
)

// Claim is what one Cluster wants of the devices of a host.
type Claim struct {
	// Name and UID of the Cluster.
	Name, UID string
	// Created is when the Cluster was created.
	Created time.Time
	// Selector of the Cluster; nil chooses every clean disk that is there when the host joins, but for those that are taken only on request.
	Selector *v1alpha1.DeviceSelector
	// Host that the claim is about.
	Host string
	// Idle is true when the Cluster takes nothing new on the host. It keeps what it owns.
	Idle bool
	// Joined is true once the host has its group, on record or seen.
	Joined bool
}

// Before reports whether the claim wins over another one: the older Cluster wins, then the one with the lesser name.
func (c Claim) Before(o Claim) bool {
	if !c.Created.Equal(o.Created) {
		return c.Created.Before(o.Created)
	}
	if c.Name != o.Name {
		return c.Name < o.Name
	}
	return c.UID < o.UID
}

// matches reports whether the selector chooses a device, clean or not.
func (c Claim) matches(d decide.Device) bool {
	s := c.Selector
	if s == nil {
		return true
	}
	switch {
	case len(s.Paths) > 0 && !listed(s.Paths, d):
		return false
	case s.MinSize != nil && d.SizeBytes < s.MinSize.Value():
		return false
	case s.MaxSize != nil && d.SizeBytes > s.MaxSize.Value():
		return false
	case s.Rotational != nil && d.Rotational != *s.Rotational:
		return false
	case s.Model != "" && !glob(strings.ToLower(s.Model), strings.ToLower(strings.TrimSpace(d.Model))):
		return false
	case len(s.Transports) > 0 && !slices.Contains(s.Transports, v1alpha1.Transport(d.Transport)):
		return false
	}
	return true
}

// asks reports whether the claim may have a device of that transport: some are taken only if the spec names the transport or the device.
func (c Claim) asks(d decide.Device) bool {
	// A selector with transports matches no other ones.
	return !transport.OnRequest(d.Transport) || c.names(d) || c.Selector != nil && len(c.Selector.Transports) > 0
}

// Wants reports whether the claim would take a device that nobody owns.
func (c Claim) Wants(d decide.Device) bool {
	if c.Idle || !c.matches(d) || !c.asks(d) || c.late(d) {
		return false
	}
	if d.Takeable() {
		return true
	}
	w, ok := c.consent(d)
	return ok && (w.Serial == "" || w.Serial == d.Serial) && d.Wipeable
}

// names reports whether the spec names the device.
func (c Claim) names(d decide.Device) bool {
	if c.Selector == nil {
		return false
	}
	_, consent := c.consent(d)
	return consent || listed(c.Selector.Paths, d)
}

// unwanted reports whether a device of the group was taken out of the list of paths. Only stable names count: a kernel name
// means another disk after the next boot. A selector by size or model never gives a device back.
func (c Claim) unwanted(d decide.Device) bool {
	if c.Selector == nil || len(c.Selector.Paths) == 0 || !decide.Stable(d.Path) || listed(c.Selector.Paths, d) {
		return false
	}
	for _, p := range c.Selector.Paths {
		if !decide.Stable(string(p)) {
			return false
		}
	}
	return true
}

// owner names who else owns a device, or will own it: the Cluster in the tag on it, or an older Cluster that wants it too.
func (in Input) owner(d decide.Device) (string, bool) {
	if d.OwnerUID != "" && d.OwnerUID != in.Claim.UID {
		for _, r := range in.Rivals {
			if r.UID == d.OwnerUID {
				return fmt.Sprintf("belongs to Cluster %s", r.Name), true
			}
		}
		return fmt.Sprintf("belongs to a Cluster with UID %s, which does not exist any more", d.OwnerUID), true
	}
	for _, r := range in.Rivals {
		if r.Before(in.Claim) && r.Wants(d) {
			return fmt.Sprintf("is also chosen by Cluster %s, which is older", r.Name), true
		}
	}
	return "", false
}

func listed(paths []v1alpha1.DevicePath, d decide.Device) bool {
	for _, p := range paths {
		if d.Is(string(p)) {
			return true
		}
	}
	return false
}

// glob compares a text with a pattern in which "*" stands for any characters.
func glob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(text, p)
		if i < 0 {
			return false
		}
		text = text[i+len(p):]
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}
