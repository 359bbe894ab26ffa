// Package workload has what runs for a GlusterCluster: the servers of its nodes, etcd, and what they share. It is pure: it makes the objects, and whoever
// calls it applies them.
//
// None of them has an owner. One that was restored with another UID would have the garbage collector delete the servers of a pool that is in use; what is
// made is removed by the reconciler, in its order.
package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Object is one of Kubernetes.
type Object interface {
	metav1.Object
	runtime.Object
}

// Ports of the servers.
const (
	ClientPort     = 24007
	PeerPort       = 24008
	EtcdPort       = 2379
	etcdPeerPort   = 2380
	etcdHealthPort = 2381
	// Bricks listen from here on.
	firstBrickPort = 49152
	lastBrickPort  = 60999
)

// Parts, the values of the label.
const (
	PartServer = "glusterd2"
	PartEtcd   = "etcd"
	PartShared = "shared"
)

// Members is the number of members of etcd. One of three may be away.
const Members = 3

// KeyAuth is the key of the secret that all servers of a pool have, in its Secret and in a server's state.
const KeyAuth = "auth"

// Keys of a certificate.
const (
	KeyCA          = "ca.crt"
	KeyCAKey       = "ca.key"
	KeyCertificate = "tls.crt"
	KeyPrivate     = "tls.key"
)

// Service is the name of the Service by which servers have names.
func Service(cluster string) string { return cluster + "-gluster" }

// ClientService is the name of the Service that leads to any server.
func ClientService(cluster string) string { return cluster + "-gluster-client" }

// Auth is the name of the Secret with the secret of the servers.
func Auth(cluster string) string { return cluster + "-gluster-auth" }

// TLS is the name of the Secret with the certificate of the servers.
func TLS(cluster string) string { return cluster + "-gluster-tls" }

// Etcd is the name of the Service of etcd's members, and how the names of these begin.
func Etcd(cluster string) string { return cluster + "-etcd" }

// EtcdTLS is the name of the Secret with the certificate of etcd and of those who may talk to it.
func EtcdTLS(cluster string) string { return cluster + "-etcd-tls" }

// Member is the name of a member of etcd, and of its claim.
func Member(cluster string, i int) string { return Etcd(cluster) + "-" + strconv.Itoa(i) }

// StateClaim is the name of the claim with the state of a node's server.
func StateClaim(node string) string { return node + "-state" }

// Pod is the name of the pod of a workload with one pod.
func Pod(workload string) string { return workload + "-0" }

// Host is the name of a node's server for other servers and clients.
func Host(n *v1alpha1.GlusterNode) string {
	return fmt.Sprintf("%s.%s.%s.svc", Pod(n.Name), Service(n.Spec.Cluster), n.Namespace)
}

// PeerAddress is where other servers reach that of a node.
func PeerAddress(n *v1alpha1.GlusterNode) string {
	return fmt.Sprintf("%s:%d", Host(n), PeerPort)
}

// ClientAddress is where its API is.
func ClientAddress(n *v1alpha1.GlusterNode) string {
	return fmt.Sprintf("%s:%d", Host(n), ClientPort)
}

// Names are the names in the certificate of the servers.
func Names(c *v1alpha1.GlusterCluster) []string {
	return []string{
		fmt.Sprintf("*.%s.%s.svc", Service(c.Name), c.Namespace), fmt.Sprintf("%s.%s.svc", ClientService(c.Name), c.Namespace), "localhost",
	}
}

// EtcdNames are the names in the certificate of etcd.
func EtcdNames(c *v1alpha1.GlusterCluster) []string {
	return []string{fmt.Sprintf("*.%s.%s.svc", Etcd(c.Name), c.Namespace), "localhost"}
}

// memberHost is the name of a member of etcd for others.
func memberHost(c *v1alpha1.GlusterCluster, i int) string {
	return fmt.Sprintf("%s.%s.%s.svc", Pod(Member(c.Name, i)), Etcd(c.Name), c.Namespace)
}

// Device is the path of a claim in the server's pod. glusterd2 names the volume group by it, and the kernel of a machine has these names once: so it follows
// from the namespace and the name of the claim, is short, and stays the same when everything is restored.
func Device(namespace, claim string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + claim))
	return "/dev/gluster/" + hex.EncodeToString(sum[:8])
}

// Devices are the paths of all claims of a node, and of the disks that it has, in the order of its spec.
func Devices(n *v1alpha1.GlusterNode) []string {
	var all []string
	for _, s := range n.Spec.Storage {
		if s.PVCName != "" {
			all = append(all, Device(n.Namespace, s.PVCName))
		} else if r := allocated(n, s); r != nil {
			all = append(all, Disk(*r))
		}
	}
	return all
}

// labels are those of what is made for a cluster.
func labels(cluster, part, node string) map[string]string {
	all := map[string]string{
		"app.kubernetes.io/part-of": "quarry", v1alpha1.LabelGlusterCluster: cluster, v1alpha1.LabelGlusterPart: part,
	}
	if node != "" {
		all[v1alpha1.LabelGlusterNode] = node
	}
	return all
}

// selector selects the pods of a part.
func selector(cluster, part string) map[string]string {
	return map[string]string{v1alpha1.LabelGlusterCluster: cluster, v1alpha1.LabelGlusterPart: part}
}

func meta(namespace, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
}

// Ours reports whether an object that has the name of one of ours is one: others are never touched.
func Ours(have, want metav1.Object) bool {
	for _, key := range []string{v1alpha1.LabelGlusterCluster, v1alpha1.LabelGlusterPart, v1alpha1.LabelGlusterNode} {
		if have.GetLabels()[key] != want.GetLabels()[key] {
			return false
		}
	}
	return true
}
