package osd

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// making names which making of an OSD a disk with marks carries. It is made of what was drawn, or read off a clock, when the disk got its first mark, and what no daemon changes. It is taken from
// the mark that is cleared last, so it is the same until the disk is clean.
func making(c Contents) string {
	drawn := ""
	if len(c.Headers) > 0 {
		drawn = "salt " + c.Headers[0].Salt
	} else {
		drawn = "born " + c.Labels[0].Label.Born.UTC().Format(time.RFC3339Nano)
	}
	sum := sha256.Sum256([]byte(drawn))
	return hex.EncodeToString(sum[:16])
}
