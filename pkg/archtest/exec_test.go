package archtest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestExec_onlyInCephsNamespace: who may execute in the pods of agents owns every node. The manifests give nobody that right but in the namespace of Ceph's
// daemons, there to the controllers alone, and no rule has it by a wildcard.
func TestExec_onlyInCephsNamespace(t *testing.T) {
	type rule struct{ APIGroups, Resources, Verbs []string }
	type object struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
		Rules    []rule
		RoleRef  struct{ Name string }
		Subjects []struct{ Kind, Name, Namespace string }
	}
	var grants, bound []string
	files, err := filepath.Glob("../../deploy/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
			var o object
			if err := yaml.Unmarshal(part, &o); err != nil && err != io.EOF {
				continue // Definitions and patches are no rules.
			}
			for _, r := range o.Rules {
				if slices.ContainsFunc(r.Resources, func(s string) bool { return s == "*" || s == "pods/*" || s == "pods/exec" || s == "pods/attach" }) {
					grants = append(grants, o.Kind+" "+o.Metadata.Namespace+"/"+o.Metadata.Name)
				}
			}
			if o.RoleRef.Name == "quarry-ceph-exec" {
				for _, s := range o.Subjects {
					bound = append(bound, strings.Join([]string{o.Kind, o.Metadata.Namespace, s.Kind, s.Namespace + "/" + s.Name}, " "))
				}
			}
		}
	}
	if !slices.Equal(grants, []string{"Role quarry-ceph/quarry-ceph-exec"}) {
		t.Errorf("may execute in pods: %q", grants)
	}
	slices.Sort(bound)
	want := []string{
		"RoleBinding quarry-ceph ServiceAccount quarry-system/quarry-controller", "RoleBinding quarry-ceph ServiceAccount quarry-system/quarry-csi",
	}
	if !slices.Equal(bound, want) {
		t.Errorf("who may execute: %q", bound)
	}
}
