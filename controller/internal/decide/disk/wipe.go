package disk

import (
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

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

// Curable reports whether a wipe would make the device clean: all that speaks against it is what is written on it.
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
