// Package repair decides how the metadata of a damaged thin pool is repaired. Like package plan it is pure: no clock, no files, no processes, no
// network.
package repair

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/plan"
)

// Spec is the thin pool that is to be repaired.
type Spec struct {
	Group, OwnerUID, Pool string
	// GroupUUID is that of the group that is meant; empty for any of that name.
	GroupUUID string
	// Digest of what the decision was made on, as Digest tells it.
	Digest string
}

// Metadata repairs the metadata of a thin pool with that tag, of which nothing is active. What was there before is kept as a volume of its own.
// It changes nothing unless what it found is clean and tells exactly what LVM recorded.
type Metadata struct {
	Group     plan.GroupRef
	Name, Tag string
	Recorded  Recorded
	plan.Reason
}

// Recorded is what LVM knows of the metadata of a pool.
type Recorded struct {
	// TransactionID counts the changes of the pool.
	TransactionID int64
	// SizeBytes of the data, in chunks of ChunkBytes.
	SizeBytes, ChunkBytes int64
	// Devices are the volumes in the metadata, ordered by number.
	Devices []Device
}

// Device is a volume in the metadata of a pool. LVM gives the number of one that was removed to the next; the transactions of the two differ.
type Device struct {
	// ID is its number, TransactionID the pool's when it was made.
	ID, TransactionID int64
}

// Touches the devices of the group.
func (s Metadata) Touches() []string { return s.Group.Devices }

func (s Metadata) String() string {
	return fmt.Sprintf("repair the metadata of thin pool %s/%s", s.Group.Name, s.Name)
}

// Pool plans how a damaged pool comes back to work: what is active of it is deactivated, its metadata is repaired, and it is activated, which
// has the new metadata checked. A pool that is not damaged needs nothing; of one that is not active nobody knows.
func Pool(s plan.Snapshot, want Spec) (plan.Plan, error) {
	g, exists, err := plan.OwnGroup(s, plan.GroupSpec{Name: want.Group, OwnerUID: want.OwnerUID, UUID: want.GroupUUID}, plan.ErrNotOurs)
	p, known := g.Pool(want.Pool)
	switch {
	case err != nil:
		return plan.Plan{}, err
	case !exists || !known:
		return plan.Plan{}, fmt.Errorf("thin pool %s/%s: %w", want.Group, want.Pool, plan.ErrNotFound)
	case !p.Ours:
		return plan.Plan{}, fmt.Errorf("thin pool %s/%s carries no tag of ours: %w", g.Name, p.Name, plan.ErrNotOurs)
	case p.Damage == "" && !p.Active:
		return plan.Plan{}, fmt.Errorf("whether thin pool %s/%s is damaged: %w: it is not active", g.Name, p.Name, plan.ErrUsageUnknown)
	case p.Damage == "":
		return plan.Plan{}, nil
	}
	if err := whole(g, p); err != nil {
		return plan.Plan{}, err
	}
	switch digest := Digest(g, p); {
	case digest == "":
		return plan.Plan{}, fmt.Errorf("thin pool %s/%s: what LVM recorded of it %w", g.Name, p.Name, plan.ErrUntold)
	case digest != want.Digest:
		return plan.Plan{}, fmt.Errorf("thin pool %s/%s has the digest %s, not %s: %w: its volumes, or its metadata, are others by now",
			g.Name, p.Name, digest, want.Digest, plan.ErrMismatch)
	}
	out, err := quiet(g, p)
	if err != nil {
		return plan.Plan{}, err
	}
	reason := plan.Reason("the pool is damaged, and the caller says that the repair was approved: " + p.Damage)
	out.Steps = append(out.Steps,
		Metadata{Group: g.Ref(), Name: p.Name, Tag: plan.TagPool, Recorded: recorded(g, p), Reason: reason},
		activate(g, p, "its metadata is checked when it is activated"))
	return out, nil
}

// whole refuses a pool that lacks more than its metadata.
func whole(g plan.Group, p plan.Pool) error {
	switch {
	case g.Partial || p.Health == plan.HealthPartial:
		return fmt.Errorf("thin pool %s/%s: %w: what cannot be read may be there once it is back", g.Name, p.Name, plan.ErrPartial)
	case p.Stale:
		return fmt.Errorf("thin pool %s/%s: %w", g.Name, p.Name, plan.ErrStale)
	case g.Moving != nil:
		return fmt.Errorf("thin pool %s/%s: %w", g.Name, p.Name, g.Still())
	}
	return nil
}

// Digest condenses what a repair works on: the pool, its volumes, what LVM recorded of them, and what is kept of earlier repairs. It is empty when
// LVM does not tell. A repair changes it, so that the approval of one never serves for another. What is wrong with the metadata is not part of it:
// an agent that was started anew may find it in other words.
func Digest(g plan.Group, p plan.Pool) string {
	r := recorded(g, p)
	if p.UUID == "" || r.TransactionID <= 0 || r.ChunkBytes <= 0 || slices.ContainsFunc(r.Devices, func(d Device) bool { return d.ID == 0 }) {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "quarry-thin-pool-v2\ngroup=%q\npool=%q %q\n", g.UUID, p.Name, p.UUID)
	fmt.Fprintf(&b, "transaction=%d\nsize=%d\nchunk=%d\n", r.TransactionID, r.SizeBytes, r.ChunkBytes)
	for _, v := range g.LogicalVolumes {
		if v.Pool == p.Name {
			fmt.Fprintf(&b, "volume=%q %d %d\n", v.Name, v.DeviceID, v.TransactionID)
		}
	}
	for _, name := range p.Kept {
		fmt.Fprintf(&b, "kept=%q\n", name)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return "v2:" + hex.EncodeToString(sum[:])
}

func recorded(g plan.Group, p plan.Pool) Recorded {
	out := Recorded{TransactionID: p.TransactionID, SizeBytes: p.SizeBytes, ChunkBytes: p.ChunkBytes}
	for _, v := range g.LogicalVolumes {
		if v.Pool == p.Name {
			out.Devices = append(out.Devices, Device{ID: v.DeviceID, TransactionID: v.TransactionID})
		}
	}
	slices.SortFunc(out.Devices, func(a, b Device) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
