// Package cephpod says what the workloads of a Ceph cluster are like: its configuration file, and the Deployment of each daemon. It is pure: it
// neither chooses which daemons there are, nor writes anything.
package cephpod

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// AnnotationTemplate is on each Deployment: the digest of what it was made of. One with another digest is to be replaced.
const AnnotationTemplate = v1alpha1.Group + "/ceph-template"

// Plan is what the workloads of one Ceph cluster are made of.
type Plan struct {
	// Cluster is the name of the Cluster, FSID that of its Ceph cluster.
	Cluster, FSID string
	// Image of the daemons.
	Image string
	// Resources by kind of daemon; a kind that has none gets 0.1 processors and the memory that it needs.
	Resources map[string]corev1.ResourceRequirements
}

// Of returns what the workloads of a Cluster are made of.
func Of(c *v1alpha1.Cluster) Plan {
	p := Plan{Cluster: c.Name, FSID: c.FSID(), Image: v1alpha1.CephImage, Resources: map[string]corev1.ResourceRequirements{}}
	s := c.Spec.Ceph
	if s == nil {
		return p
	}
	if s.Image != "" {
		p.Image = s.Image
	}
	if r := s.Resources; r != nil {
		for kind, given := range map[string]*corev1.ResourceRequirements{
			cephname.DaemonMonitor: r.Mon, cephname.DaemonManager: r.Mgr, cephname.DaemonOSD: r.OSD, cephname.DaemonMetadata: r.MDS,
		} {
			if given != nil {
				p.Resources[kind] = *given
			}
		}
	}
	return p
}

// Daemon is one of a Ceph cluster.
type Daemon struct {
	// Kind is one of the constants cephname.DaemonXxx; ID is what Ceph calls it.
	Kind, ID string
	// Node that it is bound to.
	Node string
	// Image that it runs; that of the Plan when it is empty.
	Image string
	// Address is that of the node; only a monitor's is used.
	Address string
	// First: the monitor makes the Ceph cluster if it has nothing on its disk. It is true for one only, until monitors were seen as a quorum.
	First bool
	// UUID and Device are those of an OSD.
	UUID, Device string
	// Encrypted: the disk of the OSD is. Secret is the name on record of the Secret with its key.
	Encrypted bool
	Secret    string
}

// Monitor is where one listens.
type Monitor struct{ Name, Address string }

// HostsKey begins the line of the configuration file that says where the monitors are.
const HostsKey = "mon_host = "

// Hosts is the value of mon_host: where all monitors listen, by the newer protocol.
func Hosts(monitors []Monitor) string {
	var out []string
	for _, m := range monitors {
		out = append(out, vector(m.Address))
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

func vector(ip string) string { return "[v2:" + cephname.Address(ip) + "]" }

// copiesKey begins the line that says how many copies a pool has.
const copiesKey = "osd_pool_default_size = "

// Copies is how many copies a configuration file says that pools have; 0 when it says nothing.
func Copies(config string) int {
	for line := range strings.Lines(config) {
		if text, is := strings.CutPrefix(strings.TrimSpace(line), copiesKey); is {
			n, _ := strconv.Atoi(text) // What is no number says nothing.
			return n
		}
	}
	return 0
}

// Config is the configuration file. Options of the spec are not in it: Ceph is told, and may refuse them.
// Where copies may share a host, that is what the first monitor makes the rule of all pools of.
func Config(fsid string, monitors []Monitor, copies, least int, share bool) string {
	lines := []string{
		"[global]",
		"fsid = " + fsid,
		HostsKey + Hosts(monitors),
		copiesKey + strconv.Itoa(copies),
		"osd_pool_default_min_size = " + strconv.Itoa(least),
		"mon_warn_on_pool_no_redundancy = false",
		"auth_allow_insecure_global_id_reclaim = false",
		"mon_cluster_log_to_file = false",
		"log_to_file = false",
		"log_to_stderr = true",
		"err_to_stderr = true",
		"crash_dir = /run/ceph",
	}
	if share {
		lines = append(lines, "osd_crush_chooseleaf_type = 0")
	}
	return strings.Join(lines, "\n") + "\n"
}

// digest covers everything that a pod is made of.
func digest(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		// Types of Kubernetes always marshal; should one not, no Deployment must look like the wanted one.
		raw = []byte(err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
