package cephpod

import (
	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/cephname"
)

const (
	// dataOf is where daemons have their data.
	dataOf = "/var/lib/ceph/"
	// sockets is where daemons have their sockets for commands.
	sockets = "/run/ceph"
	// own is where the keyring of a daemon is.
	own = "/etc/ceph-own"
	// ownKeyring is that keyring.
	ownKeyring = own + "/keyring"
)

// hostData is where monitors keep their data on their nodes.
const hostData = "/var/lib/quarry-ceph"

// DataPath is where the data of a monitor are on its node.
func DataPath(fsid, name string) string { return hostData + "/" + fsid + "/mon." + name }

// main is the container of a daemon.
func (p Plan) main(d Daemon) corev1.Container {
	c := corev1.Container{
		Name: d.Kind, Image: p.Image, Command: append(command(d), p.caches(d.Kind)...), Resources: p.resources(d.Kind),
		Env:                      append([]corev1.EnvVar{{Name: "CEPH_USE_RANDOM_NONCE", Value: "true"}}, p.memory(d.Kind)...),
		SecurityContext:          security(d),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		ImagePullPolicy:          corev1.PullIfNotPresent,
	}
	if d.Kind == cephname.DaemonTools {
		return c
	}
	c.LivenessProbe, c.ReadinessProbe = alive(d), ready(d)
	c.Env = append(c.Env, corev1.EnvVar{Name: asksIn, Value: asks})
	if d.Kind == cephname.DaemonMonitor {
		c.Ports = []corev1.ContainerPort{{Name: "msgr2", ContainerPort: cephname.PortMonitor, HostPort: cephname.PortMonitor, Protocol: corev1.ProtocolTCP}}
	}
	return c
}

// command of the container of a daemon.
func command(d Daemon) []string {
	switch d.Kind {
	case cephname.DaemonMonitor:
		return []string{
			"/usr/bin/ceph-mon", "--foreground", "--id", d.ID, "--public-addrv", vector(d.Address), "--keyring", "/etc/ceph-keys/" + cephname.KeyMonitor,
			"--mon-data", dataOf + "mon/ceph-" + d.ID,
		}
	case cephname.DaemonOSD:
		return []string{
			"/usr/bin/ceph-osd", "--foreground", "--id", d.ID, "--osd-data", dataOf + "osd/ceph-" + d.ID, "--keyring", ownKeyring,
			"--crush-location=root=default host=" + d.Node,
		}
	case cephname.DaemonTools:
		return []string{"/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"}
	}
	return []string{"/usr/bin/ceph-" + d.Kind, "--foreground", "--id", d.ID, "--keyring", ownKeyring}
}

// security of a container: only what opens a disk of the host has all rights.
func security(d Daemon) *corev1.SecurityContext {
	if d.Kind == cephname.DaemonOSD {
		return &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64(0))}
	}
	return &corev1.SecurityContext{
		RunAsUser: new(int64(0)), AllowPrivilegeEscalation: new(false),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"DAC_OVERRIDE", "FOWNER", "CHOWN"}},
	}
}
