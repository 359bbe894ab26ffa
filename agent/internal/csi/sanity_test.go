package csi_test

import (
	"testing"

	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/agent/internal/csi/sanitytest"
)

// TestSanity runs what the suite has on identity and node, over the model of a node. The whole suite runs on a lab node.
func TestSanity(t *testing.T) {
	host := csitest.NewHost(kubeletDir(t))
	client := start(t, host)
	controller := csitest.ServeController(t, client.endpoint, client, &csitest.Controller{Host: host})
	sanitytest.Run(t, sanitytest.Config{
		Endpoint: client.endpoint, ControllerEndpoint: controller,
		KubeletDir: client.dir, Handle: func(name string) string { return csitest.ID(name).String() }, VolumeBytes: 1 << 30, ExpandBytes: 2 << 30,
		Focus: []string{"Identity Service", "Node Service"},
	})
}
