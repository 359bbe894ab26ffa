package csi_test

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/agent/internal/csi/sanitytest"
)

// TestSanity runs what the suite has on identity and node, over the model of a node. The whole suite runs on a lab node.
func TestSanity(t *testing.T) {
	host := csitest.NewHost(kubeletDir(t))
	client := start(t, host)

	controller := filepath.Join(filepath.Dir(client.endpoint), "controller.sock")
	listener, err := net.Listen("unix", controller)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	csi.RegisterIdentityServer(g, &csitest.Identity{Client: client})
	csi.RegisterControllerServer(g, &csitest.Controller{Host: host})
	go func() {
		if err := g.Serve(listener); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(g.Stop)

	sanitytest.Run(t, sanitytest.Config{
		Endpoint: client.endpoint, ControllerEndpoint: controller,
		KubeletDir: client.dir, Handle: func(name string) string { return csitest.ID(name).String() }, VolumeBytes: 1 << 30, ExpandBytes: 2 << 30,
		Focus: []string{"Identity Service", "Node Service"},
	})
}
