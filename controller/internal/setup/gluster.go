package setup

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/decide/gluster/csi"
	servers "quarry.storage/quarry/controller/internal/gluster"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/driver"
	"quarry.storage/quarry/controller/internal/reconcile/gluster"
)

// glusterClusters adds the reconciler of GlusterClusters and GlusterNodes.
func glusterClusters(mgr manager.Manager, pool *agents.Pool, images driver.Images) error {
	r := &gluster.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("quarry-controller"), Dial: dialServers,
		Agents:   pool,
		Sidecars: csi.Sidecars{Provisioner: images[driver.Provisioner], Attacher: images[driver.Attacher], Registrar: images[driver.Registrar]},
		Now:      time.Now, Suffix: nodeSuffix, Secret: serverSecret,
	}
	if err := r.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("add reconciler of glusterclusters: %w", err)
	}
	return nil
}

// records read GlusterNodes, which say whose devices of hosts are: from the API server itself, and from a cache.
type records struct {
	api    client.Reader
	cached cache.Cache
}

// recordsOf returns how GlusterNodes are read, by whoever looks after them. The cache is one of their own: no controller waits for it.
func recordsOf(mgr manager.Manager) (records, error) {
	api, err := kube.NewGlusterNodeAPI(mgr.GetConfig(), mgr.GetScheme())
	if err != nil {
		return records{}, fmt.Errorf("make reader of glusternodes: %w", err)
	}
	cached, err := kube.NewGlusterNodeCache(mgr.GetConfig(), mgr.GetScheme())
	if err != nil {
		return records{}, fmt.Errorf("make cache of glusternodes: %w", err)
	}
	if err := mgr.Add(manager.RunnableFunc(cached.Start)); err != nil {
		return records{}, fmt.Errorf("add cache of glusternodes: %w", err)
	}
	return records{api, cached}, nil
}

// dialServers returns how glusterd2 servers with a secret are reached.
func dialServers(secret, ca []byte) (func(address string) (servers.API, error), error) {
	c, err := servers.New(servers.Config{Secret: secret, CA: ca})
	if err != nil {
		return nil, err
	}
	return func(address string) (servers.API, error) { return c.At(address) }, nil
}

// nodeSuffix is the end of the name of a node. A name stands for data, so none is ever used twice: it has 40 random bits.
func nodeSuffix() string { return strings.ToLower(rand.Text()[:8]) }

// serverSecret is a secret as glusterd2 makes it: 64 hexadecimal digits.
func serverSecret() string {
	var b [32]byte
	// It never fails: the runtime ends the process when the kernel has no randomness.
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
