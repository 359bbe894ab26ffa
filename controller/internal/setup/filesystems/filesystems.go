// Package filesystems puts together what Clusters of type cephfs need: what asks Ceph in the pods of its monitors, and what has agents work on the disks of OSDs.
package filesystems

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/agentpod"
	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/agents/osd"
	cephbackend "quarry.storage/quarry/controller/internal/backend/ceph"
	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/execpod"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/ceph/preflight"
	"quarry.storage/quarry/pkg/cephname"
	osdlabel "quarry.storage/quarry/pkg/osd"
)

// Disks makes the calls about the disks of OSDs.
type Disks struct{ Calls osd.Calls }

func (d Disks) of(device decide.Device, o cephbackend.OSD) osd.OSD {
	return osd.OSD{Device: device, ClusterUID: o.ClusterUID, UUID: o.UUID, FSID: o.FSID, ID: o.ID, Encrypted: o.Encrypted, Key: o.Key, Making: o.Making}
}

// Inspect says what a disk is to the Cluster.
func (d Disks) Inspect(ctx context.Context, node string, device decide.Device, o cephbackend.OSD) (osdlabel.Verdict, error) {
	return d.Calls.Inspect(ctx, node, d.of(device, o))
}

// Clock says how far the clock of a node is ahead of this one.
func (d Disks) Clock(ctx context.Context, node string) (preflight.Clock, error) {
	return d.Calls.Clock(ctx, node)
}

// Prepare makes the disk the OSD.
func (d Disks) Prepare(ctx context.Context, node string, device decide.Device, o cephbackend.OSD, container string, fresh bool) error {
	return d.Calls.Prepare(ctx, node, d.of(device, o), container, fresh)
}

// Zap makes the disk of the OSD clean.
func (d Disks) Zap(ctx context.Context, node string, device decide.Device, o cephbackend.OSD) error {
	return d.Calls.Zap(ctx, node, d.of(device, o))
}

// Monitors runs the program ceph in the pods of the monitors of each Cluster.
type Monitors struct {
	pods  client.Reader
	start execpod.Starter
	mu    sync.Mutex
	all   map[string]ceph.Runner
}

// NewMonitors makes one that finds pods by a reader of the API server itself.
func NewMonitors(pods client.Reader, start execpod.Starter) *Monitors {
	return &Monitors{pods: pods, start: start}
}

// Runner returns what runs commands for the Ceph cluster with an FSID. There is one for each, so that no more commands run at once than it allows.
func (m *Monitors) Runner(fsid string) ceph.Runner {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]ceph.Runner{}
	}
	if m.all[fsid] == nil {
		m.all[fsid] = execpod.New(execpod.Config{
			Pods: execpod.Monitors(m.pods, fsid), Container: cephname.ContainerMonitor, Start: m.start,
		})
	}
	return m.all[fsid]
}

// Clients gives a client, and a reader that always asks the API server, as a manager does.
type Clients interface {
	GetClient() client.Client
	GetAPIReader() client.Reader
}

// Backend makes the backend of Clusters of type cephfs. start runs programs in pods; the agents run in the namespaces.
func Backend(m Clients, pool *agents.Pool, start execpod.Starter, namespaces []string) *cephbackend.Backend {
	runs := NewMonitors(m.GetAPIReader(), start)
	return cephbackend.New(cephbackend.Config{
		Agents: pool, Disks: Disks{osd.Calls{Pool: pool}}, Client: m.GetClient(), Live: m.GetAPIReader(), Runner: runs.Runner, AgentImage: AgentImage(m.GetAPIReader(), namespaces),
	})
}

// AgentImage returns what finds the image that the agent of a node runs. The reader is one of the API server itself: a cache drops the images of pods.
func AgentImage(live client.Reader, namespaces []string) func(context.Context, string) (string, error) {
	return func(ctx context.Context, node string) (string, error) {
		p, err := agentpod.Newest(ctx, live, namespaces, node)
		if p == nil || err != nil {
			return "", err
		}
		return agentpod.Image(p), nil
	}
}
