package setup

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/setup/rights"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestDeploy_podsAndClaimsAreReadByRolesOfTheirOwn: the role that everybody needs names neither, and whoever leaves another one out takes exactly this away.
func TestDeploy_podsAndClaimsAreReadByRolesOfTheirOwn(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(apitest.Root(t), "deploy", "rbac", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no roles: %v", err)
	}
	got := map[string][]string{}
	for _, f := range files {
		for _, role := range decode(t, filepath.Join("rbac", filepath.Base(f)), clusterRole) {
			// The sidecars and the drivers are other programs, with an account of their own.
			if strings.HasPrefix(role.Name, "quarry-csi-") {
				continue
			}
			for _, r := range role.Rules {
				for _, resource := range r.Resources {
					if slices.Contains(r.APIGroups, "") && slices.Contains([]string{"pods", "persistentvolumeclaims", "*"}, resource) || slices.Contains(r.APIGroups, "*") {
						got[role.Name] = append(got[role.Name], resource+": "+strings.Join(r.Verbs, " "))
					}
				}
			}
		}
	}
	want := map[string][]string{
		"quarry-statefulcluster-view": {"pods: list watch", "persistentvolumeclaims: get list watch"},
		"quarry-pin":                  {"persistentvolumeclaims: get list watch patch"},
		// Bound in the namespaces of those that use them.
		"quarry-statefulcluster": {"pods: create delete patch", "persistentvolumeclaims: create delete patch"},
		"quarry-harbor":          {"persistentvolumeclaims: list delete"},
		// A pod of which no container runs is deleted, others are evicted (0095).
		"quarry-gluster": {"persistentvolumeclaims: list create delete", "pods: list delete"},
		// Of another program, the drivers of Gluster.
		"quarry-gluster-driver": {"persistentvolumeclaims: get list watch update"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what ClusterRoles say of pods and claims (-want +got):\n%s", diff)
	}
}

// TestRun_withoutTheRolesOfWhatIsOff: whoever switches a controller off needs not give the right to read pods and claims of everybody, and everything
// else is looked after. An informer that may not list would keep all of it waiting.
func TestRun_withoutTheRolesOfWhatIsOff(t *testing.T) {
	s := newSite(t)
	controller := clientOf(t, as(t, "quarry-controller"))
	installed = false
	t.Cleanup(func() { install(t) })
	for _, name := range []string{"quarry-statefulcluster-view", "quarry-pin"} {
		if err := s.admin.Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}} {
		await(t, "the right is gone", func() string {
			if controller.List(context.Background(), list, client.Limit(1)) == nil {
				return "it is there"
			}
			return ""
		})
	}
	for switches, missing := range map[string]string{
		"*,-pin":             "it may not list pods in all namespaces; bind the ClusterRole quarry-statefulcluster-view",
		"*,-statefulcluster": "it may not list persistentvolumeclaims in all namespaces; bind the ClusterRole quarry-pin",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cfg := s.cfg
		cfg.Controllers, cfg.again = strings.Split(switches, ","), started.Swap(true)
		if err := Run(ctx, as(t, "quarry-controller"), cfg); !errors.Is(err, rights.ErrMissing) || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s: %v", switches, err)
		}
	}
	s.with([]string{"*", "-statefulcluster", "-pin"}, func(t *testing.T) {
		await(t, "the CSI driver is deployed", func() string { return available(t.Context(), s.admin) })
		await(t, "the Cluster runs", phaseOf(s.admin, s.cluster))
		h := newRegistry(t, s.admin, true)
		// Which tests ran before says whether the operators' kinds are there: both reasons tell that somebody looked.
		h.expect("DatabaseReady", "", v1alpha1.ReasonHarborOperatorMissing, v1alpha1.ReasonHarborStarting)
	})
}
