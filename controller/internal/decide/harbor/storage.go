package harbor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Keys of the Secrets of an in-cluster storage: MinIO's own credentials, and what Harbor is given.
const (
	KeyAccess = "accesskey"
	KeySecret = "secretkey"
	KeyS3     = "secret"
)

// KeyConfiguration is the key under which MinIO's operator looks for the environment of its servers.
const KeyConfiguration = "config.env"

// DefaultAccessKey is MinIO's root user when the spec gives no credentials.
const DefaultAccessKey = "harbor"

const (
	// pool of a Tenant; a Tenant of ours has one.
	pool = "zone-harbor"
	// minioUser is who MinIO runs as.
	minioUser = int64(10000)
	bucket    = "harbor"
)

// progress are the beginnings of the states in which the operator of MinIO leads a Tenant on, in all its versions. Every other state is a failure:
// the operator also puts the errors that it meets there, in their own words.
var progress = []string{"Provisioning ", "Waiting for ", "Updating ", "Adding ", "Restarting "}

// StorageCredentials names the Secret with MinIO's credentials, and tells whether the user has made it.
func StorageCredentials(c *v1alpha1.HarborCluster) (name string, given bool) {
	if ref := c.Spec.Storage.Spec.MinIO.SecretRef; ref != "" {
		return string(ref), true
	}
	return generatedCredentials(c), false
}

func generatedCredentials(c *v1alpha1.HarborCluster) string { return tenantName(c) + "-creds" }

// StorageSecret names the Secret that hands MinIO's secret key to Harbor.
func StorageSecret(c *v1alpha1.HarborCluster) string { return tenantName(c) }

// StorageConfiguration names the Secret that hands the credentials to MinIO.
func StorageConfiguration(c *v1alpha1.HarborCluster) string { return tenantName(c) + "-configuration" }

// configured reports whether the installed operator reads the credentials from a configuration. Those before 4.4 know only a Secret with
// the two keys; from 4.5 on that one is not read any more, even where the schema still has it.
func configured(s *Schema) bool {
	return s.declares("spec", "configuration") || !s.declares("spec", "credsSecret")
}

// Configuration returns the Secret that hands MinIO its credentials, and whether the installed operator wants it.
func Configuration(c *v1alpha1.HarborCluster, s *Schema, credentials map[string]string) (o *unstructured.Unstructured, wanted bool) {
	environment := fmt.Sprintf("export MINIO_ROOT_USER=\"%s\"\nexport MINIO_ROOT_PASSWORD=\"%s\"\n", credentials[KeyAccess], credentials[KeySecret])
	return Secret(c, StorageConfiguration(c), map[string]string{KeyConfiguration: environment}), configured(s)
}

// CheckCredentials returns what is wrong with MinIO's credentials; nil when nothing is. They become lines of a file.
func CheckCredentials(c *v1alpha1.HarborCluster, credentials map[string]string) *Fault {
	for _, key := range []string{KeyAccess, KeySecret} {
		if strings.ContainsAny(credentials[key], "\r\n") {
			name, _ := StorageCredentials(c)
			return &Fault{Storage, v1alpha1.ReasonHarborInvalidSpec, fmt.Sprintf(
				"The value under the key %q of the Secret %s has a line break, which MinIO's credentials cannot have: make it again without.", key, name)}
		}
	}
	return nil
}

// Tenant returns the in-cluster storage, for an operator with the given schema.
func Tenant(c *v1alpha1.HarborCluster, s *Schema) (*unstructured.Unstructured, error) {
	m := c.Spec.Storage.Spec.MinIO
	volumes, err := volumeClaim(c)
	if err != nil {
		return nil, err
	}
	servers := map[string]any{
		"name":                pool,
		"servers":             int64(m.Replicas),
		"volumesPerServer":    int64(m.VolumesPerServer),
		"volumeClaimTemplate": volumes,
		"securityContext": map[string]any{
			"runAsUser": minioUser, "runAsGroup": minioUser, "fsGroup": minioUser, "runAsNonRoot": true,
		},
	}
	resources := map[string]any{}
	put(resources, "requests", amounts(m.Resources.Requests))
	put(resources, "limits", amounts(m.Resources.Limits))
	put(servers, "resources", resources)
	spec := map[string]any{
		"pools":               []any{servers},
		"podManagementPolicy": "Parallel",
		"requestAutoCert":     false,
		"env":                 []any{map[string]any{"name": "MINIO_BROWSER", "value": "on"}},
	}
	if configured(s) {
		spec["configuration"] = map[string]any{"name": StorageConfiguration(c)}
	} else {
		credentials, _ := StorageCredentials(c)
		spec["credsSecret"] = map[string]any{"name": credentials}
	}
	put(spec, "image", m.Image)
	put(spec, "imagePullPolicy", string(m.ImagePullPolicy))
	if len(m.ImagePullSecrets) > 0 {
		spec["imagePullSecret"] = map[string]any{"name": m.ImagePullSecrets[0].Name}
	}
	return object(c, TenantKind, tenantName(c), map[string]any{"spec": spec}), nil
}

// volumeClaim fills in what the template of the spec does not say.
func volumeClaim(c *v1alpha1.HarborCluster) (map[string]any, error) {
	t := v1alpha1.HarborVolumeClaim{}
	if given := c.Spec.Storage.Spec.MinIO.VolumeClaimTemplate; given != nil {
		t = *given
	}
	spec, err := asMap(t.Spec)
	if err != nil {
		return nil, err
	}
	for field, value := range claim(c.Spec.StorageClassName, "10Gi") {
		switch v := spec[field].(type) {
		case nil:
			spec[field] = value
		case map[string]any:
			// The one map of the defaults is resources.
			if v["requests"] == nil {
				v["requests"] = value.(map[string]any)["requests"]
			}
		}
	}
	metadata := map[string]any{"name": cmp.Or(t.Metadata.Name, "data")}
	for field, values := range map[string]map[string]string{"labels": t.Metadata.Labels, "annotations": t.Metadata.Annotations} {
		m := map[string]any{}
		for k, v := range values {
			m[k] = v
		}
		put(metadata, field, m)
	}
	return map[string]any{"metadata": metadata, "spec": spec}, nil
}

// TenantState reads the status of an in-cluster storage. It runs when the Tenant is initialized, all its servers are available, and its
// pool was seen online.
func TenantState(o *unstructured.Unstructured) State {
	name := o.GetName()
	state, _, _ := unstructured.NestedString(o.Object, "status", "currentState")
	switch leads := func(beginning string) bool { return strings.HasPrefix(state, beginning) }; {
	case state == "":
		return Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("The Tenant %s was not taken up by its operator yet.", name))
	case slices.ContainsFunc(progress, leads):
		return Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("The Tenant %s says: %s.", name, state))
	case state != "Initialized":
		return Failed(v1alpha1.ReasonHarborChildFailed, fmt.Sprintf("The Tenant %s says: %s.", name, state))
	}
	wanted := servers(o)
	if available, _, _ := unstructured.NestedInt64(o.Object, "status", "availableReplicas"); available != wanted {
		return Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("Of the Tenant %s, %d of %d servers are available.", name, available, wanted))
	}
	if !initialized(o, name+"-"+pool) {
		return Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("The pool %s of the Tenant %s is not initialized yet.", pool, name))
	}
	return Running(fmt.Sprintf("The Tenant %s runs.", name))
}

// servers returns how many servers the pools of a Tenant shall have.
func servers(o *unstructured.Unstructured) int64 {
	var sum int64
	pools, _, _ := unstructured.NestedSlice(o.Object, "spec", "pools")
	for _, p := range pools {
		if m, ok := p.(map[string]any); ok {
			n, _, _ := unstructured.NestedInt64(m, "servers")
			sum += n
		}
	}
	return sum
}

func initialized(o *unstructured.Unstructured, statefulSet string) bool {
	pools, _, _ := unstructured.NestedSlice(o.Object, "status", "pools")
	for _, p := range pools {
		if m, ok := p.(map[string]any); ok && m["ssName"] == statefulSet {
			return m["state"] == "PoolInitialized"
		}
	}
	return false
}
