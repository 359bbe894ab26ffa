package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/remote"
)

// free is an address that nobody listens at.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestGlusterd starts with the arguments of glusterd2. It comes up once etcd answers, asks for the secret that is in its state, and has the devices of the directory.
func TestGlusterd(t *testing.T) {
	w := cluster.New(cluster.Config{})
	defer w.Close()
	hub := httptest.NewServer(remote.NewHub(w))
	defer hub.Close()
	asked := make(chan string, 100)
	etcd := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if asked <- r.URL.Path; len(asked) < 2 {
			out.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer etcd.Close()
	state, devices := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(state, "auth"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(devices, "d"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(devices, "d"), 1<<30); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GD2_PEER_ID", "0a0a0a0a-1b1b-4c4c-8d8d-2e2e2e2e2e2e")
	client := free(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- glusterd(ctx, []string{
			"--localstatedir=" + state, "--rundir=/run", "--logdir=/log", "--clientaddress=" + client, "--peeraddress=" + free(t), "--noembed=true",
			"--etcdendpoints=http://127.0.0.1:1," + etcd.URL,
		}, hub.URL, devices)
	}()
	status := func(path string) int {
		resp, err := http.Get("http://" + client + path)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for deadline := time.Now().Add(20 * time.Second); status("/ping") != http.StatusOK; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come up")
		}
	}
	if got := status("/v1/peers"); got != http.StatusUnauthorized || len(asked) < 2 {
		t.Errorf("status %d without a token, and etcd was asked %d times", got, len(asked))
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	got, err := blockDevices(devices)
	if want := fmt.Sprintf("%s=%d", filepath.Join(devices, "d"), 1<<30); err != nil || got != want {
		t.Errorf("%q, want %q, %v", got, want, err)
	}
}

// TestAnswer resolves a name as Go's own resolver asks for it.
func TestAnswer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "names")
	if err := os.WriteFile(file, []byte("n-0.pool-gluster.here.svc 10.244.1.7\ngd2-hub 10.244.2.3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	at := free(t)
	done := make(chan error, 1)
	go func() { done <- names(ctx, []string{"-listen", at, "-file", file}) }()
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", at)
	}}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if got, _ := r.LookupHost(t.Context(), "gd2-hub."); len(got) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not listen")
		}
	}
	for name, want := range map[string]string{
		"n-0.pool-gluster.here.svc": "[10.244.1.7]", "n-0.pool-gluster.here.svc.cluster.local.": "[10.244.1.7]", "gd2-hub.": "[10.244.2.3]", "other.here.svc.": "[]",
	} {
		got, _ := r.LookupHost(t.Context(), name)
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestRun_refuses: what the stand-in does not know ends it, as an argument that glusterd2 does not know ends that.
func TestRun_refuses(t *testing.T) {
	for want, args := range map[string][]string{
		"say hub or node": {}, "flag provided but not defined": {"--nonsense=1"}, "no etcd but an own one": {"--localstatedir=/x"},
	} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
