package operatortest

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var tenantKind = schema.GroupVersionKind{Group: "minio.min.io", Version: "v2", Kind: "Tenant"}

// tenantVersions of MinIO's operator have a stand-in, the oldest first.
var tenantVersions = []string{"v4.0", "v4.4", "v5.0", "v6.0", "v7.1"}

// Types of fields, as OpenAPI names them. An object without known fields takes none: what no child of ours uses may not be given.
var (
	text    = map[string]any{"type": "string"}
	number  = map[string]any{"type": "integer"}
	boolean = map[string]any{"type": "boolean"}
	texts   = list(text)
	labels  = map[string]any{"type": "object", "additionalProperties": text}
	amounts = map[string]any{"type": "object", "additionalProperties": map[string]any{
		"anyOf": []any{number, text}, "x-kubernetes-int-or-string": true,
		"pattern": `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`,
	}}
	named     = object(fields{"name": text})
	resources = object(fields{"requests": amounts, "limits": amounts})
	unused    = object(fields{})
)

type fields map[string]map[string]any

func object(f fields, required ...string) map[string]any {
	properties := map[string]any{}
	for name, kind := range f {
		properties[name] = kind
	}
	o := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		must := make([]any, 0, len(required))
		for _, name := range required {
			must = append(must, name)
		}
		o["required"] = must
	}
	return o
}

func list(of map[string]any) map[string]any { return map[string]any{"type": "array", "items": of} }

// tenant is the strict stand-in for the definition of a Tenant: it has the fields, the types and the required fields that the published one of
// that version has, as far as a child of ours uses them or could be tempted to, and takes nothing else.
func tenant(version string) *unstructured.Unstructured {
	from := func(first string) bool {
		return slices.Index(tenantVersions, version) >= slices.Index(tenantVersions, first)
	}
	spec := fields{
		"image": text, "imagePullPolicy": text, "imagePullSecret": named, "podManagementPolicy": text, "requestAutoCert": boolean,
		"mountPath": text, "subPath": text, "serviceAccountName": text, "priorityClassName": text, "users": list(named),
		"env":   list(object(fields{"name": text, "value": text, "valueFrom": unused}, "name")),
		"pools": list(tenantPool(from)),
	}
	add := func(more fields) {
		for name, kind := range more {
			spec[name] = kind
		}
	}
	if version == "v4.0" {
		add(fields{"console": unused})
	}
	if from("v4.4") {
		add(fields{
			"configuration": named, "buckets": list(object(fields{"name": text, "objectLock": boolean, "region": text})),
			"features": object(fields{"bucketDNS": boolean, "domains": unused}), "liveness": unused, "readiness": unused,
			"logging": object(fields{"anonymous": boolean, "json": boolean, "quiet": boolean}),
		})
	}
	if from("v5.0") {
		add(fields{
			"additionalVolumes": list(unused), "additionalVolumeMounts": list(unused), "certExpiryAlertThreshold": number,
			"externalClientCertSecrets": list(unused), "initContainers": list(unused), "lifecycle": unused, "startup": unused,
		})
	} else {
		add(fields{"credsSecret": named, "log": unused, "prometheus": unused, "s3": object(fields{"bucketDNS": boolean})})
	}
	content := object(fields{
		"apiVersion": text, "kind": text, "metadata": {"type": "object"}, "scheduler": object(fields{"name": text}, "name"),
		"spec": object(spec, "pools"), "status": tenantStatus(),
	}, "spec")
	crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": tenantKind.Group, "scope": "Namespaced",
		"names": map[string]any{"kind": "Tenant", "listKind": "TenantList", "plural": "tenants", "singular": "tenant"},
		"versions": []any{map[string]any{
			"name": tenantKind.Version, "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
			"schema": map[string]any{"openAPIV3Schema": content},
		}},
	}}}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName("tenants." + tenantKind.Group)
	// Parts are used more than once above; a copy is a tree again.
	return crd.DeepCopy()
}

// tenantPool is one pool of servers. Its name is required from 5.0 on.
func tenantPool(from func(string) bool) map[string]any {
	claim := object(fields{
		"apiVersion": text, "kind": text, "metadata": object(fields{"name": text, "labels": labels, "annotations": labels}),
		"spec": object(fields{
			"accessModes": texts, "resources": resources, "storageClassName": text, "volumeMode": text, "volumeName": text,
			"selector": object(fields{"matchLabels": labels}),
		}),
		"status": unused,
	})
	pool := fields{
		"name": text, "servers": number, "volumesPerServer": number, "volumeClaimTemplate": claim, "resources": resources,
		"affinity": unused, "nodeSelector": labels, "tolerations": list(unused),
		"securityContext": object(fields{
			"runAsUser": number, "runAsGroup": number, "fsGroup": number, "runAsNonRoot": boolean, "fsGroupChangePolicy": text,
		}),
	}
	required := []string{"servers", "volumeClaimTemplate", "volumesPerServer"}
	if from("v4.4") {
		pool["annotations"], pool["labels"], pool["runtimeClassName"], pool["topologySpreadConstraints"] = labels, labels, text, list(unused)
	}
	if from("v5.0") {
		pool["containerSecurityContext"] = unused
		required = append(required, "name")
	}
	return object(pool, required...)
}

// tenantStatus is what the operator says.
func tenantStatus() map[string]any {
	pools := list(object(fields{"ssName": text, "state": text, "legacySecurityContext": boolean}, "ssName", "state"))
	pools["nullable"] = true
	certificates := object(fields{"autoCertEnabled": boolean})
	certificates["nullable"] = true
	return object(fields{
		"availableReplicas": number, "certificates": certificates, "currentState": text, "drivesHealing": number, "drivesOffline": number,
		"drivesOnline": number, "healthMessage": text, "healthStatus": text, "pools": pools, "provisionedBuckets": boolean,
		"provisionedUsers": boolean, "revision": number, "syncVersion": text, "usage": unused, "waitingOnReady": text, "writeQuorum": number,
	}, "availableReplicas", "certificates", "currentState", "pools", "revision", "syncVersion")
}
