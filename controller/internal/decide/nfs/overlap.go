package nfs

import (
	"path"

	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// Overlap refuses a directory that is the one of a volume of another share on the same server, or inside or around it. Shares that are
// exported from inside of each other have records of their own: neither agent sees what the other share is.
func Overlap(a sharedvolume.Attributes, handle string, other sharedvolume.Attributes) error {
	if a.Path == other.Path || !sharedvolume.SameServer(a.Server, other.Server) {
		// The records of one share tell its volumes apart.
		return nil
	}
	mine, theirs := path.Join(a.Path, a.Directory), path.Join(other.Path, other.Directory)
	if !sharedvolume.Contains(mine, theirs) && !sharedvolume.Contains(theirs, mine) {
		return nil
	}
	return volume.Refuse(volume.Conflict, "directory %s of server %s is, contains or is inside of directory %s of volume %s, which is on another share of that server: "+
		"choose another subDir", mine, a.Server, theirs, handle)
}
