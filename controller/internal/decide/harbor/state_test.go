package harbor

import (
	"strings"
	"testing"

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
		check(t, PostgresqlState(o, false, false), want.loose, state)
		check(t, PostgresqlState(o, false, true), want.strict, state)
	}
	check(t, PostgresqlState(with(t, `{}`), true, true), unknown, "not taken up")
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
		"failed":    {`[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","message":"too often"}]`, no, "too often"},
		"silently":  {`[{"type":"Failed","status":"True"}]`, no, "no reason"},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, BucketState(with(t, `{"status":{"conditions":`+tt.conditions+`}}`)), tt.want, tt.says)
		})
	}
}

func TestOutdated(t *testing.T) {
	c := inCluster()
	old, now := BucketJob(c), BucketJob(c)
	if Outdated(old, now) {
		t.Error("the Job of this generation is outdated")
	}
	c.Generation++
	now = BucketJob(c)
	if !Outdated(old, now) {
		t.Error("the Job of the last generation is not outdated")
	}
	old.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": "True"}}}
	if Outdated(old, now) {
		t.Error("a Job that has done its work is outdated")
	}
}

func TestHarborState(t *testing.T) {
	for name, tt := range map[string]struct {
		conditions    string
		loose, strict metav1.ConditionStatus
		says          string
	}{
		"says nothing":             {`[]`, unknown, unknown, "not taken up"},
		"is at work":               {`[{"type":"InProgress","status":"True","message":"core"},{"type":"Failed","status":"False"}]`, unknown, no, "core"},
		"failed":                   {`[{"type":"InProgress","status":"False"},{"type":"Failed","status":"True","message":"no database"}]`, no, no, "no database"},
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
