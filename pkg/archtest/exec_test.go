package archtest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// rights is a role or a binding of one.
type rights struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Rules    []struct{ Resources []string }
	RoleRef  struct{ Name string }
	Subjects []struct{ Kind, Name, Namespace string }
}

// grants names the role once for each of its rules that let somebody execute in pods.
func (o rights) grants() []string {
	var out []string
	for _, r := range o.Rules {
		if slices.ContainsFunc(r.Resources, func(s string) bool { return s == "*" || s == "pods/*" || s == "pods/exec" || s == "pods/attach" }) {
			out = append(out, o.Kind+" "+o.Metadata.Namespace+"/"+o.Metadata.Name)
		}
	}
	return out
}

// binds names whom a binding gives the right to execute in the pods of Ceph.
func (o rights) binds() []string {
	var out []string
	if o.RoleRef.Name != "quarry-ceph-exec" {
		return nil
	}
	for _, s := range o.Subjects {
		out = append(out, strings.Join([]string{o.Kind, o.Metadata.Namespace, s.Kind, s.Namespace + "/" + s.Name}, " "))
	}
	return out
}

// TestCephsNamespace_staysWithTheDefinitions: the daemons of Ceph and their keys are there, and `kubectl delete -k deploy/base` stops Quarry only.
func TestCephsNamespace_staysWithTheDefinitions(t *testing.T) {
	homes := []string{}
	files, err := filepath.Glob("../../deploy/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
			var o rights
			if yaml.Unmarshal(part, &o) == nil && o.Kind == "Namespace" && o.Metadata.Name == "quarry-ceph" {
				homes = append(homes, filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file))
			}
		}
	}
	list, err := os.ReadFile("../../deploy/crd/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(homes, []string{"crd/quarry-ceph.yaml"}) || !bytes.Contains(list, []byte("\n  - quarry-ceph.yaml\n")) {
		t.Errorf("the namespace is in %q, and has to be in what is deleted last", homes)
	}
}

// TestExec_onlyInCephsNamespace: who may execute in the pods of agents owns every node. The manifests give nobody that right but in the namespace of Ceph's
// daemons, there to the controllers alone, and no rule has it by a wildcard.
func TestExec_onlyInCephsNamespace(t *testing.T) {
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
			var o rights
			if yaml.Unmarshal(part, &o) != nil {
				continue // Definitions and patches are no rules.
			}
			grants, bound = append(grants, o.grants()...), append(bound, o.binds()...)
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
