package spec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func secret(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "here", Name: name}
}

// all exists.
func lookups() Lookups {
	return Lookups{
		Secrets:        map[types.NamespacedName]gluster.Answer{secret("ca"): gluster.Yes, secret("gone"): gluster.No},
		StorageClasses: map[string]gluster.Answer{"fast": gluster.Yes, "gone": gluster.No},
		Clusters:       map[string]gluster.Answer{"pool": gluster.Yes, "gone": gluster.No},
		Unfit:          map[string]string{"files": "it has a filesystem"},
		Nodes:          map[string]map[string]string{"n1": {"disk": "a"}, "n2": {"disk": "b"}, "n3": {"disk": "b"}},
	}
}

func affinity(op corev1.NodeSelectorOperator, values ...string) *corev1.NodeAffinity {
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: op, Values: values}},
	}}}}
}

func check(t *testing.T, c metav1.Condition, status metav1.ConditionStatus, message string) {
	t.Helper()
	if c.Type != v1alpha1.ConditionSpecValid || c.Status != status || !strings.Contains(c.Message, message) {
		t.Errorf("%s %s: %s; want %s, %q", c.Status, c.Reason, c.Message, status, message)
	}
}

func TestValidateCluster(t *testing.T) {
	type cluster = v1alpha1.GlusterCluster
	ca := func(name, namespace string) func(*cluster) {
		return func(c *cluster) {
			c.Spec.GlusterCA = &v1alpha1.GlusterCredentials{SecretName: v1alpha1.SecretName(name), SecretNamespace: namespace}
		}
	}
	target := func(name string) func(*cluster) {
		return func(c *cluster) {
			c.Spec.Replication = &v1alpha1.GlusterReplication{Targets: []v1alpha1.GlusterReplicationTarget{{Name: "far", Credentials: &v1alpha1.GlusterCredentials{SecretName: v1alpha1.SecretName(name)}}}}
		}
	}
	for name, row := range map[string]struct {
		edit    func(*cluster)
		status  metav1.ConditionStatus
		message string
	}{
		"all exists":                           {func(*cluster) {}, metav1.ConditionTrue, ""},
		"A16: the authority, in the namespace": {ca("ca", ""), metav1.ConditionTrue, ""},
		"A16: the namespace by its name":       {ca("ca", "here"), metav1.ConditionTrue, ""},
		"A16: no authority":                    {ca("gone", ""), metav1.ConditionFalse, "the Secret here/gone does not exist"},
		"A16: nobody knows":                    {ca("other", ""), metav1.ConditionUnknown, "could not be looked up"},
		"another namespace":                    {ca("ca", "there"), metav1.ConditionFalse, "in another namespace"},
		"the credentials of a target":          {target("gone"), metav1.ConditionFalse, "here/gone does not exist"},
		"A17: no StorageClass":                 {func(c *cluster) { c.Spec.NodeTemplates[0].Storage.StorageClassName = "gone" }, metav1.ConditionFalse, "the StorageClass gone of template east"},
		"A17: nobody knows":                    {func(c *cluster) { c.Spec.NodeTemplates[0].Storage.StorageClassName = "x" }, metav1.ConditionUnknown, "the StorageClass x"},
		"A17: an affinity": {func(c *cluster) {
			c.Spec.NodeTemplates[0].NodeAffinity = affinity(corev1.NodeSelectorOpIn, "a")
		}, metav1.ConditionTrue, ""},
		"A17: one of another language": {func(c *cluster) { c.Spec.NodeTemplates[0].NodeAffinity = affinity("Like", "a") }, metav1.ConditionFalse, "cannot be understood"},
		"A17: one without terms": {func(c *cluster) {
			c.Spec.NodeTemplates[0].NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}
		}, metav1.ConditionFalse, "there is no term"},
		"A17: a preference of no weight": {func(c *cluster) {
			c.Spec.NodeTemplates[0].NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{}}}
		}, metav1.ConditionFalse, "weight"},
		"what is wrong outranks what nobody knows": {func(c *cluster) { ca("other", "")(c); c.Spec.NodeTemplates[0].Storage.StorageClassName = "gone" }, metav1.ConditionFalse, "StorageClass gone"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "pool"}}
			c.Spec.NodeTemplates = []v1alpha1.GlusterNodeTemplate{{Name: "east", Storage: v1alpha1.GlusterTemplateStorage{StorageClassName: "fast"}}}
			row.edit(c)
			check(t, ValidateCluster(c, lookups()), row.status, row.message)
		})
	}
}

func TestValidateNode(t *testing.T) {
	type node = v1alpha1.GlusterNode
	device := func(a *corev1.NodeAffinity) func(*node) {
		return func(n *node) {
			n.Spec.Storage, n.Spec.NodeAffinity = []v1alpha1.GlusterStorage{{Device: "/dev/sdb"}}, a
		}
	}
	claim := func(name string) func(*node) {
		return func(n *node) { n.Spec.Storage = []v1alpha1.GlusterStorage{{PVCName: name}} }
	}
	external := func(name string) func(*node) {
		return func(n *node) {
			n.Spec.External = &v1alpha1.GlusterExternal{Address: "a", Credentials: &v1alpha1.GlusterCredentials{SecretName: v1alpha1.SecretName(name)}}
		}
	}
	for name, row := range map[string]struct {
		edit    func(*node)
		status  metav1.ConditionStatus
		message string
	}{
		"all exists":                    {func(*node) {}, metav1.ConditionTrue, ""},
		"A18: no cluster":               {func(n *node) { n.Spec.Cluster = "gone" }, metav1.ConditionFalse, "the GlusterCluster gone does not exist"},
		"A18: nobody knows":             {func(n *node) { n.Spec.Cluster = "x" }, metav1.ConditionUnknown, "the GlusterCluster x"},
		"A18: an external one":          {external("ca"), metav1.ConditionTrue, ""},
		"A18: without its credentials":  {external("gone"), metav1.ConditionFalse, "here/gone does not exist"},
		"a device, on one node":         {device(affinity(corev1.NodeSelectorOpIn, "a")), metav1.ConditionTrue, ""},
		"a claim":                       {claim("disk"), metav1.ConditionTrue, ""},
		"a claim with a filesystem":     {claim("files"), metav1.ConditionFalse, "The claim files cannot be a device: it has a filesystem."},
		"a device, on one of two":       {device(affinity(corev1.NodeSelectorOpIn, "b")), metav1.ConditionFalse, "2 match: n2, n3"},
		"a device, nowhere":             {device(affinity(corev1.NodeSelectorOpIn, "c")), metav1.ConditionFalse, "0 match"},
		"a device, anywhere":            {device(nil), metav1.ConditionFalse, "needs a required nodeAffinity"},
		"a device, by another language": {device(affinity("Like")), metav1.ConditionFalse, "cannot be understood"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "n"}, Spec: v1alpha1.GlusterNodeSpec{Cluster: "pool"}}
			row.edit(n)
			check(t, ValidateNode(n, lookups()), row.status, row.message)
		})
	}
	n := &node{ObjectMeta: metav1.ObjectMeta{Namespace: "here"}, Spec: v1alpha1.GlusterNodeSpec{Cluster: "pool"}}
	device(affinity(corev1.NodeSelectorOpIn, "a"))(n)
	l := lookups()
	l.Nodes = nil
	check(t, ValidateNode(n, l), metav1.ConditionUnknown, "could not be looked up")
	if Host(n, lookups().Nodes) != "n1" || Host(n, nil) != "" {
		t.Errorf("the node with the device is on %q, and %q if nobody knows the nodes", Host(n, lookups().Nodes), Host(n, nil))
	}
	for _, a := range []*corev1.NodeAffinity{nil, {}, affinity("Like"), affinity(corev1.NodeSelectorOpIn, "b"), affinity(corev1.NodeSelectorOpIn, "c")} {
		if device(a)(n); Host(n, lookups().Nodes) != "" {
			t.Errorf("%+v is taken for that of one node", a)
		}
	}
	n.Spec.Storage = nil
	l.Rivals = []string{"other"}
	check(t, ValidateNode(n, l), metav1.ConditionFalse, "that of another node too: other.")
	l = lookups()
	l.Homeless = true
	check(t, ValidateNode(n, l), metav1.ConditionFalse, "needs a StorageClass")
}
