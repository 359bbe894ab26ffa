package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/agent/internal/config"
	"quarry.storage/quarry/agent/internal/doctor"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// newAPIServer signs every request once the gate is open, and returns where it is and who vouches for it.
func newAPIServer(t *testing.T, ca *agenttest.CA, gate <-chan struct{}) (url, caFile string) {
	t.Helper()
	meta := map[string]string{"name": "x", "uid": "u"}
	var chain []byte
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]any{"metadata": meta}
		if r.Method == http.MethodPost {
			var object struct{ Spec struct{ Request []byte } }
			if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
				t.Errorf("body: %v", err)
				return
			}
			chain = ca.Sign(t, object.Spec.Request)
		} else {
			<-gate
			answer["status"] = map[string]any{"certificate": chain}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Errorf("answer: %v", err)
		}
	}))
	t.Cleanup(srv.Close)
	caFile = filepath.Join(t.TempDir(), "ca.crt")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(caFile, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	return srv.URL, caFile
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestRun starts the whole agent on an empty node, with everything real but the API server.
func TestRun(t *testing.T) {
	ca, gate, dir := agenttest.NewCA(t), make(chan struct{}), t.TempDir()
	api, caFile := newAPIServer(t, ca, gate)
	cfg := config.Config{
		NodeName: "node-1", Listen: freeAddress(t), Probe: freeAddress(t), LVMDir: filepath.Join(dir, "lvm"),
		LVMBinary: "/absent/lvm", SysDir: filepath.Join(dir, "sys"), DevDir: "/dev", UdevDir: filepath.Join(dir, "udev"), ProcDir: "/proc",
		WithoutUdev: true, MinDeviceBytes: 1 << 30, APIServer: api, TokenFile: filepath.Join(dir, "token"), CAFile: caFile,
	}
	err := errors.Join(os.MkdirAll(filepath.Join(cfg.SysDir, "class", "block"), 0o700), os.WriteFile(cfg.TokenFile, []byte("t"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, cfg) }()

	waitForProbe(t, cfg.Probe, "waiting for the serving certificate")
	if conn, err := net.Dial("tcp", cfg.Listen); err == nil {
		conn.Close()
		t.Error("gRPC is served before there is a certificate")
	}
	close(gate)
	waitForProbe(t, cfg.Probe, "ok")
	conn, err := grpc.NewClient("passthrough:///"+cfg.Listen, grpc.WithTransportCredentials(credentials.NewTLS(ca.ControllerTLS(t, "node-1"))))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	node, err := agentv1.NewNodeServiceClient(conn).GetNode(ctx, &agentv1.GetNodeRequest{}, grpc.WaitForReady(true))
	if err != nil || node.GetNodeName() != "node-1" || node.GetBootId() == "" || node.GetLvmError() == "" {
		t.Errorf("node: %v, %v", node, err)
	}
	devices, err := agentv1.NewDeviceServiceClient(conn).ListDevices(ctx, &agentv1.ListDevicesRequest{})
	if err != nil || len(devices.GetDevices()) != 0 {
		t.Errorf("devices: %v, %v", devices, err)
	}
	secondWaits(t, cfg)
	cancel()
	ended(t, done)
}

// secondWaits starts another agent on the same node: it serves nothing but probes, and stops when it is told to.
func secondWaits(t *testing.T, cfg config.Config) {
	t.Helper()
	cfg.Listen, cfg.Probe = freeAddress(t), freeAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, cfg) }()
	waitForProbe(t, cfg.Probe, "waiting for the agent that works on this node")
	if conn, err := net.Dial("tcp", cfg.Listen); err == nil {
		conn.Close()
		t.Error("two agents work on one node")
	}
	cancel()
	ended(t, done)
}

func ended(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("run: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the agent does not stop")
	}
}

// waitForProbe waits until the readiness probe says so.
func waitForProbe(t *testing.T, address, says string) {
	t.Helper()
	var body []byte
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			continue
		}
		body, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && strings.Contains(string(body), says) {
			return
		}
	}
	t.Fatalf("the probe says %q, not %q", body, says)
}

func TestTopics(t *testing.T) {
	for args, want := range map[string]struct {
		types []string
		code  int
	}{
		"":                   {doctor.Types, 0},
		"--for=nfs":          {[]string{"nfs"}, 0},
		"--for=iscsi,cephfs": {[]string{"iscsi", "cephfs"}, 0},
		"--for=fibre":        {nil, exitUsage},
		"--for=":             {nil, exitUsage},
		"lvm":                {nil, exitUsage},
		"--what":             {nil, exitUsage},
		"--help":             {nil, 0},
	} {
		types, code := topics(strings.Fields(args), io.Discard)
		if !slices.Equal(types, want.types) || code != want.code {
			t.Errorf("%q: %v, %d", args, types, code)
		}
	}
}
