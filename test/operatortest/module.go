package operatortest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// module is a Go module at a version, with the sum of its content as go.sum has it. Nothing of it is compiled and nothing of it is in this
// repository: it is fetched into the module cache, once, and its files are read there.
type module struct{ path, version, sum string }

var (
	harborOperator = module{"github.com/goharbor/harbor-operator", "v1.3.0", "h1:zfB6l5l1km4hh6IhFP0Iopr9lSXdT60l0EqOB9Zp4tw="}
	// certManager is the newest release when this was written; its kinds have been v1 since release 1.0.
	certManager   = module{"github.com/cert-manager/cert-manager", "v1.21.2", "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68="}
	redisOperator = module{"github.com/spotahome/redis-operator", "v1.2.4", "h1:H5koLVJOhxNuuqO90OmJNJOCKzO01VJdZDepsjjgZUs="}
)

// postgresOperators are the versions that are tested, the oldest first: the enum of PostgreSQL's versions differs.
var postgresOperators = []module{
	{"github.com/zalando/postgres-operator", "v1.9.0", "h1:8Ab/zSXkpzBT+G6EQvQGC30DXCV7aDX27bfSTf99W7c="},
	{"github.com/zalando/postgres-operator", "v1.14.0", "h1:C8+n26C8v6fPB1SNW+Y8X6oQoEHufzGJXJzYPlix+zw="},
	{"github.com/zalando/postgres-operator", "v1.15.0", "h1:is/7cOrpuV7OwMiN7TG7GgiYHKvaWx8Ptw3hJruFO1I="},
}

// fetched keeps what was read, because definitions are long and tests ask for them again and again.
var fetched sync.Map

// crd returns a CustomResourceDefinition from a file of the module, which may hold other objects too.
func (m module) crd(t testing.TB, file, name string) *unstructured.Unstructured {
	t.Helper()
	key := m.path + m.version + file + name
	if known, ok := fetched.Load(key); ok {
		return known.(*unstructured.Unstructured).DeepCopy()
	}
	text, err := os.ReadFile(filepath.Join(m.dir(t), file))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		if !bytes.Contains(document, []byte("name: "+name)) {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			t.Fatalf("%s of %s@%s: %v", file, m.path, m.version, err)
		}
		if o.GetKind() == "CustomResourceDefinition" && o.GetName() == name {
			fetched.Store(key, o)
			return o.DeepCopy()
		}
	}
	t.Fatalf("%s of %s@%s has no CustomResourceDefinition %s", file, m.path, m.version, name)
	return nil
}

// dir returns where the module's files are, and fetches them when they are not in the module cache yet.
func (m module) dir(t testing.TB) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", m.path+"@"+m.version)
	// Outside of any module nothing is written to a go.mod or go.sum. The sum below takes the place of the public list of sums.
	c.Dir = t.TempDir()
	c.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GONOSUMDB="+m.path)
	var complaint bytes.Buffer
	c.Stderr = &complaint
	out, err := c.Output()
	var got struct{ Dir, Sum, Error string }
	if decoding := json.Unmarshal(out, &got); err == nil {
		err = decoding
	}
	if err != nil {
		t.Fatalf("go mod download %s@%s, which holds the definitions to test with: %v\n%s%s", m.path, m.version, err, complaint.String(), got.Error)
	}
	if got.Sum != m.sum {
		t.Fatalf("%s@%s has the sum %s, and %s is recorded: it is not what these tests were written for", m.path, m.version, got.Sum, m.sum)
	}
	return got.Dir
}
