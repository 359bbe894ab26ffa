package admission

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
)

func TestMain(m *testing.M) { apitest.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Users that the policies tell apart.
const (
	controller       = "system:serviceaccount:quarry-system:quarry-controller"
	garbageCollector = "system:serviceaccount:kube-system:generic-garbage-collector"
	person           = "jane"
)

// as returns a client of a user who may do everything that admission allows.
func as(t *testing.T, user string) client.Client {
	t.Helper()
	cfg := apitest.Config(t)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters", "system:authenticated"}}
	c, err := client.New(cfg, client.Options{Scheme: apitest.Scheme(t)})
	must(t, err)
	return c
}

// install applies a file of deploy until the end of the test.
func install(t *testing.T, c client.Client, file string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(apitest.Root(t), "deploy", filepath.FromSlash(file)))
	must(t, err)
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096); ; {
		o := &unstructured.Unstructured{}
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		must(t, c.Create(t.Context(), o))
		t.Cleanup(func() { must(t, c.Delete(context.WithoutCancel(t.Context()), o)) })
	}
}

// await waits until the API server holds to a policy that was installed just now: try has to be denied with a message.
func await(t *testing.T, message string, try func() error) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := try()
		if err != nil && strings.Contains(err.Error(), message) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the policy is not in force: %v", err)
		}
	}
}

// calm waits until the API server holds no more to a policy that was deleted just now: the next test may need none.
func calm(t *testing.T, policy string, try func() error) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := try()
		if err == nil || !strings.Contains(err.Error(), policy) {
			return
		}
		if time.Now().After(end) {
			t.Errorf("the policy is still in force: %v", err)
			return
		}
	}
}

// retry repeats what has to succeed in the end.
func retry(t *testing.T, try func() error) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// denied checks that a request was denied by admission, with a message that says what to do.
func denied(t *testing.T, err error, want ...string) {
	t.Helper()
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		t.Errorf("not denied: %v", err)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the message lacks %q: %v", w, err)
		}
	}
}
