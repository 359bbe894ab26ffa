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
