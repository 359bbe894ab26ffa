package admission

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// read decodes the documents of a file of deploy/base, one after the other.
func read(t *testing.T, file string, into ...any) {
	t.Helper()
	f, err := os.Open(filepath.Join(apitest.Root(t), "deploy", "base", file))
	must(t, err)
	defer f.Close()
	d := yaml.NewYAMLOrJSONDecoder(f, 4096)
	for _, o := range into {
		must(t, d.Decode(o))
	}
}

// TestNetwork_policiesFitThePods: the agents' port is for the controllers of Quarry, and every other port that a pod has is open. Nothing that
// a policy forgets could be reached.
func TestNetwork_policiesFitThePods(t *testing.T) {
	var agent appsv1.DaemonSet
	var controller appsv1.Deployment
	var ofAgent, ofController networkingv1.NetworkPolicy
	read(t, "agent.yaml", &agent)
	read(t, "controller.yaml", &controller)
	read(t, "network.yaml", &ofAgent, &ofController)
	matches := func(s *metav1.LabelSelector, set map[string]string) bool {
		t.Helper()
		selector, err := metav1.LabelSelectorAsSelector(s)
		must(t, err)
		return selector.Matches(labels.Set(set))
	}
	for _, p := range []struct {
		policy networkingv1.NetworkPolicy
		in     string
		pod    corev1.PodTemplateSpec
	}{{ofAgent, agent.Namespace, agent.Spec.Template}, {ofController, controller.Namespace, controller.Spec.Template}} {
		if p.policy.Namespace != p.in || !matches(&p.policy.Spec.PodSelector, p.pod.Labels) {
			t.Errorf("%s does not select its pods", p.policy.Name)
		}
		if !slices.Equal(p.policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
			t.Errorf("%s is for %s", p.policy.Name, p.policy.Spec.PolicyTypes)
		}
		listens, allowed := map[int32]bool{}, map[int32]bool{}
		for _, port := range p.pod.Spec.Containers[0].Ports {
			listens[port.ContainerPort] = true
		}
		for _, rule := range p.policy.Spec.Ingress {
			for _, port := range rule.Ports {
				allowed[port.Port.IntVal] = true
				if open := len(rule.From) == 0; open == (port.Port.IntVal == 7443) {
					t.Errorf("%s: port %d is open to everybody: %t", p.policy.Name, port.Port.IntVal, open)
				}
			}
		}
		if !maps.Equal(listens, allowed) {
			t.Errorf("%s allows %v, its pods listen on %v", p.policy.Name, allowed, listens)
		}
	}
	from := ofAgent.Spec.Ingress[0].From
	driver := map[string]string{v1alpha1.LabelDriver: v1alpha1.DriverLVM}
	for name, tt := range map[string]struct {
		in     string
		labels map[string]string
		may    bool
	}{
		"the controller":                 {controller.Namespace, controller.Spec.Template.Labels, true},
		"a CSI driver":                   {controller.Namespace, driver, true},
		"another agent":                  {agent.Namespace, agent.Spec.Template.Labels, false},
		"a stranger":                     {controller.Namespace, map[string]string{"app": "x"}, false},
		"a stranger who looks like ours": {"default", controller.Spec.Template.Labels, false},
		"a stranger's driver":            {"default", driver, false},
	} {
		may := slices.ContainsFunc(from, func(p networkingv1.NetworkPolicyPeer) bool {
			return p.NamespaceSelector != nil && matches(p.NamespaceSelector, map[string]string{corev1.LabelMetadataName: tt.in}) &&
				matches(p.PodSelector, tt.labels)
		})
		if may != tt.may {
			t.Errorf("%s may connect to agents: %t", name, may)
		}
	}
}
