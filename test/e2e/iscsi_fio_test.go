//go:build e2e

package e2e

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// fio runs the program of the node, which is below /node: no image of the lab has it. Every block that it writes has its own place and the generation in it.
const fio = `mkdir -p /tmp
fio() { rm -f /tmp/fio; /node/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 --library-path /node/lib/x86_64-linux-gnu:/node/lib/x86_64-linux-gnu/ceph /node/bin/fio \
	--name=moved --bs=4k --rw=randwrite --output=/tmp/fio --aux-path=/tmp "$@" 2>/tmp/fio.err || { cat /tmp/fio /tmp/fio.err; return 1; }; }
blocks() { of=$1; shift; fio --filename=/data0/fio --size=2M --verify=pattern --verify_pattern="%o\"move-$of.\"" --verify_fatal=1 "$@"; }
`

// movedLoad verifies with fio each block that the move before wrote, has fio write the next generation, syncs it and reads it back, and then counts while fio goes on
// writing beside it, until the pod is ended in the middle of both. Where that fio fails the log is not what was counted.
func movedLoad(move int) string {
	verify := ""
	if move > 0 {
		verify = fmt.Sprintf("blocks %d --verify_only\n", move-1)
	}
	write := fmt.Sprintf("blocks %d --end_fsync=1 --do_verify=1\n", move)
	return fio + verify + write + "fio --filename=/data0/load --size=2M --time_based --runtime=1h --rate_iops=50 --verify=crc32c --verify_backlog=64 || echo fio failed >> /data0/log &\n" + counting
}

// withNode shows a pod the programs of its node.
func withNode(p *corev1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "node", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/usr", Type: ptr.To(corev1.HostPathDirectory)},
	}})
	main := &p.Spec.Containers[0]
	main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: "node", MountPath: "/node", ReadOnly: true})
}
