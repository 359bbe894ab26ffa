package gluster_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/gluster"
	"quarry.storage/quarry/test/gd2"
	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/volume"
)

const secret = "a secret with a newline at its end\n"

// pool is a cluster of Gluster servers, gd1 and so on, that are reached with a secret and by TLS.
type pool struct {
	t       *testing.T
	world   *cluster.World
	nodes   []*cluster.Node
	servers []*gd2.Server
	at      []string
	ca      []byte
	client  *gluster.Client
}

// newPool makes servers, of which the first has the others for peers. Each has a zone of its own and a disk at /dev/vdb.
func newPool(t *testing.T, n int) *pool {
	t.Helper()
	p := &pool{t: t, world: cluster.New(cluster.Config{HealTime: 50 * time.Millisecond, LeaveTime: time.Second})}
	t.Cleanup(p.world.Close)
	cert, ca := certificate(t)
	p.ca = ca
	for i := range n {
		p.open(i+1, cert)
	}
	p.client = p.newClient(gluster.Config{Secret: []byte(secret), CA: ca, Timeout: 5 * time.Second})
	for i := 1; i < n; i++ {
		if _, err := p.server(0).AddPeer(t.Context(), []string{p.nodes[i].PeerAddress}, fmt.Sprintf("z%d", i+1), nil); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *pool) open(i int, cert *tls.Certificate) {
	p.t.Helper()
	n := p.world.Add(cluster.NodeConfig{
		Name: fmt.Sprintf("gd%d", i), PeerAddress: fmt.Sprintf("10.0.0.%d:24008", i), ClientAddress: fmt.Sprintf("10.0.0.%d:24007", i), Secret: []byte(secret),
		Disk: &cluster.Disk{Blocks: map[string]*cluster.Block{"/dev/vdb": {Size: 10 << 30}, "/dev/vdc": {Size: 10 << 30, Signature: true}}},
	})
	n.Start()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { l.Close() })
	s := &gd2.Server{World: p.world, Node: n}
	go func() {
		if err := s.Serve(l, cert); err != nil {
			p.t.Error(err)
		}
	}()
	p.nodes, p.servers, p.at = append(p.nodes, n), append(p.servers, s), append(p.at, l.Addr().String())
}

func (p *pool) newClient(cfg gluster.Config) *gluster.Client {
	p.t.Helper()
	c, err := gluster.New(cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

func (p *pool) server(i int) *gluster.Server {
	p.t.Helper()
	s, err := p.client.At(p.at[i])
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *pool) id(i int) (id string) {
	p.world.Do(func() { id = p.nodes[i].ID() })
	return id
}

// call does something inside the model.
func (p *pool) call(do func(*cluster.Call)) {
	c := p.world.Begin(p.nodes[0])
	defer c.End()
	do(c)
}

// volume makes a volume v by size on devices of two servers, and starts it.
func (p *pool) volume() {
	p.t.Helper()
	p.call(func(c *cluster.Call) {
		_, f := volume.Create(c, volume.CreateRequest{Name: "v", Size: 400 << 20, Replica: 2})
		if f == nil {
			_, f = volume.Start(c, "v", volume.StartRequest{})
		}
		if f != nil {
			p.t.Fatal(f.Errors)
		}
	})
}

// devices registers the disk of each server.
func (p *pool) devices() {
	p.t.Helper()
	for i := range p.nodes {
		if err := p.server(0).AddDevice(p.t.Context(), p.id(i), "/dev/vdb"); err != nil {
			p.t.Fatal(err)
		}
	}
}

// wantKind fails unless an error is of a kind.
func wantKind(t *testing.T, err error, kind gluster.Kind, pending bool) {
	t.Helper()
	var e *gluster.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want one of the kind %s", err, kind)
	}
	if e.Kind != kind || e.Pending != pending {
		t.Errorf("kind %s, pending %v, want %s, %v: %s", e.Kind, e.Pending, kind, pending, err)
	}
}

func certificate(t *testing.T) (*tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// answers has the first server answer with what is given, whatever is asked.
func (p *pool) answers(do http.HandlerFunc) {
	p.servers[0].Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		do(w, r)
		return true
	})
}

// calls are all calls of the API, with what they ask for.
func calls(id string) map[string]func(context.Context, gluster.API) error {
	return map[string]func(context.Context, gluster.API) error{
		"Identify": func(ctx context.Context, s gluster.API) error { _, err := s.Identify(ctx); return err },
		"Peers":    func(ctx context.Context, s gluster.API) error { _, err := s.Peers(ctx); return err },
		"PeerGone": func(ctx context.Context, s gluster.API) error { _, err := s.PeerGone(ctx, id); return err },
		"AddPeer": func(ctx context.Context, s gluster.API) error {
			_, err := s.AddPeer(ctx, []string{"10.0.0.9"}, "z", nil)
			return err
		},
		"EditPeer":     func(ctx context.Context, s gluster.API) error { return s.EditPeer(ctx, id, "z", nil) },
		"RemovePeer":   func(ctx context.Context, s gluster.API) error { return s.RemovePeer(ctx, id) },
		"Devices":      func(ctx context.Context, s gluster.API) error { _, err := s.Devices(ctx, id); return err },
		"AddDevice":    func(ctx context.Context, s gluster.API) error { return s.AddDevice(ctx, id, "/dev/vdb") },
		"EnableDevice": func(ctx context.Context, s gluster.API) error { return s.EnableDevice(ctx, id, "/dev/vdb", false) },
		"Volumes":      func(ctx context.Context, s gluster.API) error { _, err := s.Volumes(ctx); return err },
		"Volume":       func(ctx context.Context, s gluster.API) error { _, err := s.Volume(ctx, "v"); return err },
		"Bricks":       func(ctx context.Context, s gluster.API) error { _, err := s.Bricks(ctx, "v"); return err },
		"Heal":         func(ctx context.Context, s gluster.API) error { _, err := s.Heal(ctx, "v"); return err },
		"StartHeal":    func(ctx context.Context, s gluster.API) error { return s.StartHeal(ctx, "v") },
		"ReplaceBrick": func(ctx context.Context, s gluster.API) error {
			return s.ReplaceBrick(ctx, gluster.Replacement{Volume: "v", Brick: id, Peer: id, Path: "/b"})
		},
		"Snapshots":      func(ctx context.Context, s gluster.API) error { _, err := s.Snapshots(ctx); return err },
		"ClusterOptions": func(ctx context.Context, s gluster.API) error { _, err := s.ClusterOptions(ctx); return err },
		"SetClusterOptions": func(ctx context.Context, s gluster.API) error {
			return s.SetClusterOptions(ctx, map[string]string{"a": "b"})
		},
		"VolumeOption": func(ctx context.Context, s gluster.API) error {
			_, err := s.VolumeOption(ctx, "v", gluster.SelfHeal)
			return err
		},
		"SetVolumeOptions": func(ctx context.Context, s gluster.API) error {
			return s.SetVolumeOptions(ctx, "v", map[string]string{"a": "b"})
		},
	}
}
