// Package issuer decides what is said of the cert-manager that Harbor's operator makes Harbor's certificates with: whether it is installed, and
// whether the issuer that the spec names is there and ready. It is pure.
package issuer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// group is the API group of cert-manager, version the one that Harbor's operator speaks.
const (
	group   = "cert-manager.io"
	version = "v1"
)

// Kinds of issuers: one of a namespace, and one of the whole cluster.
const (
	kindIssuer        = "Issuer"
	kindClusterIssuer = "ClusterIssuer"
)

// definitions are the CustomResourceDefinitions of cert-manager that matter here, by what needs them.
var definitions = map[string]string{kindIssuer: "issuers." + group, kindClusterIssuer: "clusterissuers." + group}

// certificates is the definition of what Harbor's operator makes.
const certificates = "certificates." + group

// IsDefinition reports whether a CustomResourceDefinition is one that is looked for.
func IsDefinition(name string) bool {
	return name == certificates || name == definitions[kindIssuer] || name == definitions[kindClusterIssuer]
}

// Reference says which issuer signs the certificates.
type Reference struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Group string `json:"group"`
}

// Of reads the reference of a HarborCluster, with what cert-manager takes where a field is left out. fault says what is wrong with it.
func Of(c *v1alpha1.HarborCluster) (r Reference, fault harbor.State) {
	var core struct {
		TokenIssuer Reference `json:"tokenIssuer"`
	}
	const field = "spec.core.tokenIssuer"
	if raw := c.Spec.Core.Raw; len(raw) > 0 {
		if err := json.Unmarshal(raw, &core); err != nil {
			return r, harbor.Failed(v1alpha1.ReasonHarborInvalidSpec, fmt.Sprintf("%s cannot be read: %v.", field, err))
		}
	}
	r = core.TokenIssuer
	r.Kind, r.Group = cmp.Or(r.Kind, kindIssuer), cmp.Or(r.Group, group)
	switch {
	case r.Name == "":
		return r, harbor.Failed(v1alpha1.ReasonHarborInvalidSpec, field+".name is empty: name the issuer of cert-manager that signs Harbor's certificates.")
	case r.Group == group && definitions[r.Kind] == "":
		return r, harbor.Failed(v1alpha1.ReasonHarborInvalidSpec, fmt.Sprintf("%s.kind is %s: cert-manager has the kinds %s and %s.", field, r.Kind, kindIssuer, kindClusterIssuer))
	}
	return r, harbor.State{}
}

// String names the issuer.
func (r Reference) String() string { return r.Kind + " " + r.Name }

// Foreign reports whether the issuer is of a kind that somebody else brought, which is not looked at.
func (r Reference) Foreign() bool { return r.Group != group }

// Definitions returns the names of the CustomResourceDefinitions that have to be there.
func (r Reference) Definitions() []string {
	if r.Foreign() {
		return []string{certificates}
	}
	return []string{certificates, definitions[r.Kind]}
}

// Object returns the issuer to ask for, of a HarborCluster in a namespace.
func (r Reference) Object(namespace string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: r.Kind})
	o.SetName(r.Name)
	if r.Kind == kindIssuer {
		o.SetNamespace(namespace)
	}
	return o
}

// NotInstalled is the state while definitions of cert-manager are missing.
func NotInstalled(missing []string) harbor.State {
	missing = slices.Sorted(slices.Values(missing))
	return harbor.Failed(v1alpha1.ReasonHarborCertManagerMissing, fmt.Sprintf(
		"cert-manager is not installed: there is no CustomResourceDefinition %s with version %s. Harbor's operator makes Harbor's certificates with it: install it, see https://cert-manager.io.",
		strings.Join(missing, ", "), version))
}

// Absent is the state while there is no such issuer.
func (r Reference) Absent() harbor.State {
	where := " in this namespace"
	if r.Kind == kindClusterIssuer {
		where = ""
	}
	return harbor.Failed(v1alpha1.ReasonHarborIssuerMissing, fmt.Sprintf(
		"There is no %s%s, which spec.core.tokenIssuer names: make it, or name another one.", r, where))
}

// State says how the issuer is, in the words of cert-manager.
func (r Reference) State(o *unstructured.Unstructured) harbor.State {
	if r.Foreign() {
		return harbor.Pending(v1alpha1.ReasonHarborNotSeen, fmt.Sprintf("The %s is of the group %s, and is not looked at.", r, r.Group))
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		fields, _ := c.(map[string]any)
		if fields["type"] != "Ready" {
			continue
		}
		words, _ := fields["message"].(string)
		if words = strings.TrimSuffix(words, "."); words != "" {
			words = ": " + words
		}
		switch observed, ok := fields["observedGeneration"].(int64); {
		case ok && observed < o.GetGeneration():
			return harbor.Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("cert-manager has not looked at the %s since it was changed.", r))
		case fields["status"] == "True":
			return harbor.Running(fmt.Sprintf("The %s is ready.", r))
		case fields["status"] == "False":
			return harbor.Failed(v1alpha1.ReasonHarborIssuerNotReady, fmt.Sprintf("The %s is not ready%s.", r, words))
		default:
			return harbor.Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("cert-manager does not know yet whether the %s is ready%s.", r, words))
		}
	}
	return harbor.Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("cert-manager has not looked at the %s yet: see whether its controller runs.", r))
}
