package agenttest_test

import (
	"context"
	"testing"

	"quarry.storage/quarry/agent/agenttest"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

func TestAgent_listsDisks(t *testing.T) {
	for name, opts := range map[string]agenttest.Options{"port": {}, "memory": {Network: &agenttest.Network{}}} {
		t.Run(name, func(t *testing.T) {
			a := agenttest.New(t, opts)
			path := a.AddDisk(agenttest.Disk{Name: "sdb"})
			client := agentv1.NewDeviceServiceClient(a.Dial(t))
			resp, err := client.ListDevices(context.Background(), &agentv1.ListDevicesRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if len(resp.GetDevices()) != 1 || resp.GetDevices()[0].GetPath() != path || len(resp.GetDevices()[0].GetRefusals()) != 0 {
				t.Errorf("devices: %v", resp.GetDevices())
			}
		})
	}
}
