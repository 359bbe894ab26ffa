// Package nfs decides about volumes that are directories on an NFS share: what is recorded of a volume when it is made, what becomes
// of it when it is deleted, and through which agents a share is tried. Its values are what agents tell about shares. It knows neither
// clients nor the wire.
package nfs

import (
	"time"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// Share says which share is meant, and whose.
type Share struct {
	// Server and Path, as in the Nfs.
	Server, Path string
	// MountOptions choose version and port. Agents leave out those that are for pods.
	MountOptions []string
	// Owner is the UID of the Nfs.
	Owner string
	// ID is the identity that is written on the share; empty when it is not known. Agents refuse a share with another one.
	ID string
}

// Problem is why a share cannot be used from a node.
type Problem struct {
	// Reason is one of the constants ReasonXxx of package sharedvolume; Message is one sentence for a person.
	Reason, Message string
}

// Report is what an agent sees of a share.
type Report struct {
	// Problem is nil when the share can be used.
	Problem *Problem
	// ShareID is the identity that is written on the share; empty when it could not be read.
	ShareID string
	// Sizes in bytes; 0 when they could not be read.
	TotalBytes, UsedBytes, FreeBytes int64
	// Version of the protocol, and the Address that the agent connected to; empty without a mount.
	Version, Address string
}

// State of the directory of a volume.
type State int

// States. The zero value is none that an agent reports.
const (
	// Making: an interrupted creation. Nothing uses the directory yet.
	Making State = iota + 1
	// Made: the directory is there.
	Made
	// Removing: an unfinished deletion. Nothing uses the directory any more.
	Removing
)

// Directory is the record of one volume on a share.
type Directory struct {
	// Owner is the UID of the Nfs, Volume the name of the volume: its handle is "owner/volume".
	Owner, Volume string
	// Path is relative to the root of the share.
	Path     string
	OnDelete sharedvolume.Policy
	State    State
	Created  time.Time
	// ShareID is the identity of the share that the directory is on.
	ShareID string
}

// Removal is how far the deletion of a volume is.
type Removal struct {
	// Done is true when the volume is gone.
	Done bool
	// Entries were removed so far: files, directories and everything else with a name.
	Entries int64
	// OnDelete is what is done, and ArchivedAs the new place of an archived directory.
	OnDelete   sharedvolume.Policy
	ArchivedAs string
	// Note says what was found otherwise than recorded; empty when nothing was.
	Note string
}

// ShareOf returns the share of an Nfs.
func ShareOf(n *v1alpha1.Nfs) Share {
	s := Share{Server: n.Spec.Server, Path: n.Spec.Path, Owner: string(n.UID)}
	for _, o := range n.Spec.MountOptions {
		s.MountOptions = append(s.MountOptions, string(o))
	}
	return s
}

// Recorded returns the share that a volume was made on. The identity makes sure that it is the same one.
func Recorded(owner string, a sharedvolume.Attributes) Share {
	return Share{Server: a.Server, Path: a.Path, MountOptions: a.MountOptions, Owner: owner, ID: a.ShareID}
}
