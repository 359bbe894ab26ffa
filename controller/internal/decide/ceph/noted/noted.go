// Package noted reads the record of a Cluster of type cephfs itself, which is in its annotations: whether its keys were used, its monitors and its filesystem were there, whose clients are blocked, and how
// many monitors it ever had. It is pure.
package noted

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// Is reports whether an annotation of a Cluster is its own record: one that a manifest brought along has another UID.
func Is(c *v1alpha1.Cluster, annotation string) bool {
	return c.Annotations[annotation] == string(c.UID)
}

// Formed reports whether the Ceph cluster exists, by the record that monitors were seen as a quorum, or since the Cluster takes up one. From then on no monitor makes another one.
func Formed(c *v1alpha1.Cluster) bool { return Is(c, v1alpha1.AnnotationCephFormed) || c.TakesUp() }

// Served reports whether there may be volumes, by the record that the filesystem was there, or since the Cluster has begun to take up a Ceph cluster.
func Served(c *v1alpha1.Cluster) bool {
	return Is(c, v1alpha1.AnnotationCephServed) || c.TakesUp() && Begun(c)
}

// Begun reports whether anything of the Ceph cluster is the Cluster's, by the record that its keys are. Before that a Secret with keys is somebody's who restored it.
func Begun(c *v1alpha1.Cluster) bool { return Is(c, v1alpha1.AnnotationCephKeys) }

// Has reports whether the Ceph cluster whose FSID a Cluster has is its own: it has begun, or the FSID is its UID. One that a spec names alone may be another Cluster's.
func Has(c *v1alpha1.Cluster) bool { return Begun(c) || c.FSID() == string(c.UID) }

// Blocked returns which clients are blocked by the record of a Cluster.
func Blocked(c *v1alpha1.Cluster) ([]ceph.Blocked, error) {
	text, ours := strings.CutPrefix(c.Annotations[v1alpha1.AnnotationCephBlocked], string(c.UID)+"/")
	if !ours || c.UID == "" {
		return nil, nil
	}
	var out []ceph.Blocked
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", v1alpha1.AnnotationCephBlocked, err)
	}
	for i := range out {
		// A kernel or a firmware of another version may write the UUID of the same machine otherwise.
		out[i].Machine = decide.Spelled(out[i].Machine)
	}
	return out, nil
}

// BlockedText is what Blocked reads; empty for none.
func BlockedText(c *v1alpha1.Cluster, records []ceph.Blocked) (string, error) {
	if len(records) == 0 {
		return "", nil
	}
	text, err := json.Marshal(records)
	return string(c.UID) + "/" + string(text), err
}

// MonitorsMade is how many monitors a Cluster ever gave a name to, as far as its own record and those of its Members say: the former may be lost.
func MonitorsMade(c *v1alpha1.Cluster, members []v1alpha1.Member) int {
	made := 0
	uid, count, ok := strings.Cut(c.Annotations[v1alpha1.AnnotationCephMonitors], "/")
	if n, err := strconv.Atoi(count); ok && err == nil && uid == string(c.UID) {
		made = max(made, n)
	}
	for i := range members {
		r := v1alpha1.MemberCeph{}
		if m := members[i].Spec.Ceph; m != nil {
			r = *m
		}
		for _, name := range names(r) {
			made = max(made, cephname.Number(name)+1)
		}
	}
	return made
}

// names are those of the monitors that a Member has, or had, on record.
func names(r v1alpha1.MemberCeph) []string {
	out := slices.Clone(r.Swept)
	if r.Monitor != nil {
		out = append(out, r.Monitor.Name)
	}
	return out
}
