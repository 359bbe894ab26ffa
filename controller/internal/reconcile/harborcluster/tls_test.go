package harborcluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// rule returns which connections from other pods PostgreSQL takes, and mode how Harbor connects.
func (s *suite) rule() string {
	s.t.Helper()
	rules, _, _ := unstructured.NestedStringSlice(s.child(harbor.PostgresqlKind, s.database()).Object, "spec", "patroni", "pg_hba")
	return rules[len(rules)-1]
}

func (s *suite) mode() string {
	s.t.Helper()
	mode, _, _ := unstructured.NestedString(s.child(harbor.HarborKind, "sample-harbor").Object, "spec", "database", "sslMode")
	return mode
}

func require(mode string) func(*v1alpha1.HarborCluster) {
	return func(c *v1alpha1.HarborCluster) { c.Spec.Database.Spec.ZlandoPostgreSQL.SslConfig = mode }
}

// TestDatabase_refusesOnceHarborHasTLS: Harbor is never without a database because of its way to connect.
func TestDatabase_refusesOnceHarborHasTLS(t *testing.T) {
	const both, only = "host all all all md5", "hostssl all all all md5"
	s := newSuite(t)
	s.healthy()
	check := func(when, rule, mode string) {
		t.Helper()
		if s.rule() != rule || s.mode() != mode {
			t.Errorf("%s: PostgreSQL takes %q, and Harbor connects with %q", when, s.rule(), s.mode())
		}
	}
	s.edit(require("require"))
	s.reconcile()
	check("TLS is wanted", both, "require")
	s.reconcile()
	check("the operator of Harbor has not seen it", both, "require")
	s.expect(s.get().Status.Status, "DatabaseReady", "True", v1alpha1.ReasonHarborRunning, "It takes connections without TLS until Harbor runs with TLS.")
	s.operators.setHarbor("True", "False", "rolling")
	s.reconcile()
	check("Harbor is at work", both, "require")
	s.operators.setHarbor("False", "False", "")
	s.reconcile()
	check("Harbor runs with TLS", only, "require")
	s.operators.setHarbor("True", "False", "rolling")
	s.reconcile()
	check("Harbor is at work for another reason", only, "require")
	s.operators.setHarbor("False", "False", "")
	s.edit(require("disable"))
	s.reconcile()
	if s.rule() != both {
		t.Errorf("PostgreSQL takes %q, and TLS is not wanted any more", s.rule())
	}
}

// TestDatabase_refusesFromTheStart: a database that nobody uses yet takes nothing else for a moment.
func TestDatabase_refusesFromTheStart(t *testing.T) {
	s := newSuite(t)
	s.add(require("require"))
	s.reconcile()
	if got := s.rule(); got != "hostssl all all all md5" {
		t.Errorf("PostgreSQL takes %q", got)
	}
}
