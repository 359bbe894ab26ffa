package thin

import (
	"fmt"
	"slices"
	"strings"
)

// Lacks says which volumes LVM recorded in a pool that the kernel's metadata does not have, or has of another transaction; empty when it has all
// of them. What is put into such a pool is written over what those volumes held. What the kernel has and LVM does not know is no damage: a removal
// that was cut off.
//
// LVM records a change before it tells the kernel, and tells it again after a kill: a volume of that change may not be there yet. Where the two
// differ by more, their transactions tell that, and the volumes nothing.
func (recorded Pool) Lacks(kernel Pool) string {
	if kernel.TransactionID != recorded.TransactionID && kernel.TransactionID != recorded.TransactionID-1 {
		return ""
	}
	var lacking []string
	for _, d := range recorded.Devices {
		pending := kernel.TransactionID < recorded.TransactionID && d.TransactionID == kernel.TransactionID
		if !pending && !slices.Contains(kernel.Devices, d) {
			lacking = append(lacking, fmt.Sprintf("%d of transaction %d", d.ID, d.TransactionID))
		}
	}
	if len(lacking) == 0 {
		return ""
	}
	const shown = 5
	more := ""
	if n := len(lacking) - shown; n > 0 {
		lacking, more = lacking[:shown], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("its metadata lacks volumes that LVM recorded: %s%s", strings.Join(lacking, ", "), more)
}
