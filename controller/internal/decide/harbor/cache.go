package harbor

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// redisSuffix and the name of the HarborCluster make the name of its RedisFailover.
const redisSuffix = "-redis"

// Keys of the Secret of an in-cluster cache: Harbor looks under the first, the operator of Redis under the second.
const (
	KeyRedisPassword = "redis-password"
	KeyPassword      = "password"
)

// LabelPartOf and PartOfRedis mark what the operator of Redis makes.
const (
	LabelPartOf = "app.kubernetes.io/part-of"
	PartOfRedis = "redis-failover"
)

// CachePassword names the Secret with the password of an in-cluster cache.
func CachePassword(c *v1alpha1.HarborCluster) string { return cacheName(c) }

// RedisServers and RedisSentinels are the names of the StatefulSet and of the Deployment that the operator of Redis makes.
func RedisServers(c *v1alpha1.HarborCluster) string { return "rfr-" + cacheName(c) }

// RedisSentinels is the name of the Deployment of sentinels.
func RedisSentinels(c *v1alpha1.HarborCluster) string { return "rfs-" + cacheName(c) }

// ClusterOfRedis returns the name of the HarborCluster that a StatefulSet or Deployment of the operator of Redis may be of.
func ClusterOfRedis(workload string) string {
	for _, prefix := range []string{"rfr-", "rfs-"} {
		if rest, ok := strings.CutPrefix(workload, prefix); ok {
			if name, ok := strings.CutSuffix(rest, redisSuffix); ok {
				return name
			}
		}
	}
	return ""
}

// RedisFailover returns the in-cluster cache, for an operator with the given schema.
func RedisFailover(c *v1alpha1.HarborCluster, s *Schema) *unstructured.Unstructured {
	r := c.Spec.Cache.Spec.RedisFailover
	server, sentinel := v1alpha1.HarborRedisServer{}, v1alpha1.HarborRedisSentinel{}
	if r.Server != nil {
		server = *r.Server
	}
	if r.Sentinel != nil {
		sentinel = *r.Sentinel
	}
	resources := map[string]any{}
	put(resources, "requests", amounts(server.Resources.Requests))
	put(resources, "limits", amounts(server.Resources.Limits))
	servers := map[string]any{
		"replicas": replicas(server.Replicas),
		"storage": map[string]any{
			"keepAfterDeletion": true,
			"persistentVolumeClaim": map[string]any{
				"metadata": map[string]any{"name": c.Name},
				"spec":     claim(cmp.Or(server.StorageClassName, c.Spec.StorageClassName), size(server.Storage, "1Gi")),
			},
		},
	}
	sentinels := map[string]any{"replicas": replicas(sentinel.Replicas)}
	for _, m := range []map[string]any{servers, sentinels} {
		image(m, r.HarborImage)
		put(m, "resources", resources)
	}
	put(servers, "serviceAccountName", server.ServiceAccountName)
	if s.declares("spec", "sentinel", "enabled") {
		// A fork of the operator makes no Sentinel unless it is told to; Harbor finds its cache through Sentinel.
		sentinels["enabled"] = true
	}
	o := object(c, RedisFailoverKind, cacheName(c), map[string]any{"spec": map[string]any{
		"redis": servers, "sentinel": sentinels, "auth": map[string]any{"secretPath": CachePassword(c)},
	}})
	labels := o.GetLabels()
	labels["app.kubernetes.io/name"], labels["goharbor.io/harbor-cluster"] = "cache", c.Name
	o.SetLabels(labels)
	return o
}

// Workload is how far a StatefulSet or Deployment is.
type Workload struct {
	// Hidden is true when it may not be looked at.
	Hidden bool
	Exists bool
	// Current is true when its controller has seen its last change.
	Current bool
	// Wanted and Ready count its pods.
	Wanted, Ready int64
}

// WorkloadOf reads a StatefulSet or Deployment.
func WorkloadOf(o *unstructured.Unstructured) Workload {
	observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	wanted, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if !found {
		wanted = 1
	}
	ready, _, _ := unstructured.NestedInt64(o.Object, "status", "readyReplicas")
	return Workload{Exists: true, Current: observed >= o.GetGeneration(), Wanted: wanted, Ready: ready}
}

func (w Workload) running() bool { return w.Exists && w.Current && w.Ready >= w.Wanted }

// RedisState tells how an in-cluster cache is from what its operator made, because a RedisFailover has no status itself. Where that may
// not be looked at, it counts as running when it exists.
func RedisState(o *unstructured.Unstructured, created bool, servers, sentinels Workload) State {
	name := o.GetName()
	switch {
	case created:
		return Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("The RedisFailover %s was just made.", name))
	case servers.Hidden || sentinels.Hidden:
		return Running(fmt.Sprintf("The RedisFailover %s exists; the controller may not look at what its operator made.", name))
	case servers.running() && sentinels.running():
		return Running(fmt.Sprintf("The servers and sentinels of the RedisFailover %s run.", name))
	case !servers.Exists || !sentinels.Exists:
		return Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("The RedisFailover %s was not taken up by its operator yet.", name))
	}
	return Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("Of the RedisFailover %s, %d of %d servers and %d of %d sentinels are ready.",
		name, servers.Ready, servers.Wanted, sentinels.Ready, sentinels.Wanted))
}

// CacheConnection says how Harbor reaches its cache.
func CacheConnection(c *v1alpha1.HarborCluster) map[string]any {
	e := c.Spec.Cache.Spec.Redis
	if e == nil {
		return map[string]any{
			"host": RedisSentinels(c), "port": int64(26379), "sentinelMasterSet": "mymaster", "passwordRef": CachePassword(c),
		}
	}
	m := map[string]any{"host": e.Host, "port": int64(cmp.Or(e.Port, 6379))}
	put(m, "sentinelMasterSet", e.SentinelMasterSet)
	put(m, "passwordRef", string(e.PasswordRef))
	put(m, "certificateRef", string(e.CertificateRef))
	return m
}
