package operatortest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Operator is one release of an operator as its own module installs it: definitions, rights, configuration and Deployment.
type Operator struct {
	// Program is the name under which test/operators builds it.
	Program string
	// Objects to apply, in this order.
	Objects []*unstructured.Unstructured
}

// PostgresOperator is a release of Zalando's operator.
func PostgresOperator(t testing.TB, release string) Operator {
	t.Helper()
	for _, m := range postgresOperators {
		if m.version == release {
			return Operator{"postgres-" + release, m.objects(t,
				"manifests/postgresql.crd.yaml", "manifests/operator-service-account-rbac.yaml", "manifests/configmap.yaml", "manifests/postgres-operator.yaml")}
		}
	}
	t.Fatalf("no release %s of the postgres-operator is recorded", release)
	return Operator{}
}

// RedisOperator is Spotahome's operator, without what needs Prometheus.
func RedisOperator(t testing.TB) Operator {
	t.Helper()
	return Operator{"redis-" + redisOperator.version, redisOperator.objects(t,
		"manifests/databases.spotahome.com_redisfailovers.yaml", "example/operator/all-redis-operator-resources.yaml")}
}

// HarborOperator is Harbor's operator, without the other operators that its bundle brings along, and without its webhooks: those need cert-manager.
func HarborOperator(t testing.TB) Operator {
	t.Helper()
	var own []*unstructured.Unstructured
	for _, o := range harborOperator.objects(t, bundle) {
		name := o.GetName()
		switch o.GetKind() {
		case "CustomResourceDefinition":
			if !strings.HasSuffix(name, ".goharbor.io") {
				continue
			}
			unstructured.RemoveNestedField(o.Object, "spec", "conversion")
			o.SetAnnotations(nil)
		case "ConfigMap":
			if name == "postgres-operator" {
				continue
			}
		case "Role", "RoleBinding":
		case "ClusterRole", "ClusterRoleBinding", "Deployment":
			if !strings.HasPrefix(name, "harbor-operator") {
				continue
			}
		default:
			continue
		}
		own = append(own, o)
	}
	return Operator{"harbor-" + harborOperator.version, own}
}

// objects reads files of the module that hold Kubernetes objects.
func (m module) objects(t testing.TB, files ...string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(m.dir(t), file))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(document, &o.Object); err != nil {
				t.Fatalf("%s of %s@%s: %v", file, m.path, m.version, err)
			}
			if o.GetKind() == "" || strings.HasPrefix(o.GetAPIVersion(), "monitoring.coreos.com/") {
				continue
			}
			all = append(all, o)
		}
	}
	return all
}

// Place puts an operator into a namespace, with another image and without limits for its memory, which are too tight for a program that is not stripped.
func (o Operator) Place(t testing.TB, namespace, image string) {
	t.Helper()
	for _, object := range o.Objects {
		switch object.GetKind() {
		case "CustomResourceDefinition", "ClusterRole", "Namespace":
		default:
			if object.GetKind() != "ClusterRoleBinding" {
				object.SetNamespace(namespace)
			}
			if subjects, ok, _ := unstructured.NestedSlice(object.Object, "subjects"); ok {
				for _, s := range subjects {
					s.(map[string]any)["namespace"] = namespace
				}
				must(t, unstructured.SetNestedSlice(object.Object, subjects, "subjects"))
			}
		}
		if object.GetKind() != "Deployment" {
			continue
		}
		path := []string{"spec", "template", "spec", "containers"}
		containers, _, err := unstructured.NestedSlice(object.Object, path...)
		must(t, err)
		first := containers[0].(map[string]any)
		first["image"], first["imagePullPolicy"] = image, "Never"
		for _, field := range []string{"command", "resources"} {
			delete(first, field)
		}
		must(t, unstructured.SetNestedSlice(object.Object, containers, path...))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
