package device

import (
	"fmt"
	"strings"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Claim is what one Cluster wants of the devices of a host.
type Claim struct {
	// Name and UID of the Cluster.
	Name, UID string
	// Created is when the Cluster was created.
	Created time.Time
	// Selector of the Cluster; nil chooses every clean disk.
	Selector *v1alpha1.DeviceSelector
	// Host that the claim is about.
	Host string
	// Idle is true when the Cluster takes nothing new on the host: it owns what it owns.
	Idle bool
}

// Before says whether the claim wins over another one: the older Cluster, then the one with the lesser name.
func (c Claim) Before(o Claim) bool {
	if !c.Created.Equal(o.Created) {
		return c.Created.Before(o.Created)
	}
	if c.Name != o.Name {
		return c.Name < o.Name
	}
	return c.UID < o.UID
}

// matches says whether the selector chooses a device, clean or not.
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
	}
	return true
}

// wants says whether the claim would take a device that nobody owns.
func (c Claim) wants(d decide.Device) bool {
	if c.Idle || !c.matches(d) {
		return false
	}
	if d.Clean() {
		return true
	}
	w, ok := c.consent(d)
	return ok && (w.Serial == "" || w.Serial == d.Serial) && Curable(d)
}

// names says whether the user named the device.
func (c Claim) names(d decide.Device) bool {
	if c.Selector == nil {
		return false
	}
	_, consent := c.consent(d)
	return consent || listed(c.Selector.Paths, d)
}

// unwanted says whether a device of the group was taken out of the list of paths. Only stable names count: a kernel name
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

// consent returns the consent to wipe a device.
func (c Claim) consent(d decide.Device) (v1alpha1.WipeConsent, bool) {
	if c.Selector == nil {
		return v1alpha1.WipeConsent{}, false
	}
	for _, w := range c.Selector.Wipe {
		if string(w.Host) == c.Host && d.Is(string(w.Path)) {
			return w, true
		}
	}
	return v1alpha1.WipeConsent{}, false
}

// owner names who else owns a device, or will: the Cluster in the tag on it, or an older Cluster that wants it too.
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
		if r.Before(in.Claim) && r.wants(d) {
			return fmt.Sprintf("is also chosen by Cluster %s, which is older", r.Name), true
		}
	}
	return "", false
}

// curable are the refusals that a wipe takes away.
var curable = map[string]bool{
	v1alpha1.RefusalPartitionTable:  true,
	v1alpha1.RefusalFilesystem:      true,
	v1alpha1.RefusalSwap:            true,
	v1alpha1.RefusalLVM:             true,
	v1alpha1.RefusalRAID:            true,
	v1alpha1.RefusalZFS:             true,
	v1alpha1.RefusalBcache:          true,
	v1alpha1.RefusalEncrypted:       true,
	v1alpha1.RefusalCeph:            true,
	v1alpha1.RefusalSignature:       true,
	v1alpha1.RefusalUnknownData:     true,
	v1alpha1.RefusalWipeInterrupted: true,
}

// Curable says whether a wipe would make the device clean: all that speaks against it is what is written on it.
func Curable(d decide.Device) bool {
	if len(d.Refusals) == 0 || d.Digest == "" {
		return false
	}
	for _, r := range d.Refusals {
		if !curable[r.Reason] {
			return false
		}
	}
	return true
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
