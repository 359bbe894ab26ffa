package harbor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// harborRunsOn are the versions of PostgreSQL that Harbor is known to run on, the newest first. Its own image has 15 from Harbor 2.11 on, and nobody
// of its project has tested a newer one.
var harborRunsOn = []string{"15", "14", "13", "12", "11", "10"}

// databaseUser is the user that Harbor is in an in-cluster database.
const databaseUser = "harbor"

// KeyDatabasePassword is the key under which Harbor looks for the password of the database.
const KeyDatabasePassword = "postgres-password"

// DatabasePassword names the Secret that hands the password of an in-cluster database to Harbor.
func DatabasePassword(c *v1alpha1.HarborCluster) string { return c.Name + "-database-password" }

// DatabaseCredentials names the Secrets, in the order in which they are looked for, in which the operator keeps the password of
// Harbor's user: the operator's own pattern, and the one that Harbor's operator is often set up with.
func DatabaseCredentials(c *v1alpha1.HarborCluster) []string {
	short := databaseUser + "." + databaseName(c) + ".credentials"
	return []string{short + ".postgresql." + PostgresqlKind.Group, short}
}

// databaseVersion returns the version of PostgreSQL that a new database is made with: the one that the spec names, or the newest that Harbor runs
// on and the installed operator offers; none when they share none.
func databaseVersion(c *v1alpha1.HarborCluster, s *Schema) string {
	if given := c.Spec.Database.Spec.ZlandoPostgreSQL.Version; given != "" {
		return given
	}
	offered := s.values("spec", "postgresql", "version")
	for _, v := range harborRunsOn {
		if len(offered) == 0 || slices.Contains(offered, v) {
			return v
		}
	}
	return ""
}

// Ways to connect to an in-cluster database. Every PostgreSQL of the operator has a certificate of its own that nobody has signed: it can be asked for
// TLS, and there is nothing to verify it with.
const (
	sslDisable = "disable"
	sslRequire = "require"
)

// sslMode returns how Harbor connects. Whatever else a manifest carries has no meaning.
func sslMode(p *v1alpha1.HarborZlandoPostgreSQL) string {
	if p.SslConfig == sslRequire {
		return sslRequire
	}
	return sslDisable
}

// Rules which say what connections from other pods PostgreSQL takes: with and without TLS, or with TLS only.
const (
	ruleBoth = "host all all all md5"
	ruleTLS  = "hostssl all all all md5"
)

// clientRule says which connections from other pods PostgreSQL takes in the end.
func clientRule(p *v1alpha1.HarborZlandoPostgreSQL) string {
	if sslMode(p) == sslRequire {
		return ruleTLS
	}
	return ruleBoth
}

// rulesOf is where a postgresql has its rules.
var rulesOf = []string{"spec", "patroni", "pg_hba"}

// Refuses reports whether a database takes no connections from other pods without TLS.
func Refuses(database *unstructured.Unstructured) bool {
	rules, _, _ := unstructured.NestedStringSlice(database.Object, rulesOf...)
	return slices.Contains(rules, ruleTLS)
}

// MayRefuse reports whether a database may refuse what comes without TLS: nobody connects so any more. The Harbor that is there has to run, as its
// operator says of what it is now, and to connect with TLS. Without a Harbor nobody connects, and what is refused already is not let in again.
func MayRefuse(harbor, database *unstructured.Unstructured) bool {
	if harbor == nil || database != nil && Refuses(database) {
		return true
	}
	mode, _, _ := unstructured.NestedString(harbor.Object, "spec", "database", "sslMode")
	observed, told, _ := unstructured.NestedInt64(harbor.Object, "status", "observedGeneration")
	return mode == sslRequire && told && observed >= harbor.GetGeneration() && ServiceState(harbor, false).Ready()
}

// TakeBoth lets a database take connections without TLS, too.
func TakeBoth(database *unstructured.Unstructured) {
	rules, _, _ := unstructured.NestedStringSlice(database.Object, rulesOf...)
	for i := range rules {
		if rules[i] == ruleTLS {
			rules[i] = ruleBoth
		}
	}
	_ = unstructured.SetNestedStringSlice(database.Object, rules, rulesOf...)
}

// Postgresql returns the in-cluster database, for an operator with the given schema.
func Postgresql(c *v1alpha1.HarborCluster, s *Schema) *unstructured.Unstructured {
	p := c.Spec.Database.Spec.ZlandoPostgreSQL
	databases := map[string]any{"core": databaseUser}
	if c.Spec.Notary != nil {
		databases["notaryserver"], databases["notarysigner"] = databaseUser, databaseUser
	}
	volume := map[string]any{"size": size(p.Storage, "1Gi")}
	put(volume, "storageClass", cmp.Or(p.StorageClassName, c.Spec.StorageClassName))
	spec := map[string]any{
		"teamId":            "postgresql-" + c.Namespace,
		"numberOfInstances": replicas(p.Replicas),
		"postgresql": map[string]any{
			"version":    databaseVersion(c, s),
			"parameters": map[string]any{"max_connections": "1024"},
		},
		"volume":    volume,
		"users":     map[string]any{databaseUser: []any{"superuser", "createdb"}},
		"databases": databases,
		"patroni": map[string]any{
			"initdb": map[string]any{"encoding": "UTF8", "locale": "en_US.UTF-8", "data-checksums": "true"},
			"pg_hba": []any{
				"local all all trust",
				"host all all 127.0.0.1/32 md5",
				"host all all ::1/128 md5",
				"host replication standby all md5",
				clientRule(p),
			},
		},
	}
	put(spec, "dockerImage", p.Image)
	if s.declares("spec", "imagePullSecrets") {
		image(spec, v1alpha1.HarborImage{ImagePullSecrets: p.ImagePullSecrets})
	}
	resources := map[string]any{}
	put(resources, "requests", amounts(p.Resources.Requests))
	put(resources, "limits", amounts(p.Resources.Limits))
	put(spec, "resources", resources)
	return object(c, PostgresqlKind, databaseName(c), map[string]any{"spec": spec})
}

// LabelService is the label of an EndpointSlice that names its Service. LabelApplication and ApplicationSpilo mark what the operator of PostgreSQL
// makes, unless it is set up otherwise.
const (
	LabelService     = "kubernetes.io/service-name"
	LabelApplication = "application"
	ApplicationSpilo = "spilo"
)

// MasterService names the Service through which Harbor reaches the master of an in-cluster database.
func MasterService(c *v1alpha1.HarborCluster) string { return databaseName(c) }

// ClusterOfService returns the name of the HarborCluster that a Service of the operator of PostgreSQL may be of.
func ClusterOfService(namespace, service string) string {
	name, ok := strings.CutPrefix(service, "postgresql-"+namespace+"-")
	if !ok {
		return ""
	}
	return name
}

// Master is what can be seen of the master of an in-cluster database.
type Master struct {
	// Hidden is true when it may not be looked at.
	Hidden bool
	// Reachable is true when the Service has a ready address.
	Reachable bool
}

// MasterOf reads the EndpointSlices of the master's Service.
func MasterOf(slices []unstructured.Unstructured) Master {
	for _, s := range slices {
		endpoints, _, _ := unstructured.NestedSlice(s.Object, "endpoints")
		for _, e := range endpoints {
			m, _ := e.(map[string]any)
			addresses, _, _ := unstructured.NestedStringSlice(m, "addresses")
			// Where nothing is said, Kubernetes takes an address for ready.
			ready, told, _ := unstructured.NestedBool(m, "conditions", "ready")
			if len(addresses) > 0 && (ready || !told) {
				return Master{Reachable: true}
			}
		}
	}
	return Master{}
}

// PostgresqlState reads the status of an in-cluster database. Its operator says Running once, and does not take that back when the master is
// lost: so it runs only while there is a master to be reached. created is true when it was made just now; with strict a database that does not
// run counts as failed from then on.
func PostgresqlState(o *unstructured.Unstructured, master Master, created, strict bool) State {
	state, _, _ := unstructured.NestedString(o.Object, "status", "PostgresClusterStatus")
	message := fmt.Sprintf("The postgresql %s is %s.", o.GetName(), state)
	switch state {
	case "Running":
		if master.Reachable || master.Hidden {
			return Running(message)
		}
		message = fmt.Sprintf("The postgresql %s is Running, but has no master: its Service has no address that is ready.", o.GetName())
	case "CreateFailed", "UpdateFailed", "SyncFailed", "Invalid":
		return Failed(v1alpha1.ReasonHarborChildFailed, message)
	case "":
		message = fmt.Sprintf("The postgresql %s was not taken up by its operator yet.", o.GetName())
	}
	if strict && !created {
		return Failed(v1alpha1.ReasonHarborStarting, message)
	}
	return Pending(v1alpha1.ReasonHarborStarting, message)
}

// DatabaseConnection says how Harbor reaches its database.
func DatabaseConnection(c *v1alpha1.HarborCluster) map[string]any {
	e := c.Spec.Database.Spec.PostgreSQL
	if e == nil {
		return map[string]any{
			"hosts":       []any{map[string]any{"host": databaseName(c) + "." + c.Namespace + ".svc", "port": int64(5432)}},
			"username":    databaseUser,
			"passwordRef": DatabasePassword(c),
			"sslMode":     sslMode(c.Spec.Database.Spec.ZlandoPostgreSQL),
		}
	}
	var hosts []any
	for _, h := range e.Hosts {
		hosts = append(hosts, map[string]any{"host": h.Host, "port": int64(cmp.Or(h.Port, 5432))})
	}
	m := map[string]any{"hosts": hosts}
	put(m, "username", e.Username)
	put(m, "passwordRef", string(e.PasswordRef))
	put(m, "sslMode", e.SSLMode)
	put(m, "prefix", e.Prefix)
	return m
}
