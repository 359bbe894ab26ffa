package harbor

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// clientImage makes the bucket when the spec names no other.
const clientImage = "quay.io/minio/mc:RELEASE.2025-08-13T08-35-41Z"

// minioService is the Service that MinIO's operator makes; one per namespace.
const minioService = "minio"

func minioURL(c *v1alpha1.HarborCluster) string {
	return "http://" + minioService + "." + c.Namespace + ".svc:80"
}

// BucketJob returns the Job that makes Harbor's bucket in an in-cluster storage. It can run again at any time.
func BucketJob(c *v1alpha1.HarborCluster) *unstructured.Unstructured {
	client := v1alpha1.HarborImage{}
	if mc := c.Spec.Storage.Spec.MinIO.MC; mc != nil {
		client = *mc
	}
	credentials, _ := StorageCredentials(c)
	fromSecret := func(variable, key string) map[string]any {
		return map[string]any{"name": variable, "valueFrom": map[string]any{
			"secretKeyRef": map[string]any{"name": credentials, "key": key},
		}}
	}
	container := map[string]any{
		"name":    "bucket",
		"image":   cmp.Or(client.Image, clientImage),
		"command": []any{"/bin/sh", "-c", `mc alias set store "$ENDPOINT" "$ACCESS_KEY" "$SECRET_KEY" && mc mb --ignore-existing "store/$BUCKET"`},
		"env": []any{
			map[string]any{"name": "ENDPOINT", "value": minioURL(c)},
			map[string]any{"name": "BUCKET", "value": bucket},
			map[string]any{"name": "MC_CONFIG_DIR", "value": "/tmp/mc"},
			fromSecret("ACCESS_KEY", KeyAccess),
			fromSecret("SECRET_KEY", KeySecret),
		},
		"securityContext": map[string]any{
			"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}},
		},
		"volumeMounts": []any{map[string]any{"name": "tmp", "mountPath": "/tmp"}},
	}
	put(container, "imagePullPolicy", string(client.ImagePullPolicy))
	pod := map[string]any{
		"restartPolicy": "OnFailure",
		"containers":    []any{container},
		"volumes":       []any{map[string]any{"name": "tmp", "emptyDir": map[string]any{}}},
		"securityContext": map[string]any{
			"runAsNonRoot": true, "runAsUser": minioUser, "runAsGroup": minioUser,
			"seccompProfile": map[string]any{"type": "RuntimeDefault"},
		},
	}
	var secrets []any
	for _, s := range client.ImagePullSecrets {
		secrets = append(secrets, map[string]any{"name": s.Name})
	}
	put(pod, "imagePullSecrets", secrets)
	return object(c, JobKind, tenantName(c), map[string]any{"spec": map[string]any{
		"backoffLimit": int64(10),
		"template":     map[string]any{"spec": pod},
	}})
}

// A Job that failed is made again after a pause as long as it has tried itself, within these bounds.
const (
	shortestPause = time.Minute
	longestPause  = time.Hour
)

// Outdated reports whether a Job has to be made again, because it cannot be changed or run anew: when the Tenant is younger than the Job, whose bucket
// was another one's; when it did not succeed and was made from another generation of the spec; and some time after it failed, which is when.
func Outdated(have, want, tenant *unstructured.Unstructured, now time.Time) (outdated bool, when time.Time) {
	made, begun := have.GetCreationTimestamp(), tenant.GetCreationTimestamp()
	switch {
	case made.Before(&begun):
		return true, now
	case complete(have):
		return false, time.Time{}
	case have.GetAnnotations()[v1alpha1.AnnotationGeneration] != want.GetAnnotations()[v1alpha1.AnnotationGeneration]:
		return true, now
	}
	failed, ok := failedAt(have)
	if !ok {
		return false, time.Time{}
	}
	when = failed.Add(min(max(failed.Sub(made.Time), shortestPause), longestPause))
	return !when.After(now), when
}

// failedAt returns when a Job failed, if it did.
func failedAt(job *unstructured.Unstructured) (at time.Time, failed bool) {
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	for _, item := range conditions {
		m, _ := item.(map[string]any)
		if m["type"] == "Failed" && m["status"] == "True" {
			text, _ := m["lastTransitionTime"].(string)
			// Without a time it failed before all times, and the pause is over.
			at, _ = time.Parse(time.RFC3339, text)
			return at, true
		}
	}
	return time.Time{}, false
}

func complete(job *unstructured.Unstructured) bool {
	status, _ := conditionOf(job, "Complete")
	return status == "True"
}

// BucketState reads the status of the Job that makes the bucket. again is when one that failed is made again.
func BucketState(job *unstructured.Unstructured, again time.Time) State {
	if complete(job) {
		return Running("MinIO runs, and Harbor's bucket exists.")
	}
	if status, message := conditionOf(job, "Failed"); status == "True" {
		return Failed(v1alpha1.ReasonHarborChildFailed, fmt.Sprintf("The Job %s, which makes Harbor's bucket, failed: %s. It is made again at %s.",
			job.GetName(), strings.TrimSuffix(message, "."), again.UTC().Format(time.TimeOnly+" MST")))
	}
	return Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("The Job %s makes Harbor's bucket.", job.GetName()))
}

// conditionOf returns status and message of a condition; nothing when it is missing.
func conditionOf(o *unstructured.Unstructured, kind string) (status, message string) {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range conditions {
		m, ok := item.(map[string]any)
		if !ok || m["type"] != kind {
			continue
		}
		status, _ = m["status"].(string)
		message, _ = m["message"].(string)
		reason, _ := m["reason"].(string)
		return status, cmp.Or(message, reason, "it gives no reason")
	}
	return "", ""
}

// reasonOf returns the reason of a condition; nothing when there is none.
func reasonOf(o *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range conditions {
		if m, ok := item.(map[string]any); ok && m["type"] == kind {
			reason, _ := m["reason"].(string)
			return reason
		}
	}
	return ""
}
