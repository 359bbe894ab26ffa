package decide

import "github.com/google/uuid"

// filesystems is the space of the UUIDs of filesystems on our volumes.
var filesystems = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("filesystem.iscsi.quarry.storage"))

// FilesystemUUID is the UUID of the filesystem on a volume. It follows from the UUID that LVM gave the volume: a filesystem that has it was made on this very
// volume.
func FilesystemUUID(volumeUUID string) string {
	return uuid.NewSHA1(filesystems, []byte(volumeUUID)).String()
}
