package harborcluster

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// A manifest of the followed system is taken without loss, and what Harbor itself takes reaches it.
func TestAdmission_manifestIsCarriedOver(t *testing.T) {
	s := newSuite(t)
	text, err := os.ReadFile(filepath.Join("testdata", "manifest.yaml"))
	must(t, err)
	o := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal(text, &o.Object))
	o.SetNamespace(s.namespace)
	given, _, _ := nested(o.DeepCopy(), "spec")
	must(t, client.WithFieldValidation(s.client, "Strict").Create(t.Context(), o))
	for range 12 {
		if s.reconcile().Status.Status == v1alpha1.HarborHealthy {
			break
		}
		s.operators.step()
	}
	s.expect(v1alpha1.HarborHealthy, "Ready", "True", "Healthy", "")
	s.expect(v1alpha1.HarborHealthy, "DatabaseReady", "True", "Running", " ignores imagePullSecrets")
	got := s.child(harbor.HarborKind, "sample-harbor").Object["spec"].(map[string]any)
	for field, want := range given.(map[string]any) {
		switch field {
		case "database", "cache", "storage":
		case "core", "jobservice", "trivy", "chartmuseum":
			// They trust the storage's certificate, in addition.
			component := maps.Clone(want.(map[string]any))
			component["certificateRefs"] = []any{"public"}
			contains(t, field, component, got[field])
		default:
			contains(t, field, want, got[field])
		}
	}
}

// Whatever fails, and whether it was carried out all the same, the end is the same.
func TestRollout_everyWriteFailsOnce(t *testing.T) {
	for name, carriedOut := range map[string]bool{"before it is carried out": false, "after it was carried out": true} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			failed := map[string]bool{}
			fail := func(what string, do func() error) error {
				if failed[what] {
					return do()
				}
				failed[what] = true
				if carriedOut {
					if err := do(); err != nil {
						return err
					}
				}
				return errors.New("the connection broke: " + what)
			}
			// The parts are worked on at the same time.
			turn := make(chan struct{}, 1)
			s.intercept(interceptor.Funcs{
				Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
					if rehearsal(opts) {
						return c.Apply(ctx, o, opts...)
					}
					turn <- struct{}{}
					defer func() { <-turn }()
					u := o.(interface {
						GetKind() string
						GetName() string
					})
					return fail(u.GetKind()+" "+u.GetName(), func() error { return c.Apply(ctx, o, opts...) })
				},
				SubResourcePatch: func(
					ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
				) error {
					return fail("status", func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
				},
			})
			s.add()
			for range 30 {
				if _, err := s.try(); err == nil && s.get().Status.Status == v1alpha1.HarborHealthy {
					break
				}
				s.operators.step()
			}
			s.expect(v1alpha1.HarborHealthy, "Ready", "True", "Healthy", "")
			want := []string{
				"Harbor sample-harbor", "Job minio-sample", "RedisFailover sample-redis", "Secret minio-sample", "Secret minio-sample-configuration",
				"Secret minio-sample-creds",
				"Secret sample-database-password", "Secret sample-redis", "Tenant minio-sample", "postgresql " + s.database(),
			}
			same(t, want, s.children())
			same(t, append(want, "status"), slices.Sorted(maps.Keys(failed)))
		})
	}
}

// shown returns the lines of the metrics of a namespace that are 1.
func shown(t *testing.T, namespace string) []string {
	t.Helper()
	families, err := metrics.Registry.Gather()
	must(t, err)
	var out []string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "quarry_harborcluster_") {
			continue
		}
		for _, m := range f.GetMetric() {
			line, ours := f.GetName(), false
			for _, l := range m.GetLabel() {
				ours = ours || l.GetValue() == namespace
				if l.GetName() == "condition" || l.GetName() == "status" {
					line += " " + l.GetValue()
				}
			}
			if ours && m.GetGauge().GetValue() == 1 {
				out = append(out, line)
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestMetrics(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	s.operators.setDatabase("Invalid")
	s.reconcile()
	same(t, []string{
		"quarry_harborcluster_condition CacheReady True",
		"quarry_harborcluster_condition CertificatesReady True",
		"quarry_harborcluster_condition DatabaseReady False",
		"quarry_harborcluster_condition Ready False",
		"quarry_harborcluster_condition ServiceReady True",
		"quarry_harborcluster_condition StorageReady True",
		"quarry_harborcluster_status unhealthy",
	}, shown(t, s.namespace))
	must(t, s.client.Delete(t.Context(), s.get()))
	// The first pass lets go of the data, and the object is gone before the second.
	for range 2 {
		if _, err := s.try(); err != nil {
			t.Fatal(err)
		}
	}
	same(t, nothing, shown(t, s.namespace))
}
