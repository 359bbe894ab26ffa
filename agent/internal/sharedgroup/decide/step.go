// Package decide says what a request does to the group on a shared LUN, or to the device of a volume, from what was seen of them. It is pure,
// and the one place where the rules of decision 0038 are: who may change a group, on what sequence number, and what is refused.
package decide

import "quarry.storage/quarry/pkg/sharedlun"

// Step is one change of LVM's metadata.
type Step interface{ step() }

type (
	// SetEpoch replaces the epoch of the group.
	SetEpoch struct{ Epoch uint64 }
	// MakeVolume makes a linear volume of which nothing is ready.
	MakeVolume struct {
		Name string
		// SizeBytes is a multiple of the extent size.
		SizeBytes int64
		// Tags of the controller, and the marks of a copy.
		Tags []string
	}
	// ExtendVolume makes a volume as large as given, a multiple of the extent size.
	ExtendVolume struct {
		Volume    sharedlun.Volume
		SizeBytes int64
	}
	// RemoveVolume removes a volume.
	RemoveVolume struct{ Volume sharedlun.Volume }
	// Retag takes tags off a volume and adds some; either may be empty.
	Retag struct {
		Volume      sharedlun.Volume
		Remove, Add []string
	}
)

func (SetEpoch) step()     {}
func (MakeVolume) step()   {}
func (ExtendVolume) step() {}
func (RemoveVolume) step() {}
func (Retag) step()        {}
