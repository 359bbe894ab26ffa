// Package pathconf reads the configuration that multipathd shows, as far as it decides what becomes of writes when no path is left.
package pathconf

import "strings"

// Config is what multipathd works with. An empty text is a setting that is not made.
type Config struct {
	// FindMultipaths says of which LUNs maps are made.
	FindMultipaths string
	// Overrides and Defaults are no_path_retry as these two sections have it. Overrides outranks what is known of an array, Defaults does not.
	Overrides, Defaults string
	// Devices are the arrays that have a setting of their own: built in, or the host's.
	Devices []Device
}

// Device is an array with a setting of its own.
type Device struct{ Vendor, Product, NoPathRetry string }

// Parse reads what `multipathd show config` prints. It reports false for a text that has no section of defaults: multipathd always shows one.
func Parse(text string) (c Config, whole bool) {
	var within []string
	var device Device
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[len(fields)-1] == "{":
			within = append(within, fields[0])
			whole = whole || fields[0] == "defaults"
			device = Device{}
		case fields[0] == "}":
			if strings.Join(within, ".") == "devices.device" && device.NoPathRetry != "" {
				c.Devices = append(c.Devices, device)
			}
			within = within[:max(len(within)-1, 0)]
		default:
			c.set(strings.Join(within, "."), fields[0], value(line, fields[0]), &device)
		}
	}
	return c, whole && len(within) == 0
}

func (c *Config) set(section, key, text string, device *Device) {
	switch section + "." + key {
	case "defaults.find_multipaths":
		c.FindMultipaths = text
	case "defaults.no_path_retry":
		c.Defaults = text
	case "overrides.no_path_retry":
		c.Overrides = text
	case "devices.device.vendor":
		device.Vendor = text
	case "devices.device.product":
		device.Product = text
	case "devices.device.no_path_retry":
		device.NoPathRetry = text
	}
}

// value is what follows the key, without the quotes.
func value(line, key string) string {
	_, rest, _ := strings.Cut(line, key)
	return strings.Trim(strings.TrimSpace(rest), `"`)
}
