package iscsi

import (
	"context"

	hostiscsi "quarry.storage/quarry/agent/internal/host/iscsi"
)

// MarkUnserved implements lun.Initiator.
func (k kernel) MarkUnserved(_ context.Context, sessions []hostiscsi.Session) {
	k.f.mu.Lock()
	defer k.f.mu.Unlock()
	for i := range sessions {
		sessions[i].Unserved = k.unserved[sessions[i].Portal]
	}
}

// Orphan has iscsid not serve the session with a portal any more.
func (n *Node) Orphan(portal string) {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	n.unserved = map[string]bool{portal: true}
}
