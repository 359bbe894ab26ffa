package sharedlun

import (
	"fmt"
	"strconv"

	"quarry.storage/quarry/pkg/quarry"
)

// Keys of what the controller tells a node of a volume that is attached there.
const (
	keyVolume = quarry.Group + "/volume-uuid"
	keyGroup  = quarry.Group + "/group-uuid"
	keyOwner  = quarry.Group + "/iscsi-uid"
	keyWWID   = quarry.Group + "/lun-wwid"
	keySerial = quarry.Group + "/lun-serial"
	keySize   = quarry.Group + "/lun-bytes"
)

// Attached is what a node has to know of a volume that is attached to it: where it is, and which one of its name it is. It is the publish context
// of CSI.
type Attached struct {
	Ref Ref
	// UUID of the volume in LVM. Another volume of the same name has another one.
	UUID string
}

// Map is the form that travels.
func (a Attached) Map() map[string]string {
	return map[string]string{
		keyVolume: a.UUID, keyGroup: a.Ref.UUID, keyOwner: a.Ref.OwnerUID, keyWWID: a.Ref.Lun.WWID, keySerial: a.Ref.Lun.Serial,
		keySize: strconv.FormatInt(a.Ref.Lun.SizeBytes, 10),
	}
}

// ParseAttached reads what Map made. A part that lacks is an error: nothing is guessed of where a volume is.
func ParseAttached(m map[string]string) (Attached, error) {
	size, err := strconv.ParseInt(m[keySize], 10, 64)
	if err != nil {
		return Attached{}, fmt.Errorf("%w: %s is %.40q", ErrInvalid, keySize, m[keySize])
	}
	a := Attached{UUID: m[keyVolume], Ref: Ref{
		Lun: Identity{WWID: m[keyWWID], Serial: m[keySerial], SizeBytes: size}, OwnerUID: m[keyOwner], UUID: m[keyGroup],
	}}
	if err := CheckUUID("volume", a.UUID); err != nil {
		return a, err
	}
	return a, a.Ref.Check()
}
