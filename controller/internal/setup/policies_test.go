package setup

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// policy is the one in a file.
func policy(t *testing.T, path string) admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	all := decode(t, path, func(p *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
		return p.Kind == "ValidatingAdmissionPolicy"
	})
	if len(all) != 1 {
		t.Fatalf("%s has %d policies", path, len(all))
	}
	return all[0]
}

// expressions are those of a policy: a policy names drivers by hand.
func expressions(t *testing.T, path string) string {
	t.Helper()
	p := policy(t, path)
	var out []string
	for _, v := range p.Spec.Variables {
		out = append(out, v.Expression)
	}
	for _, v := range p.Spec.Validations {
		out = append(out, v.Expression)
	}
	return strings.Join(out, "\n")
}

// TestDeploy_policyOfLeasesKnowsEveryDriver: without its lease a sidecar does nothing, and a process of a driver does not notice that the API server was restored.
func TestDeploy_policyOfLeasesKnowsEveryDriver(t *testing.T) {
	var sidecars, processes []string
	for _, e := range entries(bindings(reads{}, nil, Config{Namespace: "quarry-system"}, nil)) {
		sidecars = append(sidecars, strings.ReplaceAll(e.Profile.Driver.Name, ".", "-"))
		processes = append(processes, "process-"+e.Profile.Driver.Deployment+"-")
	}
	text := expressions(t, "base/lease-admission.yaml")
	for pattern, want := range map[string][]string{
		`\)\?()\(([a-z0-9|-]+)\)(-quarry-storage)\$`:  sidecars,
		`\^(process-quarry-csi-)\(([a-z0-9|-]+)\)(-)`: processes,
	} {
		found := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if len(found) != 4 {
			t.Errorf("nothing in base/lease-admission.yaml looks like %s", pattern)
			continue
		}
		var got []string
		for _, name := range strings.Split(found[2], "|") {
			got = append(got, found[1]+name+found[3])
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("names of Leases in base/lease-admission.yaml (-want +got):\n%s", diff)
		}
	}
}

// TestDeploy_approvalKnowsEveryKind: whoever may edit an object of a kind that the policy leaves out approves its plans, too.
func TestDeploy_approvalKnowsEveryKind(t *testing.T) {
	const path = "optional/approval.yaml"
	var planned, manual []string
	for _, d := range definitions(t) {
		schema := d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
		if _, ok := schema["status"].Properties["plan"]; ok {
			planned = append(planned, d.Spec.Names.Plural)
		}
		if _, ok := schema["spec"].Properties["approval"]; ok {
			manual = append(manual, d.Spec.Names.Plural)
		}
	}
	compareKinds(t, "the policy asks about", planned, policy(t, path).Spec.MatchConstraints.ResourceRules[0].Resources)
	compareKinds(t, "the role may approve", planned, decode(t, path, clusterRole)[0].Rules[0].Resources)
	found := regexp.MustCompile(`in \[([a-z', ]+)\] && oldObject != null && has\(oldObject.spec.approval\)`).FindStringSubmatch(expressions(t, path))
	if len(found) != 2 {
		t.Fatalf("no kinds with spec.approval in %s", path)
	}
	compareKinds(t, "plans may be Manual of", manual, strings.Split(strings.ReplaceAll(found[1], "'", ""), ", "))
}

// compareKinds compares the kinds that approval.yaml names in one place with those that there are.
func compareKinds(t *testing.T, what string, want, got []string) {
	t.Helper()
	slices.Sort(want)
	got = slices.Sorted(slices.Values(got))
	if diff := cmp.Diff(want, got); len(want) == 0 || diff != "" {
		t.Errorf("kinds in optional/approval.yaml, %s (-want +got):\n%s", what, diff)
	}
}

// TestDeploy_policyOfNodesKnowsEveryLabel: a storage whose nodes cannot be labelled never gets its volumes placed.
func TestDeploy_policyOfNodesKnowsEveryLabel(t *testing.T) {
	var want, got []string
	for _, b := range bindings(reads{}, nil, Config{Namespace: "quarry-system"}, nil) {
		for _, one := range b.backends {
			if label := one.Profile().Label; label != nil {
				want = append(want, strings.TrimSuffix(label("x"), "x"))
			}
		}
	}
	text := expressions(t, "base/node-admission.yaml")
	for _, found := range regexp.MustCompile(`startsWith\('([^']+)'\)`).FindAllStringSubmatch(text, -1) {
		got = append(got, found[1])
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("prefixes of labels in base/node-admission.yaml (-want +got):\n%s", diff)
	}
	if !strings.Contains(text, "'"+v1alpha1.LabelStorageType+"'") {
		t.Errorf("base/node-admission.yaml does not name %s", v1alpha1.LabelStorageType)
	}
}

// TestDeploy_agentIsBounded: a program with all rights on its node writes to no file system of its own, and takes no memory without end.
func TestDeploy_agentIsBounded(t *testing.T) {
	all := decode(t, "base/agent.yaml", func(d *appsv1.DaemonSet) bool { return d.Kind == "DaemonSet" })
	if len(all) != 1 || len(all[0].Spec.Template.Spec.Containers) == 0 {
		t.Fatalf("base/agent.yaml has %d DaemonSets", len(all))
	}
	for _, c := range all[0].Spec.Template.Spec.Containers {
		if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			t.Errorf("the root of container %s can be written", c.Name)
		}
		if c.Resources.Limits.Memory().IsZero() {
			t.Errorf("container %s has no limit of memory", c.Name)
		}
	}
}
