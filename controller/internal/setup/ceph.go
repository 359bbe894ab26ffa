package setup

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/agents/osd"
	cephbackend "quarry.storage/quarry/controller/internal/backend/ceph"
	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/execpod"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/cephname"
	osdlabel "quarry.storage/quarry/pkg/osd"
)

// osdDisks makes the calls about the disks of OSDs.
type osdDisks struct{ calls osd.Calls }

func (d osdDisks) of(device decide.Device, o cephbackend.OSD) osd.OSD {
	return osd.OSD{Device: device, ClusterUID: o.ClusterUID, UUID: o.UUID, FSID: o.FSID, ID: o.ID}
}

// Inspect says what a disk is to the Cluster.
func (d osdDisks) Inspect(ctx context.Context, node string, device decide.Device, o cephbackend.OSD) (osdlabel.Verdict, error) {
	return d.calls.Inspect(ctx, node, d.of(device, o))
}

// Prepare makes the disk the OSD.
func (d osdDisks) Prepare(ctx context.Context, node string, device decide.Device, o cephbackend.OSD, container string, fresh bool) error {
	return d.calls.Prepare(ctx, node, d.of(device, o), container, fresh)
}

// Zap makes the disk of the OSD clean.
func (d osdDisks) Zap(ctx context.Context, node string, device decide.Device, o cephbackend.OSD) error {
	return d.calls.Zap(ctx, node, d.of(device, o))
}

// monitors runs the program ceph in the pods of the monitors of each Cluster.
type monitors struct {
	pods  clients
	start execpod.Starter
	mu    sync.Mutex
	all   map[string]ceph.Runner
}

// runner returns what runs commands for the Cluster with a UID. There is one for each, so that no more commands run at once than it allows.
func (m *monitors) runner(uid string) ceph.Runner {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]ceph.Runner{}
	}
	if m.all[uid] == nil {
		m.all[uid] = execpod.New(execpod.Config{
			Pods: execpod.Monitors(m.pods.GetAPIReader(), uid), Container: cephname.ContainerMonitor, Start: m.start,
		})
	}
	return m.all[uid]
}

// sharedFilesystems makes the backend of Clusters of type cephfs.
func sharedFilesystems(m clients, pool *agents.Pool, start execpod.Starter) *cephbackend.Backend {
	runs := &monitors{pods: m, start: start}
	return cephbackend.New(cephbackend.Config{
		Agents: pool, Disks: osdDisks{osd.Calls{Pool: pool}}, Client: m.GetClient(), Live: m.GetAPIReader(), Runner: runs.runner,
	})
}

// remote starts programs in pods through the API server.
func remote(rc *rest.Config) (execpod.Starter, error) {
	start, err := execpod.Remote(rc)
	if err != nil {
		return nil, fmt.Errorf("make what runs programs in pods: %w", err)
	}
	return start, nil
}
