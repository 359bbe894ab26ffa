package cephpod

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/cephname"
)

// beginMonitor makes the store of a monitor. The mark is made last: a store without it was never served, and is made anew. Only the first monitor makes a map; each
// other one asks the monitors for theirs, and waits for ever where there are none.
const beginMonitor = `set -eu
data=/var/lib/ceph/mon/ceph-$ID
if [ -e "$data/quarry-made" ]; then exit 0; fi
find "$data" -mindepth 1 -delete
if [ "$FIRST" = true ]; then
  monmaptool --create --clobber --fsid "$FSID" --addv "$ID" "$ADDRESS" /tmp/monmap
else
  ceph --connect-timeout 20 mon getmap -o /tmp/monmap
fi
ceph-mon --mkfs --id "$ID" --fsid "$FSID" --monmap /tmp/monmap --keyring /etc/ceph-keys/mon.keyring --mon-data "$data"
sync
touch "$data/quarry-made"
sync
`

// beginOSD shows the daemon its disk, if the disk is the one that it is deployed for.
const beginOSD = `set -eu
data=/var/lib/ceph/osd/ceph-$ID
ceph-bluestore-tool prime-osd-dir --no-mon-config --dev "$DEVICE" --path "$data"
if [ "$(cat "$data/fsid")" != "$UUID" ] || [ "$(cat "$data/ceph_fsid")" != "$FSID" ] || [ "$(cat "$data/whoami")" != "$ID" ]; then
  echo "$DEVICE carries osd.$(cat "$data/whoami") $(cat "$data/fsid") of $(cat "$data/ceph_fsid"), not osd.$ID $UUID of $FSID" >&2
  exit 1
fi
ln -snf "$DEVICE" "$data/block"
ceph --connect-timeout 20 auth get-or-create "osd.$ID" mon 'allow profile osd' mgr 'allow profile osd' osd 'allow *' -o /etc/ceph-own/keyring
`

const beginManager = `set -eu
ceph --connect-timeout 20 auth get-or-create "mgr.$ID" mon 'allow profile mgr' osd 'allow *' mds 'allow *' -o /etc/ceph-own/keyring
`

const beginMetadata = `set -eu
ceph --connect-timeout 20 auth get-or-create "mds.$ID" mon 'allow profile mds' mgr 'allow profile mds' mds 'allow *' osd 'allow *' -o /etc/ceph-own/keyring
`

// envFirst says whether a monitor makes the cluster if it finds none on its disk.
const envFirst = "FIRST"

// IsFirst reports whether a Deployment is that of a monitor which makes the cluster if it finds none on its disk.
func IsFirst(d *appsv1.Deployment) bool {
	for _, c := range d.Spec.Template.Spec.InitContainers {
		if slices.Contains(c.Env, corev1.EnvVar{Name: envFirst, Value: "true"}) {
			return true
		}
	}
	return false
}

// begin is the container that runs before that of a daemon: it has the administrator's key, the daemon has not.
func (p Plan) begin(d Daemon) []corev1.Container {
	script := map[string]string{
		cephname.DaemonMonitor: beginMonitor, cephname.DaemonOSD: beginOSD, cephname.DaemonManager: beginManager, cephname.DaemonMetadata: beginMetadata,
	}[d.Kind]
	if script == "" {
		return nil
	}
	env := []corev1.EnvVar{{Name: "ID", Value: d.ID}, {Name: "FSID", Value: p.FSID}}
	switch d.Kind {
	case cephname.DaemonMonitor:
		env = append(env, corev1.EnvVar{Name: envFirst, Value: strconv.FormatBool(d.First)}, corev1.EnvVar{Name: "ADDRESS", Value: vector(d.Address)})
	case cephname.DaemonOSD:
		env = append(env, corev1.EnvVar{Name: "UUID", Value: d.UUID}, corev1.EnvVar{Name: "DEVICE", Value: d.Device})
	}
	return []corev1.Container{{
		Name: "begin", Image: p.Image, Command: []string{"/bin/sh", "-c", script}, Env: env, Resources: p.resources(d.Kind),
		SecurityContext: security(d), TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError, ImagePullPolicy: corev1.PullIfNotPresent,
		VolumeMounts: append(append(mounts(d), privileged()...), corev1.VolumeMount{Name: "scratch", MountPath: "/tmp"}),
	}}
}
