package harbor

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Kinds of the children, and of what is looked at beside them. The first five belong to operators that may be missing.
var (
	PostgresqlKind    = schema.GroupVersionKind{Group: "acid.zalan.do", Version: "v1", Kind: "postgresql"}
	RedisFailoverKind = schema.GroupVersionKind{Group: "databases.spotahome.com", Version: "v1", Kind: "RedisFailover"}
	TenantKind        = schema.GroupVersionKind{Group: "minio.min.io", Version: "v2", Kind: "Tenant"}
	HarborKind        = schema.GroupVersionKind{Group: "goharbor.io", Version: "v1beta1", Kind: "Harbor"}
	ConfigurationKind = schema.GroupVersionKind{Group: "goharbor.io", Version: "v1beta1", Kind: "HarborConfiguration"}
	SecretKind        = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	JobKind           = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	EndpointSliceKind = schema.GroupVersionKind{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"}
	IngressKind       = schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}
)

var definitions = map[schema.GroupVersionKind]string{
	PostgresqlKind:    "postgresqls.acid.zalan.do",
	RedisFailoverKind: "redisfailovers.databases.spotahome.com",
	TenantKind:        "tenants.minio.min.io",
	HarborKind:        "harbors.goharbor.io",
	ConfigurationKind: "harborconfigurations.goharbor.io",
}

// Definition returns the name of the CustomResourceDefinition of a kind; none for kinds of Kubernetes.
func Definition(kind schema.GroupVersionKind) string { return definitions[kind] }

// IsDefinition says whether a CustomResourceDefinition is that of a child.
func IsDefinition(name string) bool {
	for _, d := range definitions {
		if d == name {
			return true
		}
	}
	return false
}

// Names of the children and of what their operators make for them.
func databaseName(c *v1alpha1.HarborCluster) string {
	return "postgresql-" + c.Namespace + "-" + c.Name
}

func cacheName(c *v1alpha1.HarborCluster) string { return c.Name + redisSuffix }

func tenantName(c *v1alpha1.HarborCluster) string { return "minio-" + c.Name }

func harborName(c *v1alpha1.HarborCluster) string { return c.Name + "-harbor" }

// object begins a child: it carries our label, the generation that it is made from, and its owner. What is data or opens data has no owner:
// Kubernetes would remove it with the HarborCluster, whatever the deletion policy says by then.
func object(c *v1alpha1.HarborCluster, kind schema.GroupVersionKind, name string, content map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(c.Namespace)
	o.SetName(name)
	o.SetLabels(map[string]string{v1alpha1.LabelHarborCluster: c.Name})
	o.SetAnnotations(map[string]string{v1alpha1.AnnotationGeneration: strconv.FormatInt(c.Generation, 10)})
	if !isData(c, kind, name) {
		owner := *metav1.NewControllerRef(c, v1alpha1.GroupVersion.WithKind("HarborCluster"))
		o.SetOwnerReferences([]metav1.OwnerReference{owner})
	}
	return o
}

// Ours says whether an object was made for this HarborCluster, or for an earlier one of its name. One without an owner is known by its label.
func Ours(c *v1alpha1.HarborCluster, o metav1.Object) bool {
	if owner := metav1.GetControllerOf(o); owner != nil {
		return owner.UID == c.UID
	}
	return o.GetLabels()[v1alpha1.LabelHarborCluster] == c.Name
}

// Secret returns a Secret with the given content.
func Secret(c *v1alpha1.HarborCluster, name string, content map[string]string) *unstructured.Unstructured {
	data := map[string]any{}
	for k, v := range content {
		data[k] = base64.StdEncoding.EncodeToString([]byte(v))
	}
	return object(c, SecretKind, name, map[string]any{"type": "Opaque", "data": data})
}

// asMap returns a value as JSON has it.
func asMap(v any) (map[string]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	m := map[string]any{}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("decode %T: %w", v, err)
	}
	return m, nil
}

// amounts returns a list of resources as JSON has it.
func amounts[K ~string](list map[K]resource.Quantity) map[string]any {
	m := map[string]any{}
	for k, q := range list {
		m[string(k)] = q.String()
	}
	return m
}

// put sets a field unless its value is empty.
func put(m map[string]any, field string, value any) {
	switch v := value.(type) {
	case string:
		if v == "" {
			return
		}
	case map[string]any:
		if len(v) == 0 {
			return
		}
	case []any:
		if len(v) == 0 {
			return
		}
	}
	m[field] = value
}

// size returns a size, or the default when none is given.
func size(q *resource.Quantity, otherwise string) string {
	if q == nil || q.IsZero() {
		return otherwise
	}
	return q.String()
}

// replicas returns a number, or three when none is given.
func replicas(n int32) int64 {
	if n == 0 {
		return 3
	}
	return int64(n)
}

// image sets what says which image a part runs.
func image(m map[string]any, i v1alpha1.HarborImage) {
	put(m, "image", i.Image)
	put(m, "imagePullPolicy", string(i.ImagePullPolicy))
	var secrets []any
	for _, s := range i.ImagePullSecrets {
		secrets = append(secrets, map[string]any{"name": s.Name})
	}
	put(m, "imagePullSecrets", secrets)
}

// claim returns the spec of a claim.
func claim(class, size string) map[string]any {
	spec := map[string]any{
		"accessModes": []any{"ReadWriteOnce"},
		"resources":   map[string]any{"requests": map[string]any{"storage": size}},
	}
	put(spec, "storageClassName", class)
	return spec
}
