package harbor

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestIngress_annotationsOfTheController(t *testing.T) {
	const size = "nginx.ingress.kubernetes.io/proxy-body-size"
	for name, tt := range map[string]struct {
		controller string
		tls        bool
		given      map[string]string
		want       map[string]string
	}{
		"no controller is named":    {"", true, nil, map[string]string{size: "0"}},
		"default":                   {"default", false, nil, map[string]string{size: "0"}},
		"what the spec gives first": {"default", false, map[string]string{size: "8m", "a": "b"}, map[string]string{size: "8m", "a": "b"}},
		"ncp":                       {"ncp", false, nil, map[string]string{size: "0", "ncp/use-regex": "true"}},
		"ncp with a certificate":    {"ncp", true, nil, map[string]string{size: "0", "ncp/use-regex": "true", "ncp/http-redirect": "true"}},
		"contour":                   {"contour", false, nil, map[string]string{size: "0"}},
		"contour with a certificate": {
			"contour", true, nil, map[string]string{size: "0", "ingress.kubernetes.io/force-ssl-redirect": "true"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := inCluster()
			expose := &v1alpha1.HarborRedirectExpose{
				Ingress: &v1alpha1.HarborIngress{Host: "minio.example.com", Controller: tt.controller, Annotations: tt.given},
			}
			if tt.tls {
				expose.TLS = &v1alpha1.HarborTLS{CertificateRef: "certificate"}
			}
			c.Spec.Storage.Spec.Redirect = &v1alpha1.HarborRedirect{Expose: expose}
			o, wanted := Ingress(c)
			if !wanted {
				t.Fatal("no Ingress is wanted")
			}
			tt.want[v1alpha1.AnnotationGeneration] = "3"
			same(t, tt.want, o.GetAnnotations())
		})
	}
}

// Whoever names imagePullSecrets learns which of them reach no pod.
func TestIgnored(t *testing.T) {
	takes := schemaFor(PostgresqlKind, map[string][]string{"spec.imagePullSecrets": nil})
	takesNone := schemaFor(PostgresqlKind, map[string][]string{"spec.teamId": nil})
	for name, tt := range map[string]struct {
		part    Part
		secrets int
		schema  *Schema
		want    bool
	}{
		"no secret for PostgreSQL":                  {Database, 0, takesNone, false},
		"an operator of PostgreSQL that takes none": {Database, 1, takesNone, true},
		"one that takes them":                       {Database, 1, takes, false},
		"one secret for MinIO":                      {Storage, 1, nil, false},
		"two secrets for MinIO":                     {Storage, 2, nil, true},
		"two secrets for Redis":                     {Cache, 2, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := inCluster()
			secrets := []corev1.LocalObjectReference{{Name: "one"}, {Name: "two"}}[:tt.secrets]
			c.Spec.Database.Spec.ZlandoPostgreSQL.ImagePullSecrets = secrets
			c.Spec.Storage.Spec.MinIO.ImagePullSecrets = secrets
			c.Spec.Cache.Spec.RedisFailover.ImagePullSecrets = secrets
			if got := Ignored(c, tt.part, tt.schema); (got != "") != tt.want {
				t.Errorf("got %q", got)
			}
		})
	}
	c := inCluster()
	c.Spec.Database.Spec.ZlandoPostgreSQL.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "one"}}
	spec := Postgresql(c, takes).Object["spec"].(map[string]any)
	same(t, []any{map[string]any{"name": "one"}}, spec["imagePullSecrets"].([]any))
}
