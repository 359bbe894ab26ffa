// Package apitest starts a real API server for tests: kube-apiserver and etcd with the project's own CRDs. It is for tests only.
package apitest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// assets is the variable that names the directory of kube-apiserver and etcd; `make` sets it.
const assets = "KUBEBUILDER_ASSETS"

// startLimit is how long the API server may take to start, and to stop.
const startLimit = 2 * time.Minute

// percent is how much garbage there may be beside what is in use, and limit how many bytes before it is collected anyway.
const percent, limit = 400, 640 << 20

// server of the package under test; nil without assets.
var server *envtest.Environment

// Main starts the API server, runs the tests of a package and stops it: `func TestMain(m *testing.M) { apitest.Main(m) }`.
func Main(m *testing.M) {
	logf.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv(assets) == "" {
		return m.Run()
	}
	root, err := moduleRoot()
	if err != nil {
		fmt.Fprintln(os.Stderr, "apitest:", err)
		return 1
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join(root, "deploy", "crd")}, ErrorIfCRDPathMissing: true}
	// Tests may run with what others leave of the processors.
	env.ControlPlaneStartTimeout, env.ControlPlaneStopTimeout = startLimit, startLimit
	env.ControlPlane.GetAPIServer().Configure().Append("enable-admission-plugins", "ValidatingAdmissionPolicy")
	// Nothing outlives the tests. envtest sets the flag only where the help of etcd lists it, and Debian's does not.
	env.ControlPlane.Etcd = &envtest.Etcd{}
	env.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true")
	if err := thrifty(func() error { _, err := env.Start(); return err }); err != nil {
		fmt.Fprintln(os.Stderr, "apitest: start api server:", err)
		return 1
	}
	server = env
	// The tests, too, as far as nobody says otherwise.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
	code := m.Run()
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "apitest: stop api server:", err)
	}
	cost()
	tellRequests()
	return code
}

// thrifty starts processes that collect garbage less often than Go does by default: for the few objects of tests, an API server would do little else.
func thrifty(start func() error) error {
	for name, value := range map[string]string{"GOGC": strconv.Itoa(percent), "GOMEMLIMIT": strconv.Itoa(limit)} {
		if before, ok := os.LookupEnv(name); ok {
			defer func() { _ = os.Setenv(name, before) }()
		} else {
			defer func() { _ = os.Unsetenv(name) }()
		}
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return start()
}

// cost tells what the tests took of the processors: most of it is what the API server does for them.
func cost() {
	seconds := func(who int) float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			return 0
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	}
	fmt.Printf("apitest: the tests took %.1f s of processor time, the API server and etcd %.1f s\n", seconds(syscall.RUSAGE_SELF), seconds(syscall.RUSAGE_CHILDREN))
}

// Config returns how to reach the API server, and skips the test when there is none.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	if server == nil {
		t.Skip("needs a kube-apiserver and etcd: set " + assets + ", as `make test` does")
	}
	return count(rest.CopyConfig(server.Config))
}

// Client returns a client that reads from the API server directly.
func Client(t testing.TB) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(Config(t), client.Options{Scheme: Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Scheme knows the kinds of Kubernetes and of this project.
func Scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Kubeconfig writes a file that lets kubectl reach the API server, and returns its path.
func Kubeconfig(t testing.TB) string {
	t.Helper()
	Config(t)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, server.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Root returns the directory of the module.
func Root(t testing.TB) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above the working directory")
		}
		dir = parent
	}
}

// Refused makes an object that the API server is to refuse, and wants a text in the message. One that is taken is removed again.
func Refused(t testing.TB, c client.Client, o client.Object, want string) {
	t.Helper()
	err := c.Create(t.Context(), o)
	if err == nil {
		_ = c.Delete(context.WithoutCancel(t.Context()), o)
		t.Fatal("accepted")
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("the message lacks %q: %v", want, err)
	}
}
