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

// Witness returns the object that has the HarborCluster as its owner, and nothing in it. Kubernetes takes the owner off all its dependents when the
// HarborCluster is deleted with --cascade=orphan: there is always one to see that on, whatever else was made.
func Witness(c *v1alpha1.HarborCluster) *v1alpha1.HarborWitness {
	return &v1alpha1.HarborWitness{ObjectMeta: metav1.ObjectMeta{
		Namespace: c.Namespace, Name: c.Name, Labels: map[string]string{v1alpha1.LabelHarborCluster: c.Name}, Finalizers: []string{v1alpha1.FinalizerWitness},
		// It blocks its owner: in a deletion in the foreground Kubernetes leaves its mark on the HarborCluster until the witness is gone.
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, v1alpha1.GroupVersion.WithKind("HarborCluster"))},
	}}
}

// EarlierWitness names the Secret that was the witness in earlier versions.
func EarlierWitness(c *v1alpha1.HarborCluster) *unstructured.Unstructured {
	return reference(c, SecretKind, c.Name+"-witness")
}

// Vouches reports whether a witness has the HarborCluster as its owner.
func Vouches(c *v1alpha1.HarborCluster, witness metav1.Object) bool {
	_, owned := Disowned(c, witness)
	return owned
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

// Deletion says what becomes of the dependents of a HarborCluster that is being deleted.
type Deletion int

// Deletions. Where nobody can tell, nothing is removed.
const (
	DeletionUnknown Deletion = iota
	DeletionOrphans
	DeletionRemoves
)

// DeletionOf tells how a HarborCluster is being deleted. Kubernetes marks both other ways than the usual one with a finalizer of its own, until it has
// dealt with the dependents. What is left is told by the witness: with the HarborCluster as its owner it says that nothing is orphaned, and without that all is.
// One that is not the recorded one says nothing, and that it has its owner still says nothing either if Kubernetes did not know its kind when the deletion began.
// Without its word only a removal that has begun is known to be one: no deletion changes its kind.
func DeletionOf(c *v1alpha1.HarborCluster, witness metav1.Object, known bool) Deletion {
	recorded := witness != nil && c.Status.Witness != "" && witness.GetUID() == c.Status.Witness
	switch {
	case slices.Contains(c.Finalizers, metav1.FinalizerOrphanDependents):
		return DeletionOrphans
	case recorded && !Vouches(c, witness):
		return DeletionOrphans
	case recorded && known:
		return DeletionRemoves
	case c.Status.Removal != nil, slices.Contains(c.Finalizers, metav1.FinalizerDeleteDependents):
		return DeletionRemoves
	}
	return DeletionUnknown
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

// RemovalOf returns the record that the data is removed: owned are the children with volumes that exist, and were made for this HarborCluster.
func RemovalOf(owned []*unstructured.Unstructured) *v1alpha1.HarborRemoval {
	removal := &v1alpha1.HarborRemoval{}
	for _, o := range owned {
		removal.Kinds = append(removal.Kinds, o.GetKind())
	}
	return removal
}

// Removable returns the volumes that may be removed, by what is on record.
func Removable(c *v1alpha1.HarborCluster) []Volumes {
	return slices.DeleteFunc(VolumesOf(c), func(v Volumes) bool {
		return c.Status.Removal == nil || !slices.Contains(c.Status.Removal.Kinds, v.Holder.GetKind())
	})
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
