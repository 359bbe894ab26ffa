// Package cephname holds the names by which the parts of Quarry find the Ceph cluster of a Cluster: where its workloads run, which Secret has the key of
// its clients, which filesystem its volumes are in. It is pure.
package cephname

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"quarry.storage/quarry/pkg/quarry"
)

// Namespace is where the daemons of all Clusters run, privileged and in the host's network. Their configuration and keys are there too.
const Namespace = "quarry-ceph"

// Names inside of each Ceph cluster. A Cluster has a Ceph cluster of its own, so no name of the Cluster is among them.
const (
	// Filesystem that the volumes are in.
	Filesystem = "quarry"
	// PoolMetadata and PoolData are the pools of the filesystem.
	PoolMetadata = "quarry-metadata"
	PoolData     = "quarry-data"
	// PoolManager is the pool that managers make for themselves.
	PoolManager = ".mgr"
	// Group is the subvolume group of all volumes.
	Group = "quarry"
	// GroupPath is the directory of the group. The key of the clients reaches nothing else.
	GroupPath = "/volumes/" + Group
	// ClientUser is the user that mounts volumes, without "client.".
	ClientUser = "quarry-csi"
)

// Keys of Secrets and ConfigMaps.
const (
	// KeyConfig is the key of the configuration file in the ConfigMap.
	KeyConfig = "ceph.conf"
	// KeyMonitor and KeyAdmin are the keys of the keyrings in the Secret with the Ceph cluster's own keys.
	KeyMonitor = "mon.keyring"
	KeyAdmin   = "admin.keyring"
	// KeyUser and KeySecret have the user and its secret in the Secret of the clients.
	KeyUser   = "userID"
	KeySecret = "userKey"
	// KeyUsername and KeyPassword have the user of the dashboard and its password, in a Secret of the kind that Kubernetes has for such.
	KeyUsername = "username"
	KeyPassword = "password"
	// KeyDisk has the 32 bytes that open the disk of an encrypted OSD.
	KeyDisk = "key"
)

// Labels of every object that is made for a Ceph cluster.
const (
	// LabelFSID has the FSID: the UID of the Cluster that made the Ceph cluster.
	LabelFSID = quarry.Group + "/ceph-fsid"
	// LabelDaemon has the kind of the daemon, or what else an object is: one of the constants DaemonXxx and ObjectXxx.
	LabelDaemon = quarry.Group + "/ceph-daemon"
	// LabelID has what Ceph calls the daemon: a, h1234abcd, 7. The idle pod has the digits of its node.
	LabelID = quarry.Group + "/ceph-id"
	// AnnotationNode has the node. Names of nodes can be too long for a label.
	AnnotationNode = quarry.Group + "/ceph-node"
	// AnnotationOSD has the UUID of an OSD; empty for other daemons.
	AnnotationOSD = quarry.Group + "/ceph-osd"
	// AnnotationTold is on the Secret of the dashboard: the FSID, from the time on that Ceph was told the user and the password in it.
	AnnotationTold = quarry.Group + "/ceph-told"
)

// Values of LabelDaemon on workloads. Those of daemons of Ceph are also what Ceph calls their kinds.
const (
	DaemonMonitor  = "mon"
	DaemonManager  = "mgr"
	DaemonOSD      = "osd"
	DaemonMetadata = "mds"
	// DaemonTools is the idle pod with Ceph's programs, DaemonSweep the pod that removes the data of a monitor that is gone.
	DaemonTools = "tools"
	DaemonSweep = "sweep"
)

// Values of LabelDaemon on what no daemon runs in: Secrets, Services, and the ConfigMap Config.
const (
	ObjectKeys   = "keys"
	ObjectConfig = "config"
	ObjectClient = "client"
	// ObjectDiskKey is the Secret with the key of the disk of an encrypted OSD.
	ObjectDiskKey = "disk-key"
	// ObjectMetrics is the Service of the managers' metrics.
	ObjectMetrics = "metrics"
	// ObjectDashboard is the Secret with the password of the dashboard, and the Service that names the manager which serves it.
	ObjectDashboard = "dashboard"
)

// PortMetrics is where managers serve their metrics, PortDashboard where one of them serves the dashboard.
const (
	PortMetrics   = 9283
	PortDashboard = 8443
)

// Module is whom the options are for that are modules of the managers, in the record of the options: no daemon of Ceph has that name. ModuleMetrics is the one that serves
// metrics, ModuleDashboard the one that serves the dashboard.
const (
	Module          = "module"
	ModuleMetrics   = "prometheus"
	ModuleDashboard = "dashboard"
)

// DashboardUser is the user that Quarry makes in the dashboard.
const DashboardUser = "quarry"

// Metrics is the name of the Service of the managers' metrics.
func Metrics(cluster string) string { return service(cluster, "metrics") }

// Dashboard is the name of the Secret and of the Service of the dashboard.
func Dashboard(cluster string) string { return service(cluster, "dashboard") }

// longestService is how long the name of a Service can be.
const longestService = 63

// service is the name of a Service. A name of a Cluster that is too long for one, or has a dot, is not in it: digits stand for it.
func service(cluster, what string) string {
	if name := "ceph-" + cluster + "-" + what; len(name) <= longestService && !strings.Contains(name, ".") {
		return name
	}
	sum := sha256.Sum256([]byte(cluster))
	return "ceph-" + hex.EncodeToString(sum[:8]) + "-" + what
}

// ContainerMonitor is the container of a monitor's pod in which commands are run. ContainerTools is the only one of the idle pod.
const (
	ContainerMonitor = "mon"
	ContainerTools   = "tools"
)

// PortMonitor is where monitors listen, by the newer protocol only.
const PortMonitor = 3300

// Config is the name of the ConfigMap with the configuration file of a Cluster.
func Config(cluster string) string { return "ceph-" + cluster }

// Keys is the name of the Secret with the Ceph cluster's own keys. Nobody but its daemons needs them.
func Keys(cluster string) string { return "ceph-" + cluster + "-keys" }

// DiskKey begins the name of each Secret with a key of the disk of an encrypted OSD. It is the whole name of one that an earlier version made.
func DiskKey(cluster, uuid string) string { return "ceph-" + cluster + "-osd-" + uuid }

// Client is the name of the Secret with the key of the clients.
func Client(cluster string) string { return "ceph-" + cluster + "-client" }

// Workload is the name of the workload of a daemon.
func Workload(cluster, daemon, id string) string { return "ceph-" + cluster + "-" + daemon + "-" + id }

// OnNode is what a daemon is called that keeps nothing on its node: a letter, and digits that stand for the node. Ceph takes no name of a metadata server that begins with a
// digit, and a name of a node may have dots.
func OnNode(node string) string {
	sum := sha256.Sum256([]byte(node))
	return "h" + hex.EncodeToString(sum[:4])
}

// Letters is the name of the nth monitor that a Cluster ever made, from 0 on: a to z, then aa.
func Letters(n int) string {
	out := ""
	for n++; n > 0; n = (n - 1) / 26 {
		out = string(rune('a'+(n-1)%26)) + out
	}
	return out
}

// Number is the n that Letters makes a name of; -1 for a name that it never makes, or only after 26 to the power of 8 others.
func Number(name string) int {
	n := 0
	for _, r := range name {
		if r < 'a' || r > 'z' || len(name) > 8 {
			return -1
		}
		n = n*26 + int(r-'a') + 1
	}
	return n - 1
}

// Address is where a monitor listens, in the form that clients are given.
func Address(ip string) string {
	if strings.Contains(ip, ":") {
		ip = "[" + ip + "]"
	}
	return ip + ":" + strconv.Itoa(PortMonitor)
}
