package gluster

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/node"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	servers "quarry.storage/quarry/controller/internal/gluster"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/gluster/pool"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// greeting is how long a server may take to say who it is, and atOnce how many are asked at once. Those that hang keep nobody else from being asked for longer.
const (
	greeting = 5 * time.Second
	atOnce   = 64
)

// converse asks the servers who they are, chooses the one that speaks for the pool, and asks it. What nobody said stays unknown, and is no error.
func (r *Reconciler) converse(ctx context.Context, s *scope) error {
	// A volume is made before its PersistentVolume, so that what is named now is listed after.
	named := r.named(ctx, s)
	s.pool.Named = named
	if err := r.dial(ctx, s); err != nil {
		return err
	}
	s.greet(ctx)
	s.settle(ctx)
	if s.speaker == nil {
		if s.silence == "" {
			s.silence = "No server of the pool answers. " + s.denied
			if name := node.Awaited(s.candidates()); name != "" {
				s.silence = fmt.Sprintf("GlusterNode %s begins the pool, as it is the oldest, and its server does not answer. All others wait for it. %s", name, s.denied)
			}
		}
		s.vouch(named)
		return nil
	}
	told, err := pool.Observe(ctx, s.speaker.api)
	if err != nil {
		s.silence = unsaid(ctx, s.speaker, err)
	}
	s.pool = told
	s.vouch(named)
	return r.remember(ctx, s)
}

// deaf is the time between two passes after which nobody can say that the pool was heard without a break. A pass takes little more than a minute.
const deaf = 5 * time.Minute

// hearing is since when a pool was heard without a break, and when it was heard last.
type hearing struct{ since, last time.Time }

// hear notes whether somebody speaks for the pool. It is in memory alone: what another leader heard says nothing of the time in between.
func (r *Reconciler) hear(s *scope) {
	if s.silent() {
		r.heard.Delete(s.key)
		return
	}
	now := hearing{since: s.now, last: s.now}
	if v, ok := r.heard.Load(s.key); ok {
		if before, is := v.(hearing); is && s.now.Sub(before.last) <= deaf {
			now.since = before.since
		}
	}
	r.heard.Store(s.key, now)
	s.heard = now.since
}

// vouch adds which volumes are named to what the servers say. Of a server that is in no pool with others none is expected, if the pool lists them all.
func (s *scope) vouch(named *[]gluster.Named) {
	s.pool.Named = named
	own := named
	if _, unlisted := s.pool.Unlisted(); unlisted == gluster.No {
		own = &[]gluster.Named{}
	}
	for _, m := range s.members {
		if m.own != nil {
			m.own.Named = own
		}
	}
}

// unsaid says that a server did not tell everything. The error itself goes to the log: it is another one each time.
func unsaid(ctx context.Context, m *member, err error) string {
	logf.FromContext(ctx).V(1).Info("A server does not tell everything", "node", m.node.Name, "error", err.Error())
	if servers.KindOf(err) == servers.Denied {
		return fmt.Sprintf("The server of node %s does not accept the secret of the pool.", m.node.Name)
	}
	return fmt.Sprintf("The server of node %s does not tell everything that it is asked.", m.node.Name)
}

// dial finds out how servers are reached. Without their secret nobody can be asked.
func (r *Reconciler) dial(ctx context.Context, s *scope) error {
	auth, err := r.secret(ctx, s, workload.Auth(s.key.Name))
	if err != nil || auth == nil {
		s.denied = fmt.Sprintf("The secret of the servers cannot be read from the Secret %s.", workload.Auth(s.key.Name))
		return err
	}
	var ca []byte
	if pair := (&corev1.Secret{}); s.cluster == nil || s.cluster.Spec.GlusterCA != nil {
		if err := client.IgnoreNotFound(r.Live.Get(ctx, client.ObjectKey{Namespace: s.key.Namespace, Name: workload.TLS(s.key.Name)}, pair)); err != nil {
			return fmt.Errorf("get secret %s: %w", workload.TLS(s.key.Name), err)
		}
		if ca = pair.Data[workload.KeyCA]; len(ca) == 0 && s.cluster != nil {
			// Servers with TLS are never asked without: the token would be read by whoever is in between.
			s.denied = "There is no certificate of the servers yet."
			return nil
		}
	}
	s.at, err = r.Dial(auth.Data[workload.KeyAuth], ca)
	if err != nil {
		return fmt.Errorf("reach the servers of %s: %w", s.key, err)
	}
	return nil
}

// greet asks every server who it is.
func (s *scope) greet(ctx context.Context) {
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, m := range s.members {
		if s.at == nil {
			continue
		}
		address := workload.ClientAddress(m.node)
		if !m.ours() {
			address = external(m.node.Spec.External.Address)
		}
		api, err := s.at(address)
		if err != nil {
			continue
		}
		m.api = api
		all.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, greeting)
			defer cancel()
			if who, err := api.Identify(ctx); err == nil {
				m.says = who
			}
			return nil
		})
	}
	_ = all.Wait()
	for _, m := range s.members {
		m.answers = s.answers(m)
	}
}

// external is the address of the API of a server that somebody else runs. Without a port it is the usual one.
func external(address string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(address, strconv.Itoa(workload.ClientPort))
}

// answers says whether the server of a node is there. One that does not answer is down only if Kubernetes says so, too.
func (s *scope) answers(m *member) gluster.Answer {
	switch {
	case !m.ours():
		return gluster.Of(m.says.Peer != "")
	case m.itself():
		return gluster.Yes
	case m.says.Peer != "":
		return gluster.Unknown
	case !podReady(s.pods[workload.Pod(m.node.Name)]):
		return gluster.No
	}
	return gluster.Unknown
}

// settle chooses who speaks for the pool. Only servers of the pool on record are asked. Before there is a record, servers that say that they are in one pool
// are, and if there are none, the oldest node begins it.
func (s *scope) settle(ctx context.Context) {
	var conflict bool
	if s.record, conflict = s.recorded(); conflict {
		s.silence = "The nodes are on record as members of different pools, and nobody can say which is the right one."
		return
	}
	name, begins := node.Speaker(s.candidates())
	if s.speaker = s.named(name); s.speaker != nil && begins {
		s.record = s.speaker.says.Cluster
	}
	for _, m := range s.members {
		if m != s.speaker && m.itself() && (s.speaker == nil || m.says.Cluster != s.record) {
			// It is in no pool, or in another one. Whatever it has is said by itself.
			m.own = s.alone(ctx, m)
		}
	}
}

// candidates are the nodes that may speak for the pool.
func (s *scope) candidates() []node.Candidate {
	var all []node.Candidate
	for _, m := range s.members {
		if !m.ours() || m.conflict {
			continue
		}
		joined := s.record != "" && (m.node.Spec.Pool == s.record || m.itself() && m.says.Cluster == s.record)
		answer := m.answers
		if joined && m.says.Cluster != s.record {
			answer = gluster.No
		}
		all = append(all, node.Candidate{
			Name: m.node.Name, Created: m.node.CreationTimestamp.Time, Joined: joined, Answer: answer, Condemned: m.condemned() || m.node.Status.Joined && !joined,
		})
	}
	return all
}

// alone asks a server about itself that is in no pool with others.
func (s *scope) alone(ctx context.Context, m *member) *gluster.Pool {
	told, err := pool.Observe(ctx, m.api)
	if err != nil || told.Peers == nil || len(*told.Peers) != 1 {
		return nil
	}
	return &told
}

// recorded is the pool that nodes are on record as members of, or that several servers say they are in. It reports whether there is more than one.
func (s *scope) recorded() (record string, conflict bool) {
	said := map[string]int{}
	for _, m := range s.members {
		if p := m.node.Spec.Pool; p != "" && record != "" && p != record {
			return "", true
		} else if p != "" {
			record = p
		}
		if m.ours() && m.itself() && m.says.Cluster != "" {
			said[m.says.Cluster]++
		}
	}
	if record != "" {
		return record, false
	}
	for id, n := range said {
		if n > 1 && record != "" {
			return "", true
		} else if n > 1 {
			record = id
		}
	}
	return record, false
}

// remember puts on record which nodes are members of the pool.
func (r *Reconciler) remember(ctx context.Context, s *scope) error {
	for _, m := range s.members {
		if _, listed := s.pool.Peer(m.peer()); listed != gluster.Yes || !m.ours() || m.conflict || m.node.Spec.Pool != "" || s.record == "" || m.elsewhere(s.record) {
			continue
		}
		m.node.Status.Joined = true
		if _, err := kube.Patch(ctx, r.Client, m.node, func(n *v1alpha1.GlusterNode) { n.Spec.Pool = s.record }); err != nil {
			return err
		}
	}
	return nil
}

// told is what is said about a node: by the pool that it is in, or by its own server if it is in none.
func (s *scope) told(m *member) gluster.Pool {
	_, listed := s.pool.Peer(m.peer())
	switch {
	case m.conflict:
		return gluster.Pool{}
	case m.own != nil:
		return *m.own
	case m.elsewhere(s.record):
		return gluster.Pool{}
	case m.node.Spec.Pool != "" && m.node.Spec.Pool == s.record, listed == gluster.Yes:
		return s.pool
	}
	return gluster.Pool{}
}

// elsewhere reports whether the server says that it is not in the pool on record: somebody took it out, or it never was in it.
func (m *member) elsewhere(record string) bool {
	return record != "" && m.itself() && m.says.Cluster != record
}
