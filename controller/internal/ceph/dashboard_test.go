package ceph_test

import (
	"errors"
	"slices"
	"testing"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/cephtest"
)

// onDashboard is a model whose managers run the dashboard.
func onDashboard(t *testing.T) (*cephtest.Cluster, *ceph.Client) {
	model := cephtest.New(t, fsid, "n0")
	model.Modules = map[string]bool{"dashboard": true}
	return model, newClient(t, model)
}

const password = "a-password-of-some-length"

// TestServeDashboard: the dashboard gets a certificate, and a user who may only look; a second time changes the password and nothing else.
func TestServeDashboard(t *testing.T) {
	model, c := onDashboard(t)
	if f, err := c.Facts(t.Context()); err != nil || f.Dashboard != "" || !slices.Equal(f.Modules, []string{"dashboard", "prometheus"}) {
		t.Errorf("before it has a certificate: %q, %q, %v", f.Dashboard, f.Modules, err)
	}
	if err := c.ServeDashboard(t.Context(), "u", []byte(password)); err != nil {
		t.Fatal(err)
	}
	if got := model.Dashboard.Users["u"]; got != (cephtest.DashboardUser{Password: password, Role: "read-only"}) || !model.Dashboard.Certificate {
		t.Errorf("user %+v, certificate %t", got, model.Dashboard.Certificate)
	}
	if f, err := c.Facts(t.Context()); err != nil || f.Dashboard != "https://10.99.0.1:8443/" {
		t.Errorf("served at %q: %v", f.Dashboard, err)
	}
	model.Dashboard.Users["u"] = cephtest.DashboardUser{Password: "something", Role: "administrator"}
	if err := c.ServeDashboard(t.Context(), "u", []byte(password)); err != nil {
		t.Fatal(err)
	}
	if got := model.Dashboard.Users["u"]; got != (cephtest.DashboardUser{Password: password, Role: "administrator"}) {
		t.Errorf("the second time: %+v", got)
	}
	want := []string{
		"dashboard create-self-signed-cert", "dashboard ac-user-create u read-only", "dashboard ac-user-set-password u",
		"dashboard ac-user-create u read-only", "dashboard ac-user-set-password u",
	}
	if got := model.Changes(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestServeDashboard_killed: whatever command is the last one that is performed, the next call ends as the first would have.
func TestServeDashboard_killed(t *testing.T) {
	for last := range 6 {
		model, c := onDashboard(t)
		count := 0
		model.Fail = func([]string) error {
			if count++; count > last {
				return errors.New("killed")
			}
			return nil
		}
		err := c.ServeDashboard(t.Context(), "u", []byte(password))
		if model.Fail = nil; (err == nil) != (last == 5) {
			t.Errorf("after %d commands: %v", last, err)
		}
		if err := c.ServeDashboard(t.Context(), "u", []byte(password)); err != nil {
			t.Error(err)
		}
		if got := model.Dashboard.Users["u"]; got != (cephtest.DashboardUser{Password: password, Role: "read-only"}) || !model.Dashboard.Certificate {
			t.Errorf("after %d commands: user %+v, certificate %t", last, got, model.Dashboard.Certificate)
		}
	}
}

// TestServeDashboard_refused: a password that Ceph does not take is refused, and monitors of another cluster are told none.
func TestServeDashboard_refused(t *testing.T) {
	model, c := onDashboard(t)
	model.Dashboard.Weak = true
	if err := c.ServeDashboard(t.Context(), "u", []byte(password)); !errors.Is(err, ceph.ErrRefused) || len(model.Dashboard.Users) > 0 {
		t.Errorf("users %v: %v", model.Dashboard.Users, err)
	}
	model, c = onDashboard(t)
	model.FSID = "7a1c6d1e-0000-4000-8000-00000000000f"
	if err := c.ServeDashboard(t.Context(), "u", []byte(password)); !errors.Is(err, ceph.ErrForeign) || len(model.Changes()) > 0 {
		t.Errorf("%q: %v", model.Changes(), err)
	}
}

// TestServeDashboard_otherManager: a manager that becomes active meanwhile, and does not know the commands yet, refuses nothing for good.
func TestServeDashboard_otherManager(t *testing.T) {
	for last := range 4 {
		model, c := onDashboard(t)
		count := 0
		model.Fail = func([]string) error {
			if count++; count > last+1 {
				model.Starting = true
			}
			return nil
		}
		if err := c.ServeDashboard(t.Context(), "u", []byte(password)); !errors.Is(err, ceph.ErrUnreachable) || errors.Is(err, ceph.ErrRefused) {
			t.Errorf("after %d commands: %v", last, err)
		}
	}
}

// TestKnowsDashboard: a manager that starts anew for its module, and one without it, do not know the commands. One that does not answer says nothing.
func TestKnowsDashboard(t *testing.T) {
	model, c := onDashboard(t)
	for name, test := range map[string]struct {
		change func()
		knows  bool
		fails  bool
	}{
		"it runs":       {func() {}, true, false},
		"starts anew":   {func() { model.Starting = true }, false, false},
		"is off":        {func() { model.Modules["dashboard"] = false }, false, false},
		"cannot answer": {func() { model.Fail = func([]string) error { return errors.New("no pod") } }, false, true},
	} {
		model.Starting, model.Modules["dashboard"], model.Fail = false, true, nil
		test.change()
		if knows, err := c.KnowsDashboard(t.Context()); knows != test.knows || (err != nil) != test.fails {
			t.Errorf("%s: %t, %v", name, knows, err)
		}
	}
}

// TestFacts_modules: a module is one that all managers have.
func TestFacts_modules(t *testing.T) {
	model, c := onDashboard(t)
	model.Lacks = []string{"dashboard"}
	if f, err := c.Facts(t.Context()); err != nil || !slices.Equal(f.Modules, []string{"prometheus"}) {
		t.Errorf("%q, %v", f.Modules, err)
	}
}
