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

// expressions are those of a policy: a policy names drivers by hand.
func expressions(t *testing.T, path string) string {
	t.Helper()
	all := decode(t, path, func(p *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
		return p.Kind == "ValidatingAdmissionPolicy"
	})
	if len(all) != 1 {
		t.Fatalf("%s has %d policies", path, len(all))
	}
	var out []string
	for _, v := range all[0].Spec.Variables {
		out = append(out, v.Expression)
	}
	for _, v := range all[0].Spec.Validations {
		out = append(out, v.Expression)
	}
	return strings.Join(out, "\n")
}

// TestDeploy_policyOfLeasesKnowsEveryDriver: without its lease a sidecar does nothing.
func TestDeploy_policyOfLeasesKnowsEveryDriver(t *testing.T) {
	var want, got []string
	for driver := range servable {
		want = append(want, strings.ReplaceAll(driver, ".", "-"))
	}
	found := regexp.MustCompile(`\(([a-z|]+)\)(-quarry-storage)\$`).FindStringSubmatch(expressions(t, "base/lease-admission.yaml"))
	if len(found) != 3 {
		t.Fatal("no names of drivers in base/lease-admission.yaml")
	}
	for _, name := range strings.Split(found[1], "|") {
		got = append(got, name+found[2])
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("drivers in base/lease-admission.yaml (-want +got):\n%s", diff)
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
