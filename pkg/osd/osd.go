// Package osd is what both sides know of a disk that holds an OSD of Ceph: which UUID the OSD of a Cluster on a disk has, what a label of BlueStore
// says, and what a disk with such labels is to a Cluster. It is pure.
package osd

import (
	"crypto/sha1"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Disk tells one disk from another.
type Disk struct {
	WWN, Serial string
	SizeBytes   int64
	// Node is the name of the Kubernetes node that the disk is in. It counts for a disk without both WWN and serial number: virtual disks of several machines repeat one of them alone, and slots of
	// two nodes have the same names.
	Node string
}

// uid is how Kubernetes writes the UID of an object: a UUID.
var uid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// ValidUUID reports whether a text is a UUID as Kubernetes and Ceph write it, in small letters and with dashes. The one of zeroes only, which
// Ceph takes for none, is not.
func ValidUUID(text string) bool { return uid.MatchString(text) && strings.Trim(text, "0-") != "" }

// UUID is the UUID of the OSD that a Cluster makes on a disk. A disk with WWN and serial number has the same one on every node. The node counts for all others, and the path for a disk without
// either, which nothing else tells from others. It returns an error for a UID that is no UUID, for a disk without a size, and for a disk whose node counts and is not told.
//
// The UID is that of the Cluster which made the Ceph cluster, its FSID: one that took that up has another.
//
// The format is stable: version 5 of RFC 9562, in the namespace of the Cluster's UID, of the name "quarry-osd-v1", wwn, serial, size, and the place,
// each ended by a newline. The place is empty, or node, or node, newline, path.
func UUID(clusterUID string, d Disk, path string) (string, error) {
	all, err := UUIDs(clusterUID, d, path)
	if err != nil {
		return "", err
	}
	return all[0], nil
}

// UUIDs are the UUIDs that the OSD of a Cluster on a disk may have by one path of the disk. The first is that of UUID. Earlier versions left out the node of a disk that has a WWN or a serial number
// alone: an OSD that they made keeps its UUID.
func UUIDs(clusterUID string, d Disk, path string) ([]string, error) {
	if !ValidUUID(clusterUID) {
		return nil, fmt.Errorf("the UID %q of the Cluster is no UUID", clusterUID)
	}
	if d.SizeBytes <= 0 {
		return nil, fmt.Errorf("disk %s has a size of %d bytes", path, d.SizeBytes)
	}
	certain, nameless := d.WWN != "" && d.Serial != "", d.WWN == "" && d.Serial == ""
	if !certain && d.Node == "" {
		return nil, fmt.Errorf("disk %s has no WWN or no serial number, and its node is not told", path)
	}
	at := func(place string) string {
		return version5(clusterUID, strings.Join([]string{"quarry-osd-v1", d.WWN, d.Serial, strconv.FormatInt(d.SizeBytes, 10), place, ""}, "\n"))
	}
	switch {
	case certain:
		return []string{at("")}, nil
	case nameless:
		return []string{at(d.Node + "\n" + path)}, nil
	}
	return []string{at(d.Node), at("")}, nil
}

// Is reports whether a UUID is one that the OSD of the Cluster on the disk may have. All names of the disk count: links come and go with updates
// of udev, and it is not known which one was used.
func Is(uuid, clusterUID string, d Disk, paths ...string) bool {
	return slices.ContainsFunc(paths, func(p string) bool {
		own, err := UUIDs(clusterUID, d, p)
		return err == nil && slices.Contains(own, uuid)
	})
}

// version5 is the UUID of a name in a namespace, which is a valid UUID. SHA-1 is what the version prescribes; no secret depends on it.
func version5(namespace, name string) string {
	h := sha1.New()
	plain := strings.ReplaceAll(namespace, "-", "")
	for i := 0; i < len(plain); i += 2 {
		h.Write([]byte{nibble(plain[i])<<4 | nibble(plain[i+1])})
	}
	h.Write([]byte(name))
	b := h.Sum(nil)[:16]
	b[6] = b[6]&0x0f | 0x50
	b[8] = b[8]&0x3f | 0x80
	return text(b)
}

func nibble(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// text writes the 16 bytes of a UUID.
func text(b []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
