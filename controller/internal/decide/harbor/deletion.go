package harbor

import (
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Data returns the names and kinds of the children that hold data, and of the generated Secrets that open it. It names all that there could be,
// whatever the spec says: the spec may have been another one.
func Data(c *v1alpha1.HarborCluster) (holders, secrets []*unstructured.Unstructured) {
	holders = []*unstructured.Unstructured{
		reference(c, PostgresqlKind, databaseName(c)), reference(c, TenantKind, tenantName(c)),
	}
	for _, name := range dataSecrets(c) {
		secrets = append(secrets, reference(c, SecretKind, name))
	}
	return holders, secrets
}

func dataSecrets(c *v1alpha1.HarborCluster) []string {
	return []string{DatabasePassword(c), generatedCredentials(c), StorageConfiguration(c), StorageSecret(c)}
}

// isData reports whether a child holds data or opens it.
func isData(c *v1alpha1.HarborCluster, kind schema.GroupVersionKind, name string) bool {
	return kind == PostgresqlKind || kind == TenantKind || kind == SecretKind && slices.Contains(dataSecrets(c), name)
}

// Users returns the names and kinds of the children that use data, and have an owner: Harbor itself, and the cache.
func Users(c *v1alpha1.HarborCluster) []*unstructured.Unstructured {
	return []*unstructured.Unstructured{reference(c, HarborKind, harborName(c)), reference(c, RedisFailoverKind, cacheName(c))}
}

// Rest returns the names and kinds of all children that have an owner.
func Rest(c *v1alpha1.HarborCluster) []*unstructured.Unstructured {
	return append(Users(c),
		reference(c, JobKind, tenantName(c)), reference(c, IngressKind, tenantName(c)), reference(c, SecretKind, CachePassword(c)))
}

// reference names an object.
func reference(c *v1alpha1.HarborCluster, kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(c.Namespace)
	o.SetName(name)
	return o
}

// Disowned returns the owner references of an object without those to this HarborCluster, and whether there was one.
func Disowned(c *v1alpha1.HarborCluster, o metav1.Object) (rest []metav1.OwnerReference, owned bool) {
	for _, r := range o.GetOwnerReferences() {
		if r.UID == c.UID {
			owned = true
			continue
		}
		rest = append(rest, r)
	}
	return rest, owned
}

// Orphans reports whether a HarborCluster is deleted without its dependents, and so without its data. Kubernetes marks it so, until it has taken
// the owner references off: rest are the other children that exist, each of which has one otherwise.
func Orphans(c *v1alpha1.HarborCluster, rest []*unstructured.Unstructured) bool {
	return slices.Contains(c.Finalizers, metav1.FinalizerOrphanDependents) || slices.ContainsFunc(rest, func(o *unstructured.Unstructured) bool {
		return metav1.GetControllerOf(o) == nil
	})
}

// Volumes says which claims the pods of one StatefulSet have, that an operator makes for a child.
type Volumes struct {
	// Holder is the child that the operator makes the StatefulSet for.
	Holder *unstructured.Unstructured
	// StatefulSet is its name.
	StatefulSet string
	// Labels that its claims have.
	Labels map[string]string
}

// VolumesOf returns where the data of a HarborCluster lies: of database, storage and cache.
func VolumesOf(c *v1alpha1.HarborCluster) []Volumes {
	return []Volumes{
		{reference(c, PostgresqlKind, databaseName(c)), databaseName(c), map[string]string{"cluster-name": databaseName(c)}},
		{reference(c, TenantKind, tenantName(c)), tenantName(c) + "-" + pool, map[string]string{"v1.min.io/tenant": tenantName(c)}},
		{reference(c, RedisFailoverKind, cacheName(c)), RedisServers(c), map[string]string{"app.kubernetes.io/name": cacheName(c), LabelPartOf: PartOfRedis}},
	}
}

// RemovalRecord returns the value of the annotation that says that the data is removed: owned are the children with volumes that exist, and were made
// for this HarborCluster.
func RemovalRecord(c *v1alpha1.HarborCluster, owned []*unstructured.Unstructured) string {
	kinds := make([]string, 0, len(owned))
	for _, o := range owned {
		kinds = append(kinds, o.GetKind())
	}
	return string(c.UID) + "/" + strings.Join(kinds, ",")
}

// Removal returns the volumes that may be removed, and whether it was decided at all that the data is removed. A record that a manifest brought along
// has another UID, and says nothing.
func Removal(c *v1alpha1.HarborCluster) (volumes []Volumes, decided bool) {
	list, decided := strings.CutPrefix(c.Annotations[v1alpha1.AnnotationHarborRemoval], string(c.UID)+"/")
	if !decided {
		return nil, false
	}
	kinds := strings.Split(list, ",")
	return slices.DeleteFunc(VolumesOf(c), func(v Volumes) bool { return !slices.Contains(kinds, v.Holder.GetKind()) }), true
}

// Has reports whether a claim was made for a pod of the StatefulSet: its labels say so, its name is that of a claim of one of the pods, and no
// child of somebody else owns it.
func (v Volumes) Has(claim metav1.Object) bool {
	labels := claim.GetLabels()
	for key, value := range v.Labels {
		if labels[key] != value {
			return false
		}
	}
	if metav1.GetControllerOf(claim) != nil {
		return false
	}
	i := strings.LastIndex(claim.GetName(), "-")
	if i < 0 {
		return false
	}
	ordinal, err := strconv.ParseUint(claim.GetName()[i+1:], 10, 31)
	template, ok := strings.CutSuffix(claim.GetName()[:i], "-"+v.StatefulSet)
	return err == nil && strconv.FormatUint(ordinal, 10) == claim.GetName()[i+1:] && ok && template != ""
}
