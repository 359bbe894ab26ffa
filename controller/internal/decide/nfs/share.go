// Package nfs decides about volumes that are directories on an NFS share: what is recorded of a volume when it is made, what becomes
// of it when it is deleted, and through which agents a share is tried. It knows neither clients nor the wire.
package nfs

import (
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// ShareOf returns the share of an Nfs, with the identity that its status records.
func ShareOf(n *v1alpha1.Nfs) sharedvolume.Share {
	s := sharedvolume.Share{Server: n.Spec.Server, Path: n.Spec.Path, Owner: string(n.UID), ID: n.Status.ShareID}
	for _, o := range n.Spec.MountOptions {
		s.MountOptions = append(s.MountOptions, string(o))
	}
	return s
}

// Recorded returns the share that a volume was made on. The identity makes sure that it is the same one.
func Recorded(owner string, a sharedvolume.Attributes) sharedvolume.Share {
	return sharedvolume.Share{Server: a.Server, Path: a.Path, MountOptions: a.MountOptions, Owner: owner, ID: a.ShareID}
}
