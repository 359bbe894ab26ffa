// Package frametest helps to test CSI drivers over package frame: it serves one on a socket, runs csi-sanity against it, and has a
// model of a storage with everything that the frame can serve.
package frametest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/csi/frame"
)

// Served is a driver on a socket, and the clients of its services.
type Served struct {
	csi.ControllerClient
	csi.IdentityClient
	// Socket that it listens on.
	Socket string
}

// Serve serves a driver until the test ends. The reader knows the PersistentVolumes and the VolumeSnapshotContents.
func Serve(t *testing.T, d frame.Driver, b frame.Backend, r client.Reader) *Served {
	t.Helper()
	return ServeBehind(t, d, b, r, r)
}

// ServeBehind is Serve with a cache that may know less than the API server.
func ServeBehind(t *testing.T, d frame.Driver, b frame.Backend, cache, live client.Reader) *Served {
	t.Helper()
	s := &Served{Socket: socketPath(t)}
	ctx, cancel := context.WithCancel(t.Context())
	server := frame.New(frame.Config{Version: "test", Socket: s.Socket, Reader: cache, Live: live}, d, b)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		done <- server.Start(ctx)
	}()
	awaitSocket(ctx, s.Socket)
	conn, err := grpc.NewClient("unix://"+s.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	s.ControllerClient, s.IdentityClient = csi.NewControllerClient(conn), csi.NewIdentityClient(conn)
	// A server that cannot start ends the context.
	if _, err := s.Probe(ctx, &csi.ProbeRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	return s
}

// awaitSocket waits for the socket: a client that comes too early tries again after a second only.
func awaitSocket(ctx context.Context, socket string) {
	for ctx.Err() == nil {
		if _, err := os.Stat(socket); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// socketPath is short, whatever the name of the test: the system limits the paths of sockets.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "csi.sock")
}
