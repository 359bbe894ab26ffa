package harbor

import (
	"cmp"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Connections say how Harbor reaches its services.
type Connections struct {
	// Database, Cache and Storage as the fields database, redis and imageChartStorage of a Harbor.
	Database, Cache, Storage map[string]any
}

// trusting are the components that talk to the storage, and must trust its certificate.
var trusting = []string{"core", "jobservice", "trivy", "chartmuseum"}

// Harbor returns Harbor itself: what the spec says of it, as it says it, with the connections to its services.
func Harbor(c *v1alpha1.HarborCluster, to Connections) (*unstructured.Unstructured, error) {
	spec, err := asMap(c.Spec.HarborApplication)
	if err != nil {
		return nil, err
	}
	for _, component := range []string{"jobservice", "registry"} {
		if spec[component] == nil {
			spec[component] = map[string]any{}
		}
	}
	spec["database"], spec["redis"], spec["imageChartStorage"] = to.Database, to.Cache, to.Storage
	if s3, ok := to.Storage["s3"].(map[string]any); ok {
		if certificate, _ := s3["certificateRef"].(string); certificate != "" {
			trust(spec, certificate)
		}
	}
	return object(c, HarborKind, harborName(c), map[string]any{"spec": spec}), nil
}

// trust lets the components that talk to the storage trust its certificate.
func trust(spec map[string]any, certificate string) {
	for _, name := range trusting {
		component, ok := spec[name].(map[string]any)
		if !ok {
			continue
		}
		refs, _ := component["certificateRefs"].([]any)
		known := false
		for _, r := range refs {
			known = known || r == certificate
		}
		if !known {
			component["certificateRefs"] = append(refs, certificate)
		}
	}
}

// reasonDependency is that of a Harbor one of whose own objects is not ready.
const reasonDependency = "dependencyStatus"

// ServiceState reads the status of Harbor. It runs when it says neither that it failed nor that it is at work; with strict, being at work
// counts as failed.
func ServiceState(o *unstructured.Unstructured, strict bool) State {
	name := o.GetName()
	failed, why := conditionOf(o, "Failed")
	working, what := conditionOf(o, "InProgress")
	observed, told, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	switch {
	case failed == "" && working == "":
		return Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("The Harbor %s was not taken up by its operator yet.", name))
	case told && observed < o.GetGeneration():
		return Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("The operator of the Harbor %s has not seen its last change yet.", name))
	case failed == "True" && working == "True" && reasonOf(o, "Failed") == reasonDependency:
		// What its operator says while it waits for an object that it has made, from the first minute on: it tries again.
		if strict {
			return Failed(v1alpha1.ReasonHarborStarting, fmt.Sprintf("The Harbor %s waits for its part %s.", name, why))
		}
		return Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("The Harbor %s waits for its part %s.", name, why))
	case failed == "True":
		return Failed(v1alpha1.ReasonHarborChildFailed, fmt.Sprintf("The Harbor %s failed: %s", name, why))
	case working == "True" && strict:
		return Failed(v1alpha1.ReasonHarborStarting, fmt.Sprintf("The Harbor %s is at work: %s", name, what))
	case working == "True":
		return Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("The Harbor %s is at work: %s", name, what))
	}
	return Running(fmt.Sprintf("The Harbor %s runs.", name))
}

// ConfigurationState sums up what Harbor's operator says of the HarborConfigurations of a HarborCluster among all of its namespace: the worst of them.
// The zero value says that there is none.
func ConfigurationState(c *v1alpha1.HarborCluster, all []unstructured.Unstructured) State {
	byStatus := map[metav1.ConditionStatus]State{}
	for i := range all {
		if ref, _, _ := unstructured.NestedString(all[i].Object, "spec", "harborClusterRef"); ref != c.Name {
			continue
		}
		s := configurationState(&all[i])
		if was, told := byStatus[s.Status]; told {
			s.Message = was.Message + "\n" + s.Message
		}
		byStatus[s.Status] = s
	}
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown, metav1.ConditionTrue} {
		if s, told := byStatus[status]; told {
			return s
		}
	}
	return State{}
}

func configurationState(o *unstructured.Unstructured) State {
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(o.Object, "status", field)
		return value
	}
	switch text("status") {
	case "Fail":
		return Failed(v1alpha1.ReasonHarborChildFailed, fmt.Sprintf("Harbor's operator could not apply the HarborConfiguration %s: %s: %s",
			o.GetName(), cmp.Or(text("reason"), "without a reason"), cmp.Or(text("message"), "it gives no message")))
	case "Success":
	default:
		return Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("The HarborConfiguration %s was not applied by Harbor's operator yet.", o.GetName()))
	}
	applied, told, _ := unstructured.NestedMap(o.Object, "status", "lastConfiguration")
	wanted, _, _ := unstructured.NestedMap(o.Object, "spec")
	if told && !reflect.DeepEqual(filled(applied), filled(wanted)) {
		return Pending(v1alpha1.ReasonHarborStarting, fmt.Sprintf("The last change of the HarborConfiguration %s was not applied by Harbor's operator yet.", o.GetName()))
	}
	return State{metav1.ConditionTrue, v1alpha1.ReasonHarborApplied, fmt.Sprintf("Harbor's operator has applied the HarborConfiguration %s.", o.GetName())}
}

// filled returns what a value has without empty fields: the operator writes none.
func filled(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for k, field := range m {
		f := filled(field)
		if inner, ok := f.(map[string]any); ok && len(inner) == 0 || f == nil || !ok && reflect.ValueOf(f).IsZero() {
			continue
		}
		out[k] = f
	}
	return out
}

// StorageConnection says how Harbor reaches its storage. accessKey is that of an in-cluster storage.
func StorageConnection(c *v1alpha1.HarborCluster, accessKey string) (map[string]any, error) {
	spec := c.Spec.Storage.Spec
	if spec.MinIO != nil {
		return minioConnection(c, accessKey), nil
	}
	m := map[string]any{}
	for field, block := range externalStorage(c) {
		value, err := asMap(block)
		if err != nil {
			return nil, err
		}
		m[field] = value
	}
	if r := spec.Redirect; r != nil {
		m["redirect"] = map[string]any{"disable": r.Enable != nil && !*r.Enable}
	}
	return m, nil
}

// minioConnection is the S3 service of MinIO: through the ingress when clients are redirected there, else inside the cluster.
func minioConnection(c *v1alpha1.HarborCluster, accessKey string) map[string]any {
	endpoint := minioURL(c)
	ingress, certificate := minioIngress(c)
	if ingress != nil {
		endpoint = "http://" + ingress.Host
		if certificate != "" {
			endpoint = "https://" + ingress.Host
		}
	}
	s3 := map[string]any{
		"accesskey":      accessKey,
		"secretkeyRef":   StorageSecret(c),
		"region":         "us-east-1",
		"regionendpoint": endpoint,
		"bucket":         bucket,
		"v4auth":         true,
		"secure":         certificate != "",
		"skipverify":     certificate == "",
	}
	put(s3, "certificateRef", certificate)
	return map[string]any{"s3": s3, "redirect": map[string]any{"disable": ingress == nil}}
}
