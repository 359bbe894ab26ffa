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

// openOSD opens the encrypted disk of an OSD, if it is the disk that it is deployed for, and leaves one open that is. What an opening that was cut off has left has no table that is live; one
// with a live table and another beside it ("Both") is open, as it is for the agent. A mapping on another number is that of the disk before it was away; the kernel keeps one that
// somebody has open, and one stays whose disk does not open anew: the kernel may have the last key of it. Udev's
// semaphores are those of another IPC namespace, so nodes are made without it; and the kernel's keyrings are those of this container, which ends. The mapping is closed
// by the agent, when the disk is given back, or by the end of the node.
const openOSD = `set -eu
export DM_DISABLE_UDEV=1
name=quarry-osd-$UUID
want=CRYPT-LUKS2-$(echo "$UUID" | tr -d -)-$name
refuse() { echo "$DEVICE: $1" >&2; exit 1; }
said() { printf '%s\n' "$header" | sed -n "s/^$1:[[:space:]]*//p" | head -n 1; }
state() { dmsetup info --columns --noheadings --separator ' ' --options name,uuid,tables_loaded,major,minor | sed -n "s/^$name //p"; }
number() { stat -L -c '%t %T' "$1" | while read -r major minor; do echo "$((0x$major)):$((0x$minor))"; done; }
header=$(cryptsetup luksDump --disable-locks "$DEVICE")
if [ "$(said UUID)" != "$UUID" ] || [ "$(said Subsystem)" != "$FSID" ] || [ "$(said Label)" != quarry-osd ]; then
  refuse "carries $(said Label) $(said UUID) of $(said Subsystem), not OSD $UUID of $FSID"
fi
have=$(state)
case "$have" in
"" | "$want Live "* | "$want Both "*) ;;
"$want "*) dmsetup remove "$name" ;;
*) refuse "another mapping has the name: $have" ;;
esac
case "$have" in
"$want Live "* | "$want Both "*)
  set -- $(dmsetup table "$name")
  if [ $# -lt 8 ] || [ "$3" != crypt ]; then refuse "the mapping $name is not of this disk"; fi
  if [ "$7" != "$(number "$DEVICE")" ]; then
    cryptsetup open --test-passphrase --disable-locks --disable-keyring --batch-mode --type luks2 --key-file /etc/ceph-disk/key --keyfile-size 32 "$DEVICE"
    dmsetup remove "$name" || refuse "the mapping $name is of device $7, which the disk was before it was away, and somebody has it open"
    have=
  fi ;;
esac
case "$have" in
"$want Live "* | "$want Both "*) ;;
*) cryptsetup open --disable-locks --disable-keyring --batch-mode --type luks2 --key-file /etc/ceph-disk/key --keyfile-size 32 "$DEVICE" "$name" ;;
esac
set -- $(dmsetup table "$name")
if [ $# -lt 8 ] || [ "$3" != crypt ] || [ "$7" != "$(number "$DEVICE")" ]; then refuse "the mapping $name is not of this disk"; fi
set -- $(state)
if [ "$1 $2" != "$want Live" ] && [ "$1 $2" != "$want Both" ]; then refuse "the mapping $name is $1 $2"; fi
if [ "$(number "/dev/mapper/$name" 2>/dev/null)" != "$3:$4" ]; then dmsetup mknodes "$name"; fi
DEVICE=/dev/mapper/$name
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
	more := append(privileged(), corev1.VolumeMount{Name: "scratch", MountPath: "/tmp"})
	if d.Encrypted {
		script = openOSD + script
		more = append(more, corev1.VolumeMount{Name: "disk", MountPath: "/etc/ceph-disk", ReadOnly: true})
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
		VolumeMounts: append(mounts(d), more...),
	}}
}
