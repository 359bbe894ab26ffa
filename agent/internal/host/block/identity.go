package block

import "strings"

// identify reads what tells the device from others, from udev's database first and from sysfs where that says nothing.
func (h *Host) identify(d *Device, s *sysfs) {
	d.Model = first(decode(s.env["ID_MODEL_ENC"]), s.env["ID_MODEL"])
	d.Serial = first(s.env["ID_SCSI_SERIAL"], s.env["ID_SERIAL_SHORT"], s.env["ID_SERIAL"])
	d.WWN = first(s.env["ID_WWN_WITH_EXTENSION"], s.env["ID_WWN"])
	if d.Type == "partition" {
		// The kernel's attributes belong to the disk; only udev copies them to partitions.
		return
	}
	d.Model = first(d.Model, s.optional("device/model"), s.optional("device/name"))
	if d.Serial == "" {
		d.Serial = first(s.optional("serial"), s.optional("device/serial"), pageSerial(s.raw("device/vpd_pg80")))
	}
	if d.WWN == "" {
		d.WWN = wideName(first(s.optional("wwid"), s.optional("device/wwid")))
	}
	s.transport()
}

// first is the first text that is not empty.
func first(texts ...string) string {
	for _, t := range texts {
		if t = clean(t); t != "" {
			return t
		}
	}
	return ""
}

// decode undoes udev's \xNN escapes.
func decode(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if i+3 < len(s) && s[i] == '\\' && s[i+1] == 'x' {
			hi, lo := hex(s[i+2]), hex(s[i+3])
			if hi >= 0 && lo >= 0 {
				b.WriteByte(byte(hi<<4 | lo))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func hex(c byte) int {
	return strings.IndexByte("0123456789abcdef", c|0x20*(c>>6&1))
}

// pageSerial reads the unit serial number out of SCSI's page 0x80: four bytes of header, then text.
func pageSerial(page string) string {
	if len(page) <= 4 || page[1] != 0x80 {
		return ""
	}
	return clean(page[4:min(len(page), 4+int(page[3]))])
}

// wideName turns the kernel's wwid into the form udev uses. Names made of vendor, model and serial (t10) are no WWN.
func wideName(wwid string) string {
	if v, ok := strings.CutPrefix(wwid, "naa."); ok {
		return "0x" + v
	}
	for _, p := range []string{"eui.", "uuid.", "nvme."} {
		if strings.HasPrefix(wwid, p) {
			return wwid
		}
	}
	return ""
}
