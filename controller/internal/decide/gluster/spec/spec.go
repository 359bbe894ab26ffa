// Package spec checks what the API server cannot: whether what a GlusterCluster or a GlusterNode names exists, and whether an affinity can be understood. It
// is pure: whoever calls it looks things up first.
package spec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/stateful/topology"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Lookups are what was looked up. What is not in a map could not be looked up.
type Lookups struct {
	Secrets        map[types.NamespacedName]gluster.Answer
	StorageClasses map[string]gluster.Answer
	// Clusters are the GlusterClusters in the namespace.
	Clusters map[string]gluster.Answer
	// Nodes are those of Kubernetes, with their labels; nil when nobody could list them.
	Nodes map[string]map[string]string
	// Unfit says of claims why they cannot be a device.
	Unfit map[string]string
	// Rivals are other nodes that have the same record of who their server is.
	Rivals []string
	// Homeless: there is no StorageClass for the state of a server, or of etcd.
	Homeless bool
}

// findings are what is wrong with a spec, and what nobody could find out.
type findings struct{ wrong, unknown []string }

func (f *findings) bad(format string, args ...any) {
	f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
}

func (f *findings) exists(a gluster.Answer, what string) {
	switch a {
	case gluster.No:
		f.bad("%s does not exist.", what)
	case gluster.Unknown:
		f.unknown = append(f.unknown, fmt.Sprintf("Whether %s exists could not be looked up.", what))
	}
}

// condition is SpecValid. What is wrong outranks what is not known.
func (f *findings) condition() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionSpecValid, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSpecValid, Message: "What the spec names exists."}
	switch {
	case len(f.wrong) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec, strings.Join(f.wrong, " ")
	case len(f.unknown) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonStepWaits, strings.Join(f.unknown, " ")
	}
	return c
}

// Secrets returns the Secrets that a cluster names.
func Secrets(c *v1alpha1.GlusterCluster) []types.NamespacedName {
	all := named(c.Namespace, c.Spec.GlusterCA)
	if r := c.Spec.Replication; r != nil {
		all = append(all, named(c.Namespace, r.Credentials)...)
		for _, t := range r.Targets {
			all = append(all, named(c.Namespace, t.Credentials)...)
		}
	}
	return all
}

// NodeSecrets returns the Secrets that a node names.
func NodeSecrets(n *v1alpha1.GlusterNode) []types.NamespacedName {
	if n.Spec.External == nil {
		return nil
	}
	return named(n.Namespace, n.Spec.External.Credentials)
}

// named is the Secret of credentials: in their namespace, or that of the object.
func named(namespace string, c *v1alpha1.GlusterCredentials) []types.NamespacedName {
	if c == nil {
		return nil
	}
	if c.SecretNamespace != "" {
		namespace = c.SecretNamespace
	}
	return []types.NamespacedName{{Namespace: namespace, Name: string(c.SecretName)}}
}

// ValidateCluster checks a GlusterCluster with its templates (A16, A17).
func ValidateCluster(c *v1alpha1.GlusterCluster, l Lookups) metav1.Condition {
	f := &findings{}
	for _, s := range Secrets(c) {
		if s.Namespace != c.Namespace {
			// Who may write here would read there.
			f.bad("The Secret %s is in another namespace: Quarry reads none but those of the cluster's own.", s)
			continue
		}
		f.exists(l.Secrets[s], "the Secret "+s.String())
	}
	for _, t := range c.Spec.NodeTemplates {
		f.exists(l.StorageClasses[t.Storage.StorageClassName], "the StorageClass "+t.Storage.StorageClassName+" of template "+t.Name)
		if err := wellFormed(t.NodeAffinity); err != nil {
			f.bad("The nodeAffinity of template %s cannot be understood: %v.", t.Name, err)
		}
	}
	if l.Homeless {
		f.bad("etcd needs a StorageClass: give spec.state.storageClassName, or a template.")
	} else if s := c.Spec.State; s != nil && s.StorageClassName != "" {
		f.exists(l.StorageClasses[s.StorageClassName], "the StorageClass "+s.StorageClassName+" of spec.state")
	}
	return f.condition()
}

// ValidateNode checks a GlusterNode (A18).
func ValidateNode(n *v1alpha1.GlusterNode, l Lookups) metav1.Condition {
	f := &findings{}
	f.exists(l.Clusters[n.Spec.Cluster], "the GlusterCluster "+n.Spec.Cluster)
	for _, s := range NodeSecrets(n) {
		if s.Namespace != n.Namespace {
			f.bad("The Secret %s is in another namespace: Quarry reads none but those of the node's own.", s)
			continue
		}
		f.exists(l.Secrets[s], "the Secret "+s.String())
	}
	if err := wellFormed(n.Spec.NodeAffinity); err != nil {
		f.bad("nodeAffinity cannot be understood: %v.", err)
	} else if slices.ContainsFunc(n.Spec.Storage, func(s v1alpha1.GlusterStorage) bool { return s.Device != "" }) {
		f.pinned(n, l.Nodes)
	}
	for _, s := range n.Spec.Storage {
		if why := l.Unfit[s.PVCName]; s.PVCName != "" && why != "" {
			f.bad("The claim %s cannot be a device: %s.", s.PVCName, why)
		}
	}
	if l.Homeless && n.Spec.External == nil {
		f.bad("The state of the server needs a StorageClass: give spec.state.storageClassName of the GlusterCluster.")
	}
	if len(l.Rivals) > 0 {
		f.bad("spec.peer is that of another node too: %s. Nobody can say whose the bricks are: take the finalizer off the wrong one, and delete it.", strings.Join(l.Rivals, ", "))
	}
	return f.condition()
}

// pinned checks that a node with devices can be in one place only: another node of Kubernetes has other devices under the same names.
func (f *findings) pinned(n *v1alpha1.GlusterNode, nodes map[string]map[string]string) {
	if n.Spec.NodeAffinity == nil || n.Spec.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		f.bad("A node with devices needs a required nodeAffinity.")
		return
	}
	if nodes == nil {
		f.unknown = append(f.unknown, "Which nodes of Kubernetes match nodeAffinity could not be looked up.")
		return
	}
	if match := matching(n, nodes); len(match) != 1 {
		f.bad("A node with devices must match exactly one node of Kubernetes, and %d match: %s.", len(match), strings.Join(match[:min(len(match), 5)], ", "))
	}
}

// matching are the nodes of Kubernetes that a required affinity matches, ordered.
func matching(n *v1alpha1.GlusterNode, nodes map[string]map[string]string) []string {
	var match []string
	for name, labels := range nodes {
		if topology.Matches(n.Spec.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, name, labels) {
			match = append(match, name)
		}
	}
	slices.Sort(match)
	return match
}

// Host returns the one node of Kubernetes that a node with devices is on; empty when its affinity matches none or several, cannot be understood, or nobody knows the nodes.
func Host(n *v1alpha1.GlusterNode, nodes map[string]map[string]string) string {
	a := n.Spec.NodeAffinity
	if a == nil || a.RequiredDuringSchedulingIgnoredDuringExecution == nil || wellFormed(a) != nil {
		return ""
	}
	if match := matching(n, nodes); len(match) == 1 {
		return match[0]
	}
	return ""
}

// wellFormed says what cannot be understood in an affinity.
func wellFormed(a *corev1.NodeAffinity) error {
	if a == nil {
		return nil
	}
	if r := a.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		if err := topology.Check(r); err != nil {
			return err
		}
	}
	for i, p := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		if p.Weight < 1 || p.Weight > 100 {
			return fmt.Errorf("the weight of preference %d is not from 1 to 100", i+1)
		}
		if err := topology.CheckTerm(p.Preference); err != nil {
			return fmt.Errorf("preference %d: %w", i+1, err)
		}
	}
	return nil
}
