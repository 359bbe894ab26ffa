package execpod

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/cephname"
)

// Monitors returns what finds the pods of the monitors of a Ceph cluster, for Config. Only they have the key of the administrator.
func Monitors(pods client.Reader, fsid string) func(ctx context.Context) ([]corev1.Pod, error) {
	return func(ctx context.Context) ([]corev1.Pod, error) {
		var list corev1.PodList
		err := pods.List(ctx, &list, client.InNamespace(cephname.Namespace),
			client.MatchingLabels{cephname.LabelFSID: fsid, cephname.LabelDaemon: cephname.DaemonMonitor})
		return list.Items, err
	}
}
