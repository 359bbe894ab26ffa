package rights

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// as returns a client for a user with these groups.
func as(t *testing.T, user string, groups ...string) client.Client {
	t.Helper()
	cfg := apitest.Config(t)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	c, err := client.New(cfg, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCheck(t *testing.T) {
	role := Role{Name: "the-role", Controller: "it", Reads: []Resource{{Name: "pods"}, {Group: "apps", Name: "deployments"}}}
	err := Check(t.Context(), as(t, "somebody", "system:authenticated"), role, time.Second)
	for _, part := range []string{"list pods", "bind the ClusterRole the-role", "--controllers=*,-it"} {
		if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), part) {
			t.Errorf("without the right: %v, and no %q", err, part)
		}
	}
	if err := Check(t.Context(), as(t, "somebody", "system:masters"), role, time.Second); err != nil {
		t.Errorf("with all rights: %v", err)
	}
	if err := Check(t.Context(), as(t, "system:anonymous", "system:unauthenticated"), role, time.Second); err != nil {
		t.Errorf("who may not even ask is not told to have no right: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Check(ended, as(t, "somebody", "system:authenticated"), role, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("at the end: %v", err)
	}
}
