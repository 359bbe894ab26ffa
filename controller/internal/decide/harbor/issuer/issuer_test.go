package issuer

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		core string
		want Reference
		says string
	}{
		"as the samples have it":     {`{"tokenIssuer":{"kind":"Issuer","name":"i"}}`, Reference{"i", "Issuer", group}, ""},
		"what cert-manager takes":    {`{"tokenIssuer":{"name":"i"}}`, Reference{"i", "Issuer", group}, ""},
		"of the whole cluster":       {`{"tokenIssuer":{"kind":"ClusterIssuer","name":"i","group":"cert-manager.io"}}`, Reference{"i", "ClusterIssuer", group}, ""},
		"of somebody else":           {`{"tokenIssuer":{"kind":"Other","name":"i","group":"example.com"}}`, Reference{"i", "Other", "example.com"}, ""},
		"no kind of cert-manager's":  {`{"tokenIssuer":{"kind":"issuer","name":"i"}}`, Reference{"i", "issuer", group}, "tokenIssuer.kind is issuer"},
		"no name":                    {`{"tokenIssuer":{"kind":"Issuer"}}`, Reference{"", "Issuer", group}, "tokenIssuer.name is empty"},
		"nothing":                    {`{}`, Reference{"", "Issuer", group}, "tokenIssuer.name is empty"},
		"a block that is left out":   {``, Reference{"", "Issuer", group}, "tokenIssuer.name is empty"},
		"a name that is not a text":  {`{"tokenIssuer":{"name":1}}`, Reference{}, "spec.core.tokenIssuer cannot be read"},
		"an issuer that is no block": {`{"tokenIssuer":"i"}`, Reference{}, "spec.core.tokenIssuer cannot be read"},
	} {
		h := &v1alpha1.HarborCluster{}
		h.Spec.Core.Raw = []byte(c.core)
		got, fault := Of(h)
		if c.says == "" && (fault.Status != "" || got != c.want) || c.says != "" && (fault.Reason != v1alpha1.ReasonHarborInvalidSpec || !strings.Contains(fault.Message, c.says)) {
			t.Errorf("%s: %+v, %+v", name, got, fault)
		}
	}
}

func TestReference_whatIsLookedAt(t *testing.T) {
	own, cluster, foreign := Reference{"i", "Issuer", group}, Reference{"i", "ClusterIssuer", group}, Reference{"i", "Other", "example.com"}
	if got := own.Definitions(); !slices.Equal(got, []string{"certificates.cert-manager.io", "issuers.cert-manager.io"}) {
		t.Error(got)
	}
	if got := foreign.Definitions(); !slices.Equal(got, []string{"certificates.cert-manager.io"}) {
		t.Error(got)
	}
	for _, name := range append(own.Definitions(), cluster.Definitions()...) {
		if !IsDefinition(name) {
			t.Errorf("nobody hears of %s", name)
		}
	}
	if IsDefinition("harbors.goharbor.io") {
		t.Error("a definition that does not matter is looked at")
	}
	if o := own.Object("registry"); o.GetNamespace() != "registry" || o.GetAPIVersion() != "cert-manager.io/v1" {
		t.Errorf("%+v", o)
	}
	if o := cluster.Object("registry"); o.GetNamespace() != "" || o.GetKind() != "ClusterIssuer" {
		t.Errorf("%+v", o)
	}
	if s := foreign.State(nil); s.Status != metav1.ConditionUnknown || !strings.Contains(s.Message, "example.com") {
		t.Errorf("%+v", s)
	}
}

func TestReference_State(t *testing.T) {
	r := Reference{"i", "Issuer", group}
	ready := func(status string, generation int64) any {
		return map[string]any{"type": "Ready", "status": status, "message": "Words.", "observedGeneration": generation}
	}
	for name, c := range map[string]struct {
		conditions []any
		status     metav1.ConditionStatus
		reason     string
	}{
		"not looked at":          {nil, metav1.ConditionUnknown, v1alpha1.ReasonHarborStarting},
		"another condition":      {[]any{map[string]any{"type": "Other", "status": "True"}}, metav1.ConditionUnknown, v1alpha1.ReasonHarborStarting},
		"what is no condition":   {[]any{"True"}, metav1.ConditionUnknown, v1alpha1.ReasonHarborStarting},
		"ready":                  {[]any{ready("True", 2)}, metav1.ConditionTrue, v1alpha1.ReasonHarborRunning},
		"ready before a change":  {[]any{ready("True", 1)}, metav1.ConditionUnknown, v1alpha1.ReasonHarborStarting},
		"not ready":              {[]any{ready("False", 2)}, metav1.ConditionFalse, v1alpha1.ReasonHarborIssuerNotReady},
		"not known":              {[]any{ready("Unknown", 2)}, metav1.ConditionUnknown, v1alpha1.ReasonHarborStarting},
		"of a release of before": {[]any{map[string]any{"type": "Ready", "status": "True"}}, metav1.ConditionTrue, v1alpha1.ReasonHarborRunning},
	} {
		o := r.Object("registry")
		o.SetGeneration(2)
		if c.conditions != nil {
			o.Object["status"] = map[string]any{"conditions": c.conditions}
		}
		if got := r.State(o); got.Status != c.status || got.Reason != c.reason {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
