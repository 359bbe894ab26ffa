// Package blueprint turns the spec of a StatefulCluster into what its replicas are made from: the pod and the claims of one identity, and
// the revision of the template. It says which fields of the spec are wrong and which have no meaning. It makes values only.
package blueprint

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Fault is what is wrong with one field.
type Fault struct {
	// Field is its path, such as spec.template.spec.
	Field string
	// Message says what is wrong, without a period.
	Message string
}

// Blueprint is what replicas are made from.
type Blueprint struct {
	owner  *v1alpha1.StatefulCluster
	pod    corev1.PodSpec
	claims []corev1.PersistentVolumeClaimSpec
	// Revision of the template, and Base, a digest of it without what can be changed in place.
	Revision, Base string
	// Selector of the replicas.
	Selector labels.Selector
	// Grace and NodeGrace are how long replicas are waited for.
	Grace, NodeGrace   time.Duration
	surge, unavailable int
}

// Of reads a StatefulCluster. Nothing can be made from one with faults.
func Of(c *v1alpha1.StatefulCluster) (*Blueprint, []Fault) {
	b := &Blueprint{owner: c, Revision: revision(&c.Spec.Template), Base: base(&c.Spec.Template)}
	var faults []Fault
	fault := func(field, format string, args ...any) {
		faults = append(faults, Fault{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if err := decode(c.Spec.Template.Spec, &b.pod); err != nil {
		fault("spec.template.spec", "%v", err)
	}
	seen := map[string]bool{}
	for i, t := range c.Spec.VolumeClaimTemplates {
		spec := corev1.PersistentVolumeClaimSpec{}
		if err := decode(t.Spec, &spec); err != nil {
			fault(fmt.Sprintf("spec.volumeClaimTemplates[%d].spec", i), "%v", err)
		}
		if seen[t.Metadata.Name] {
			fault(fmt.Sprintf("spec.volumeClaimTemplates[%d].metadata.name", i), "%q is used twice", t.Metadata.Name)
		}
		seen[t.Metadata.Name] = true
		b.claims = append(b.claims, spec)
	}
	if b.pod.RestartPolicy != "" && b.pod.RestartPolicy != corev1.RestartPolicyAlways {
		fault("spec.template.spec.restartPolicy", "%q is not possible: the containers of a replica are always started again", b.pod.RestartPolicy)
	}
	b.Selector = selector(c, fault)
	b.Grace = duration(c, v1alpha1.AnnotationStartUpGrace, v1alpha1.DefaultStartUpGrace, fault)
	b.NodeGrace = duration(c, v1alpha1.AnnotationNodeGrace, v1alpha1.DefaultNodeGrace, fault)
	b.bounds(fault)
	if c.Spec.Replicas != nil && *c.Spec.Replicas < 0 {
		fault("spec.replicas", "%d is negative", *c.Spec.Replicas)
	}
	return b, faults
}

// Desired is how many replicas are wanted; one when nothing is said.
func (b *Blueprint) Desired() int {
	if b.owner.Spec.Replicas == nil {
		return 1
	}
	return int(*b.owner.Spec.Replicas)
}

// selector checks what admission cannot: expressions, and that they match the template.
func selector(c *v1alpha1.StatefulCluster, fault func(string, string, ...any)) labels.Selector {
	raw := &metav1.LabelSelector{MatchLabels: plain(c.Spec.Selector.MatchLabels), MatchExpressions: c.Spec.Selector.MatchExpressions}
	s, err := metav1.LabelSelectorAsSelector(raw)
	switch {
	case err != nil:
		fault("spec.selector", "%v", err)
		return labels.Nothing()
	case s.Empty():
		fault("spec.selector", "it is empty")
	case !s.Matches(labels.Set(plain(c.Spec.Template.Metadata.Labels))):
		fault("spec.selector", "it does not match spec.template.metadata.labels")
	}
	return s
}

func duration(c *v1alpha1.StatefulCluster, annotation string, standard time.Duration, fault func(string, string, ...any)) time.Duration {
	text, ok := c.Annotations[annotation]
	if !ok {
		return standard
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > 24*time.Hour {
		fault("metadata.annotations["+annotation+"]", "%q is not a duration such as 5m, of at most 24h", text)
		return standard
	}
	return d
}

// decode reads a part of the spec that the API server did not look into. A field that is not known is an error: were it dropped, the
// replicas would not be what was asked for.
func decode(raw runtime.RawExtension, into any) error {
	fields := map[string]any{}
	if err := utiljson.Unmarshal(raw.Raw, &fields); err != nil {
		return fmt.Errorf("it is not an object: %w", err)
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(fields, into, true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		var texts []string
		for _, e := range strict.Errors() {
			texts = append(texts, e.Error())
		}
		return errors.New(strings.Join(texts, ", "))
	}
	if err == nil {
		return nil
	}
	// The converter does not say which field it is about, decoding once more does.
	var mismatch *json.UnmarshalTypeError
	if errors.As(json.Unmarshal(raw.Raw, into), &mismatch) {
		return fmt.Errorf("%s cannot be a %s", mismatch.Field, mismatch.Value)
	}
	return err
}

// plain turns bounded labels into ordinary ones.
func plain(in map[string]v1alpha1.LabelValue) map[string]string {
	out := make(map[string]string, len(in))
	for k, v := range in {
		out[k] = string(v)
	}
	return out
}

// Describe puts faults into one sentence.
func Describe(faults []Fault) string {
	texts := make([]string, 0, len(faults))
	for _, f := range faults {
		texts = append(texts, f.Field+": "+f.Message)
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ") + "."
}
