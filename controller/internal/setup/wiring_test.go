package setup

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/backend/lvm"
	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/storage"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// These tests need no API server. They find what is forgotten when a backend is added; docs/adding-a-backend.md has the order.

// stranger is a storage of a kind that nobody bound.
type stranger struct{ v1alpha1.Nfs }

func (*stranger) StorageKind() string { return "Stranger" }

// bound returns the reconcilers of all kinds.
func bound() kinds {
	k := kinds{}
	for _, b := range bindings(reads{}, nil, Config{Namespace: "quarry-system"}, nil) {
		r := b.bind(storage.Config{})
		k[r.New().StorageKind()] = r
	}
	return k
}

func TestKinds_profile(t *testing.T) {
	k := bound()
	local, ceph := &v1alpha1.Cluster{}, &v1alpha1.Cluster{}
	local.Spec.StorageType, ceph.Spec.StorageType = v1alpha1.StorageTypeLVM, v1alpha1.StorageTypeCephFS
	for name, c := range map[string]struct {
		of     v1alpha1.Storage
		known  bool
		driver string
		t      v1alpha1.StorageType
	}{
		"a Cluster":                     {local, true, v1alpha1.DriverLVM, v1alpha1.StorageTypeLVM},
		"an Nfs":                        {&v1alpha1.Nfs{}, true, v1alpha1.DriverNFS, ""},
		"an Iscsi":                      {&v1alpha1.Iscsi{}, true, v1alpha1.DriverISCSI, ""},
		"a Cluster of Ceph":             {ceph, true, v1alpha1.DriverCephFS, v1alpha1.StorageTypeCephFS},
		"a kind that nobody bound":      {&stranger{}, false, "", ""},
		"a Cluster that nobody decoded": {&v1alpha1.Cluster{}, true, "", ""},
	} {
		p, known := k.profile(c.of)
		if known != c.known || p.Driver.Name != c.driver || p.Type != c.t {
			t.Errorf("%s: %t %+v", name, known, p)
		}
		if !known && !reflect.DeepEqual(p, backend.Profile{}) {
			t.Errorf("%s has the profile of another kind: %+v", name, p)
		}
	}
}

func TestKinds_check(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	k := bound()
	if err := k.check(scheme); err != nil {
		t.Error(err)
	}
	delete(k, v1alpha1.KindNfs)
	if err := k.check(scheme); err == nil || !strings.Contains(err.Error(), "Nfs") {
		t.Errorf("a kind without a reconciler is taken: %v", err)
	}
}

// TestKinds_areListed finds a kind that the engine would never see.
func TestKinds_areListed(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for name := range definitions(t) {
		if !scheme.Recognizes(v1alpha1.GroupVersion.WithKind(name)) {
			t.Errorf("kind %s has a definition and is not in v1alpha1.AddToScheme: nobody would look at its objects", name)
		}
	}
	k := bound()
	for name := range scheme.KnownTypes(v1alpha1.GroupVersion) {
		o, err := scheme.New(v1alpha1.GroupVersion.WithKind(name))
		if err != nil {
			t.Fatal(err)
		}
		s, ok := o.(v1alpha1.Storage)
		if !ok {
			continue
		}
		listed := slices.ContainsFunc(v1alpha1.StorageLists(), func(l v1alpha1.StorageList) bool {
			kinds, _, err := scheme.ObjectKinds(l)
			return err == nil && kinds[0].Kind == name+"List"
		})
		if !slices.Contains(optional, strings.ToLower(name)) {
			t.Errorf("kind %s cannot be switched off: name it in optional", name)
		}
		if !listed || s.StorageKind() != name || k[name] == nil {
			t.Errorf("kind %s: in v1alpha1.StorageLists %t, called %s by its methods, bound to a reconciler %t", name, listed, s.StorageKind(), k[name] != nil)
		}
	}
}

func TestDrivers_areServedAsTheTableSays(t *testing.T) {
	var names []string
	deployments := map[string]bool{}
	for _, e := range entries(bindings(reads{}, nil, Config{Namespace: "quarry-system"}, nil)) {
		d := e.Profile.Driver
		names = append(names, d.Name)
		if d.Deployment == "" || deployments[d.Deployment] {
			t.Errorf("driver %s: deployment %q has no name of its own", d.Name, d.Deployment)
		}
		deployments[d.Deployment] = true
		if d.Snapshots != (e.Snapshots != nil) {
			t.Errorf("driver %s makes snapshots: %t; its backend has Snapshots: %t", d.Name, d.Snapshots, e.Snapshots != nil)
		}
		served, ok := servable[d.Name]
		if !ok {
			t.Errorf("driver %s is deployed and not served: add it to servable", d.Name)
			continue
		}
		described, b := served.backend(csiWorld{log: logr.Discard()})
		_, snapshots := b.(frame.Snapshotter)
		_, measures := b.(frame.Measurer)
		_, attaches := b.(frame.Attacher)
		if attaches != d.Attach {
			t.Errorf("driver %s is deployed as one that attaches volumes: %t, and served as one: %t", d.Name, d.Attach, attaches)
		}
		if described.Name != d.Name || snapshots != d.Snapshots || measures != d.Capacity || (described.Topology != "") != d.Topology {
			t.Errorf("driver %+v is served as %+v with snapshots %t and capacity %t", d, described, snapshots, measures)
		}
	}
	if slices.Sort(names); !slices.Equal(names, driverNames()) {
		t.Errorf("deployed are %v, served are %v", names, driverNames())
	}
}

// decode reads the objects of one kind from a file below deploy.
func decode[T any](t *testing.T, path string, keep func(*T) bool) []T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(apitest.Root(t), "deploy", path))
	if err != nil {
		t.Fatal(err)
	}
	var out []T
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var o T
		switch err := d.Decode(&o); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatalf("%s: %v", path, err)
		case keep(&o):
			out = append(out, o)
		}
	}
}

// definition is what matters of the definition of a kind.
type definition struct {
	Spec struct {
		Names    struct{ Kind, Plural string }
		Versions []struct {
			Schema struct{ OpenAPIV3Schema field }
		}
	}
}

// field is what matters of the schema of a field.
type field struct {
	Enum       []string
	Properties map[string]field
}

// unserved are the definitions of kinds without a reconciler, of which there are none now. They are generated and tested, and not installed: whoever made such an
// object would wait for ever for something to happen (decision 0079).
var unserved []string

// definitions returns the definitions of our kinds by kind.
func definitions(t *testing.T) map[string]definition {
	t.Helper()
	listed := decode(t, "crd/kustomization.yaml", func(*struct{ Resources []string }) bool { return true })[0].Resources
	files, err := filepath.Glob(filepath.Join(apitest.Root(t), "deploy", "crd", "quarry.storage_*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	out := map[string]definition{}
	for _, f := range files {
		name := filepath.Base(f)
		switch here := slices.Contains(listed, name); {
		case here && slices.Contains(unserved, name):
			t.Errorf("deploy/crd/kustomization.yaml lists %s, whose kind nothing reconciles; if something does now, take it off unserved", name)
		case !here && !slices.Contains(unserved, name):
			t.Errorf("deploy/crd/kustomization.yaml does not list %s: the kind would not be installed", name)
		}
		for _, d := range decode(t, filepath.Join("crd", name), func(*definition) bool { return true }) {
			out[d.Spec.Names.Kind] = d
		}
	}
	return out
}

// allowed reports whether one of the rules allows all verbs on a resource of ours.
func allowed(rules []rbacv1.PolicyRule, resource string, verbs ...string) bool {
	return allowedIn(rules, v1alpha1.Group, resource, verbs...)
}

func allowedIn(rules []rbacv1.PolicyRule, group, resource string, verbs ...string) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) &&
			!slices.ContainsFunc(verbs, func(v string) bool { return !slices.Contains(r.Verbs, v) })
	})
}

func clusterRole(r *rbacv1.ClusterRole) bool { return r.Kind == "ClusterRole" }

func TestDeploy_knowsEveryKindOfStorages(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := kube.StorageKinds(scheme)
	if err != nil {
		t.Fatal(err)
	}
	defined := definitions(t)
	role := decode(t, "rbac/role.yaml", clusterRole)[0].Rules
	member := defined["Member"].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	for _, o := range objects {
		s, ok := o.(v1alpha1.Storage)
		if !ok {
			t.Fatalf("%T is no Storage", o)
		}
		kind, plural := s.StorageKind(), defined[s.StorageKind()].Spec.Names.Plural
		if plural == "" {
			t.Errorf("kind %s has no definition in deploy/crd", kind)
			continue
		}
		for resource, verbs := range map[string][]string{
			plural: {"get", "list", "watch", "patch"}, plural + "/status": {"patch"}, plural + "/finalizers": {"update"},
		} {
			if !allowed(role, resource, verbs...) {
				t.Errorf("the controller may not %s %s: see the markers of the package below reconcile that binds the kind %s, and run make generate", verbs, resource, kind)
			}
		}
		if !slices.Contains(member.Properties["of"].Properties["kind"].Enum, kind) {
			t.Errorf("a Member cannot belong to kind %s: see the enum of MemberOwner.Kind", kind)
		}
	}
}

func TestDeploy_letsTheDriversReadWhatTheyWatch(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	defined, role := definitions(t), decode(t, "rbac/csi-driver.yaml", clusterRole)[0].Rules
	if !allowedIn(role, contentKind.Group, contents, "list") {
		t.Errorf("the drivers may not list %s, and no snapshot can be deleted then: see deploy/rbac/csi-driver.yaml", contents)
	}
	for driver, c := range servable {
		for _, o := range c.watched {
			kinds, _, err := scheme.ObjectKinds(o)
			if err != nil {
				t.Fatal(err)
			}
			if kinds[0].Group != v1alpha1.Group {
				continue
			}
			if plural := defined[kinds[0].Kind].Spec.Names.Plural; !allowed(role, plural, "get", "list", "watch") {
				t.Errorf("driver %s may not watch %s: see deploy/rbac/csi-driver.yaml", driver, plural)
			}
		}
	}
}

// TestDeploy_sidecarsReachTheirLeasesOnly: the names are those that the sidecars give their leases. Without its lease a sidecar does nothing.
func TestDeploy_sidecarsReachTheirLeasesOnly(t *testing.T) {
	var want []string
	for _, b := range bindings(reads{}, nil, Config{Namespace: "quarry-system"}, nil) {
		for _, one := range b.backends {
			d := one.Profile().Driver
			name := strings.ReplaceAll(d.Name, ".", "-")
			want = append(want, name, "external-resizer-"+name)
			if d.Attach {
				want = append(want, "external-attacher-leader-"+name)
			}
			if d.Snapshots {
				want = append(want, "external-snapshotter-leader-"+name)
			}
		}
	}
	var got []string
	for _, role := range decode(t, "rbac/csi-sidecars.yaml", func(o *rbacv1.Role) bool { return o.Kind == "Role" && o.Name == "quarry-csi-leader-election" }) {
		for _, r := range role.Rules {
			if len(r.ResourceNames) == 0 && !slices.Equal(r.Verbs, []string{"create"}) {
				t.Errorf("role %s may %s any of %s", role.Name, r.Verbs, r.Resources)
			}
			got = append(got, r.ResourceNames...)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("leases (-want +got):\n%s", diff)
	}
}

// reads is a manager as far as it reads.
type reads struct{ live client.Reader }

func (r reads) GetAPIReader() client.Reader { return r.live }

func (r reads) GetClient() client.Client { return nil }

// What is forgotten of a lost host is decided by what the API server itself says.
func TestBindings_lostSnapshotsAreReadLive(t *testing.T) {
	live := struct{ client.Reader }{}
	for _, b := range bindings(reads{live: &live}, nil, Config{Namespace: "quarry-system"}, nil) {
		for _, one := range b.backends {
			if l, ok := one.(*lvm.Backend); ok && l.Client == client.Reader(&live) {
				return
			}
		}
	}
	t.Error("the backend of local disks does not read from the API server")
}
