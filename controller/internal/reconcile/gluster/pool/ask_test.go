package pool

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"quarry.storage/quarry/controller/internal/decide/gluster/drain"
	client "quarry.storage/quarry/controller/internal/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/gd2/cluster"
)

// TestAsk_ofAnotherBrick: a brick is decided on, and replaced meanwhile. Its successor has its path (w031), and nobody begins to replace that one.
func TestAsk_ofAnotherBrick(t *testing.T) {
	p := newPool(t, 4)
	p.volume("v", 2)
	seen, err := Observe(t.Context(), p.at[0])
	must(t, err)
	old := (*seen.Volumes)[0].Subvolumes[0].Bricks[0]
	d := drain.Decision{Action: drain.Ask, Peer: old.Peer, Move: &v1alpha1.GlusterMove{Brick: old.ID, Volume: "v", Path: old.Path, Request: v1alpha1.GlusterReplaceBrick}}
	for i := range p.nodes {
		d.Limit = append(d.Limit, p.id(i))
	}
	index := func(peer string) int {
		return slices.IndexFunc(p.nodes, func(n *cluster.Node) bool { return p.idOf(n) == peer })
	}
	if m, err := Ask(t.Context(), p.at[index(old.Peer)], d, *seen.Peers); err != nil || !m.Answered {
		t.Fatalf("%+v, %v", m, err)
	}
	seen, err = Observe(t.Context(), p.at[0])
	must(t, err)
	next := (*seen.Volumes)[0].Subvolumes[0].Bricks[0]
	if next.ID == old.ID || next.Path != old.Path {
		t.Fatalf("%+v was replaced by %+v", old, next)
	}
	var asked atomic.Int32
	for _, s := range p.servers {
		s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/replacebrick") {
				asked.Add(1)
			}
			return false
		})
	}
	for name, row := range map[string]struct {
		peer, at string
		kind     client.Kind
	}{
		"the old owner":                      {old.Peer, old.Peer, client.Absent},
		"the new owner, for the old":         {old.Peer, next.Peer, client.Refused},
		"the new owner, for itself":          {next.Peer, next.Peer, client.Absent},
		"nobody knows who the owner was":     {"", next.Peer, client.Unknown},
		"a peer that is not one of a server": {"x", next.Peer, client.Refused},
	} {
		d.Peer = row.peer
		m, err := Ask(t.Context(), p.at[index(row.at)], d, *seen.Peers)
		if err == nil || client.KindOf(err) != row.kind || m.Answered != (row.peer != "") || asked.Load() != 0 {
			t.Errorf("%s: %+v, %v, %d requests", name, m, err, asked.Load())
		}
	}
}
