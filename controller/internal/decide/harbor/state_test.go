package harbor

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

const (
	yes     = metav1.ConditionTrue
	no      = metav1.ConditionFalse
	unknown = metav1.ConditionUnknown
)

// with returns a child with a status, and with fields of its metadata and spec.
func with(t *testing.T, rest string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(rest), &o.Object); err != nil {
		t.Fatal(err)
	}
	o.SetName("minio-x")
	return o
}

func check(t *testing.T, got State, want metav1.ConditionStatus, says string) {
	t.Helper()
	if got.Status != want || got.Reason == "" || !strings.Contains(got.Message, says) {
		t.Errorf("got %+v, want %s with %q", got, want, says)
	}
}

func TestPostgresqlState(t *testing.T) {
	for state, want := range map[string]struct{ loose, strict metav1.ConditionStatus }{
		"":             {unknown, no},
		"Creating":     {unknown, no},
		"Updating":     {unknown, no},
		"Running":      {yes, yes},
		"CreateFailed": {no, no},
		"UpdateFailed": {no, no},
		"SyncFailed":   {no, no},
		"Invalid":      {no, no},
		"SomethingNew": {unknown, no},
	} {
		o := with(t, `{"status":{"PostgresClusterStatus":"`+state+`"}}`)
		check(t, PostgresqlState(o, Master{Reachable: true}, false, false), want.loose, state)
		check(t, PostgresqlState(o, Master{Reachable: true}, false, true), want.strict, state)
	}
	check(t, PostgresqlState(with(t, `{}`), Master{}, true, true), unknown, "not taken up")
	running := with(t, `{"status":{"PostgresClusterStatus":"Running"}}`)
	check(t, PostgresqlState(running, Master{}, false, false), unknown, "has no master")
	check(t, PostgresqlState(running, Master{}, false, true), no, "has no master")
	check(t, PostgresqlState(running, Master{Hidden: true}, false, true), yes, "Running")
}

func TestMasterOf(t *testing.T) {
	for name, tt := range map[string]struct {
		endpoints string
		want      bool
	}{
		"no endpoint":              {`[]`, false},
		"one that is ready":        {`[{"addresses":["10.0.0.1"],"conditions":{"ready":true}}]`, true},
		"one of which nobody says": {`[{"addresses":["10.0.0.1"]}]`, true},
		"one that is not ready":    {`[{"addresses":["10.0.0.1"],"conditions":{"ready":false}}]`, false},
		"one without an address":   {`[{"addresses":[],"conditions":{"ready":true}}]`, false},
		"the second of two":        {`[{"addresses":["10.0.0.1"],"conditions":{"ready":false}},{"addresses":["10.0.0.2"],"conditions":{"ready":true}}]`, true},
	} {
		if got := MasterOf([]unstructured.Unstructured{*with(t, `{}`), *with(t, `{"endpoints":`+tt.endpoints+`}`)}); got.Reachable != tt.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestClusterOfService(t *testing.T) {
	for service, want := range map[string]string{
		"postgresql-registry-sample": "sample", "postgresql-other-sample": "", "sample": "", "": "",
	} {
		if got := ClusterOfService("registry", service); got != want {
			t.Errorf("%s: %q", service, got)
		}
	}
}

func TestRedisState(t *testing.T) {
	run := Workload{Exists: true, Current: true, Wanted: 3, Ready: 3}
	some, old := run, run
	some.Ready, old.Current = 1, false
	for name, tt := range map[string]struct {
		created            bool
		servers, sentinels Workload
		want               metav1.ConditionStatus
		says               string
	}{
		"just made":                     {true, run, run, unknown, "just made"},
		"not taken up":                  {false, Workload{}, Workload{}, unknown, "not taken up"},
		"sentinels are still missing":   {false, run, Workload{}, unknown, "not taken up"},
		"all run":                       {false, run, run, yes, "run"},
		"a server is missing":           {false, some, run, unknown, "1 of 3 servers"},
		"a sentinel is missing":         {false, run, some, unknown, "1 of 3 sentinels"},
		"a change was not seen yet":     {false, old, run, unknown, "3 of 3"},
		"workloads may not be seen":     {false, Workload{Hidden: true}, Workload{Hidden: true}, yes, "exists"},
		"just made and not to be seen":  {true, Workload{Hidden: true}, Workload{Hidden: true}, unknown, "just made"},
		"one of them may not be looked": {false, run, Workload{Hidden: true}, yes, "exists"},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, RedisState(with(t, `{}`), tt.created, tt.servers, tt.sentinels), tt.want, tt.says)
		})
	}
}

func TestWorkloadOf(t *testing.T) {
	o := with(t, `{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":1,"readyReplicas":2}}`)
	if got, want := WorkloadOf(o), (Workload{Exists: true, Wanted: 3, Ready: 2}); got != want {
		t.Errorf("%+v", got)
	}
	if got := WorkloadOf(with(t, `{"status":{"readyReplicas":1}}`)); !got.running() {
		t.Errorf("replicas default to one: %+v", got)
	}
}

func TestTenantState(t *testing.T) {
	tenant := func(status string) string {
		return `{"spec":{"pools":[{"servers":2},{"servers":1}]},"status":` + status + `}`
	}
	for name, tt := range map[string]struct {
		status string
		want   metav1.ConditionStatus
		says   string
	}{
		"not taken up":              {`{}`, unknown, "not taken up"},
		"being provisioned":         {`{"currentState":"Provisioning MinIO Statefulset"}`, unknown, "Provisioning"},
		"a server is missing":       {`{"currentState":"Initialized","availableReplicas":2}`, unknown, "2 of 3 servers"},
		"no pool is told of":        {`{"currentState":"Initialized","availableReplicas":3}`, unknown, "pool"},
		"only another pool is told": {`{"currentState":"Initialized","availableReplicas":3,"pools":[{"ssName":"y","state":"PoolInitialized"}]}`, unknown, "pool"},
		"the pool is only created":  {`{"currentState":"Initialized","availableReplicas":3,"pools":[{"ssName":"minio-x-zone-harbor","state":"PoolCreated"}]}`, unknown, "pool"},
		"all three hold":            {`{"currentState":"Initialized","availableReplicas":3,"pools":[{"ssName":"minio-x-zone-harbor","state":"PoolInitialized"}]}`, yes, "runs"},
		"another Tenant was first":  {`{"currentState":"Another MinIO Tenant already exists in the namespace"}`, no, "Another"},
		"credentials are not right": {`{"currentState":"Tenant credentials are not set properly"}`, no, "credentials"},
		"waiting for certificates":  {`{"currentState":"Waiting for MinIO TLS Certificate"}`, unknown, "Waiting"},
		"a new version":             {`{"currentState":"Updating MinIO Version"}`, unknown, "Updating"},
		"a restart":                 {`{"currentState":"Restarting MinIO"}`, unknown, "Restarting"},
		"an error of its operator":  {`{"currentState":"empty tenant credentials"}`, no, "empty tenant credentials"},
		"an error about a claim":    {`{"currentState":"PersistentVolumeClaim \"data0\" is forbidden: exceeded quota"}`, no, "exceeded quota"},
	} {
		t.Run(name, func(t *testing.T) { check(t, TenantState(with(t, tenant(tt.status))), tt.want, tt.says) })
	}
}

func TestBucketState(t *testing.T) {
	for name, tt := range map[string]struct {
		conditions string
		want       metav1.ConditionStatus
		says       string
	}{
		"runs":      {`[]`, unknown, "makes"},
		"suspended": {`[{"type":"Suspended","status":"True"}]`, unknown, "makes"},
		"complete":  {`[{"type":"Complete","status":"True"}]`, yes, "bucket exists"},
		"failed":    {`[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","message":"too often."}]`, no, "too often. It is made again at 00:00:00 UTC."},
		"silently":  {`[{"type":"Failed","status":"True"}]`, no, "no reason"},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, BucketState(with(t, `{"status":{"conditions":`+tt.conditions+`}}`), time.Unix(0, 0)), tt.want, tt.says)
		})
	}
}

func TestOutdated(t *testing.T) {
	made := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	after := func(d time.Duration) time.Time { return made.Add(d) }
	const complete, failed = "Complete", "Failed"
	for name, tt := range map[string]struct {
		// condition that the Job has since a time after it was made, and the age of the Tenant when it was made.
		condition string
		at, older time.Duration
		// otherwise is true when the spec has changed since.
		otherwise bool
		now       time.Duration
		want      bool
		when      time.Time
	}{
		"of this generation":                  {"", 0, time.Minute, false, 0, false, time.Time{}},
		"of the last generation":              {"", 0, time.Minute, true, 0, true, after(0)},
		"of the last generation, but done":    {complete, 0, time.Minute, true, 0, false, time.Time{}},
		"done for a Tenant that is gone":      {complete, 0, -time.Minute, false, 0, true, after(0)},
		"at work for a Tenant that is gone":   {"", 0, -time.Minute, false, 0, true, after(0)},
		"failed, of the last generation":      {failed, time.Second, time.Minute, true, 0, true, after(0)},
		"failed at once":                      {failed, 0, time.Minute, false, 0, false, after(time.Minute)},
		"failed at once, a minute ago":        {failed, 0, time.Minute, false, time.Minute, true, after(time.Minute)},
		"failed after ten minutes":            {failed, 10 * time.Minute, time.Minute, false, 15 * time.Minute, false, after(20 * time.Minute)},
		"failed after ten minutes, later on":  {failed, 10 * time.Minute, time.Minute, false, 20 * time.Minute, true, after(20 * time.Minute)},
		"failed after a day, within the hour": {failed, 24 * time.Hour, time.Minute, false, 24*time.Hour + 59*time.Minute, false, after(25 * time.Hour)},
		"failed after a day, an hour ago":     {failed, 24 * time.Hour, time.Minute, false, 25 * time.Hour, true, after(25 * time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			c := inCluster()
			have := BucketJob(c)
			have.SetCreationTimestamp(metav1.NewTime(made))
			if tt.condition != "" {
				have.Object["status"] = map[string]any{"conditions": []any{map[string]any{
					"type": tt.condition, "status": "True", "lastTransitionTime": after(tt.at).Format(time.RFC3339),
				}}}
			}
			if tt.otherwise {
				c.Generation++
			}
			tenant := with(t, `{}`)
			tenant.SetCreationTimestamp(metav1.NewTime(made.Add(-tt.older)))
			outdated, when := Outdated(have, BucketJob(c), tenant, after(tt.now))
			if outdated != tt.want || !cmp.Equal(when, tt.when) {
				t.Errorf("got %t at %s, want %t at %s", outdated, when, tt.want, tt.when)
			}
		})
	}
}

func TestHarborState(t *testing.T) {
	for name, tt := range map[string]struct {
		conditions    string
		loose, strict metav1.ConditionStatus
		says          string
	}{
		"says nothing": {`[]`, unknown, unknown, "not taken up"},
		"is at work":   {`[{"type":"InProgress","status":"True","message":"core"},{"type":"Failed","status":"False"}]`, unknown, no, "core"},
		"failed":       {`[{"type":"InProgress","status":"False"},{"type":"Failed","status":"True","message":"no database"}]`, no, no, "no database"},
		"waits for an object of its own": {
			`[{"type":"InProgress","status":"True","reason":"recoverableError","message":"An error occurred and may be recovered"},` +
				`{"type":"Failed","status":"True","reason":"dependencyStatus","message":"Certificate.cert-manager.io registry/a-core-tokencert"}]`, unknown, no,
			"waits for its part Certificate.cert-manager.io registry/a-core-tokencert",
		},
		"waits no more":            {`[{"type":"InProgress","status":"False"},{"type":"Failed","status":"True","reason":"dependencyStatus","message":"core"}]`, no, no, "core"},
		"failed and is at work":    {`[{"type":"InProgress","status":"True"},{"type":"Failed","status":"True","message":"again"}]`, no, no, "again"},
		"runs":                     {`[{"type":"InProgress","status":"False"},{"type":"Failed","status":"False"}]`, yes, yes, "runs"},
		"runs, told by one of two": {`[{"type":"InProgress","status":"False"}]`, yes, yes, "runs"},
		"does not know":            {`[{"type":"InProgress","status":"Unknown"}]`, yes, yes, "runs"},
	} {
		t.Run(name, func(t *testing.T) {
			o := with(t, `{"metadata":{"generation":2},"status":{"observedGeneration":2,"conditions":`+tt.conditions+`}}`)
			check(t, ServiceState(o, false), tt.loose, tt.says)
			check(t, ServiceState(o, true), tt.strict, tt.says)
		})
	}
	stale := with(t, `{"metadata":{"generation":2},"status":{"observedGeneration":1,"conditions":[{"type":"Failed","status":"True"}]}}`)
	check(t, ServiceState(stale, false), unknown, "last change")
}
