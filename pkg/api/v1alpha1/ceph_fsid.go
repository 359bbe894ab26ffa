package v1alpha1

import "strings"

// FSID returns that of the Ceph cluster of a Cluster of type cephfs: the one on record, once anything was begun, else that of spec.ceph.takeUp, or the UID.
func (c *Cluster) FSID() string {
	uid, fsid, taken := strings.Cut(c.Annotations[AnnotationCephTakenUp], "/")
	switch {
	case taken && uid == string(c.UID):
		return fsid
	case c.Annotations[AnnotationCephKeys] == string(c.UID) || c.Spec.Ceph == nil || c.Spec.Ceph.TakeUp == nil:
		return string(c.UID)
	}
	return c.Spec.Ceph.TakeUp.FSID
}

// TakesUp reports whether the Cluster has, or is to take up, a Ceph cluster that an earlier Cluster made; or one that it made itself, if a restore forgot that before the monitors were seen.
func (c *Cluster) TakesUp() bool {
	own := string(c.UID)
	uid, _, taken := strings.Cut(c.Annotations[AnnotationCephTakenUp], "/")
	switch {
	case taken && uid == own:
		return true
	case c.Spec.Ceph == nil || c.Spec.Ceph.TakeUp == nil:
		return false
	case c.Annotations[AnnotationCephKeys] == own:
		return c.Spec.Ceph.TakeUp.FSID == own && c.Annotations[AnnotationCephFormed] != own
	}
	return true
}
