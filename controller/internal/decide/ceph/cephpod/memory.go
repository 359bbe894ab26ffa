package cephpod

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"quarry.storage/quarry/pkg/cephname"
)

// defaults are the memory that a kind of daemon gets if the spec gives none.
var defaults = map[string]string{
	cephname.DaemonMonitor: "1Gi", cephname.DaemonManager: "768Mi", cephname.DaemonOSD: "2Gi", cephname.DaemonMetadata: "1Gi", cephname.DaemonTools: "64Mi",
}

// leastTarget is the least that Ceph takes for the memory of an OSD, in bytes.
const leastTarget = 896 << 20

// resources of a kind of daemon. The memory is fixed: a daemon that takes more is ended rather than others on its host.
func (p Plan) resources(kind string) corev1.ResourceRequirements {
	if r, ok := p.Resources[kind]; ok {
		return r
	}
	memory := resource.MustParse(defaults[kind])
	cpu := resource.MustParse("100m")
	if kind == cephname.DaemonTools {
		cpu = resource.MustParse("5m")
	}
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}}
	// The making of an OSD is counted where the agent runs, not in the idle pod.
	r.Limits = corev1.ResourceList{corev1.ResourceMemory: memory}
	return r
}

// limit is the memory that a daemon is ended above, in bytes; 0 when it may have all.
func (p Plan) limit(kind string) int64 {
	limits := p.resources(kind).Limits
	return limits.Memory().Value()
}

// Memory is what a daemon is given on its host, in bytes: what it asks for, which is its limit if it asks for nothing; 0 when the spec gives it none.
func (p Plan) Memory(kind string) int64 {
	r := p.resources(kind)
	if asks, ok := r.Requests[corev1.ResourceMemory]; ok {
		return asks.Value()
	}
	return p.limit(kind)
}

// caches keeps the caches of a monitor or a metadata server within its memory: Ceph's own defaults are 2 and 4 GiB, whatever the limit is. The options are
// defaults, so that spec.ceph.config still outranks them. Four fifths are what Ceph itself takes of an OSD's limit. A metadata server counts only its
// cache, which takes about as much again.
func (p Plan) caches(kind string) []string {
	limit := p.limit(kind)
	if limit == 0 {
		return nil
	}
	switch kind {
	case cephname.DaemonMonitor:
		return []string{"--default-mon_memory_target=" + strconv.FormatInt(limit/5*4, 10)}
	case cephname.DaemonMetadata:
		return []string{"--default-mds_cache_memory_limit=" + strconv.FormatInt(limit/2, 10)}
	}
	return nil
}

// memory tells an OSD its limit, of which it makes its target unless an option says otherwise. Without a limit the kubelet would tell the memory of the
// whole node, and of a limit that is too small Ceph would make no target.
func (p Plan) memory(kind string) []corev1.EnvVar {
	if limit := p.limit(kind); kind != cephname.DaemonOSD || limit/5*4 < leastTarget {
		return nil
	}
	return []corev1.EnvVar{{Name: "POD_MEMORY_LIMIT", ValueFrom: &corev1.EnvVarSource{
		ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1")},
	}}}
}
