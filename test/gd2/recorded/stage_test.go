package recorded

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"quarry.storage/quarry/test/gd2"
	"quarry.storage/quarry/test/gd2/cluster"
)

// stage has the servers of one recording, and the time.
type stage struct {
	t     *testing.T
	world *cluster.World
	clock *clocktesting.FakeClock
	cmp   *comparison
	// next are the IDs that the server makes up next.
	idLock sync.Mutex
	next   []string
	// open is how many requests have no answer yet.
	open atomic.Int32

	servers map[string]*door
	// offline is when each server was first seen offline after its end.
	ended, offline map[string]time.Time
}

// door is where a server is reached: closed as long as it does not run.
type door struct {
	server *gd2.Server
	cert   *tls.Certificate

	listener net.Listener
	address  string
}

func newStage(t *testing.T, start time.Time, cfg cluster.Config) *stage {
	s := &stage{t: t, clock: clocktesting.NewFakeClock(start), cmp: newComparison(), servers: map[string]*door{}, ended: map[string]time.Time{}, offline: map[string]time.Time{}}
	cfg.Clock, cfg.IDs = s.clock, s.id
	s.world = cluster.New(cfg)
	t.Cleanup(func() {
		s.world.Close()
		for _, d := range s.servers {
			d.close()
		}
	})
	return s
}

func (d *door) close() {
	if d.listener != nil {
		d.listener.Close()
		d.listener = nil
	}
}

// add puts a server onto the stage.
func (s *stage) add(cfg cluster.NodeConfig) *cluster.Node {
	n := s.world.Add(cfg)
	s.servers[cfg.Name] = &door{server: &gd2.Server{World: s.world, Node: n}}
	return n
}

// url opens or closes the door of a server, as it runs or not, and returns where it is.
func (s *stage) url(name string) string {
	d := s.servers[name]
	runs := false
	s.world.Do(func() { runs = d.server.Node.Runs() })
	if !runs {
		d.close()
		if d.address == "" {
			d.address = "127.0.0.1:1"
		}
	}
	if runs && d.listener == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.t.Fatal(err)
		}
		d.listener, d.address = l, l.Addr().String()
		go func() {
			if err := d.server.Serve(l, d.cert); err != nil {
				s.t.Error(err)
			}
		}()
	}
	if d.cert != nil {
		return "https://" + d.address
	}
	return "http://" + d.address
}

// result is what a request came to.
type result struct {
	status  int
	headers http.Header
	body    []byte
	err     error
	took    time.Duration
}

// sent is a request that is under way.
type sent struct {
	done   chan result
	cancel context.CancelFunc
	begun  time.Time
	// before is how many requests had arrived when this one was sent.
	before int
}

// send sends a request, and does not wait.
func (s *stage) send(node, method, target, body string, headers map[string]string, client *http.Client) *sent {
	ctx, cancel := context.WithCancel(context.Background())
	out := &sent{done: make(chan result, 1), cancel: cancel, begun: s.clock.Now(), before: s.world.Load().Begun}
	req, err := http.NewRequestWithContext(ctx, method, s.url(node)+target, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Close = true
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	if client == nil {
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	s.open.Add(1)
	go func() {
		// An answer counts as under way until it is there to be read.
		defer s.open.Add(-1)
		resp, err := client.Do(req)
		if err != nil {
			out.done <- result{err: err}
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		out.done <- result{status: resp.StatusCode, headers: resp.Header, body: text, err: err}
	}()
	return out
}

// arrive waits until a request is at its server.
func (s *stage) arrive(r *sent) *sent {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if s.world.Load().Begun > r.before {
			return r
		}
		if time.Now().After(deadline) {
			s.t.Fatal("a request does not arrive")
		}
	}
}

// await lets time pass until an answer is there, and gives up after a time.
func (s *stage) await(r *sent, limit time.Duration) result {
	defer r.cancel()
	for deadline := time.Now().Add(patience); ; {
		if time.Now().After(deadline) {
			s.t.Fatalf("no time passes: %d requests have no answer, and the servers say %+v", s.open.Load(), s.world.Load())
		}
		select {
		case out := <-r.done:
			out.took = s.clock.Now().Sub(r.begun)
			return out
		default:
		}
		// No time passes for a request that is on its way, for one that a server works on, or for an answer on its way back.
		if !s.quiet() || s.world.Load().Begun <= r.before || len(r.done) > 0 {
			continue
		}
		if s.clock.Now().Sub(r.begun) >= limit {
			return result{err: errTimeout, took: s.clock.Now().Sub(r.begun)}
		}
		s.step(r.begun)
	}
}

// patience is how long, by the real clock, an answer may take: some steps for each second of the other one.
const patience = 5 * time.Minute

var errTimeout = errors.New("no answer")

// quiet reports whether every request waits at a server. What is on its way is given a moment.
func (s *stage) quiet() bool {
	before := s.world.Load()
	time.Sleep(3 * time.Millisecond)
	// The order matters: a request that ends between the two reads only makes fewer wait than are open.
	open := int(s.open.Load())
	now := s.world.Load()
	return before.Busy == 0 && now.Busy == 0 && now.Begun == before.Begun && now.Waiting >= open
}

// step lets a little time pass: the more, the longer a request waits already.
func (s *stage) step(since time.Time) {
	d := 10 * time.Millisecond
	if waited := s.clock.Now().Sub(since); waited > 100*time.Millisecond {
		d = min(waited/10, 500*time.Millisecond)
	}
	s.pass(d)
}

func (s *stage) pass(d time.Duration) {
	s.clock.Step(d)
	s.world.Do(func() {
		for name := range s.ended {
			n := s.servers[name].server.Node
			if _, seen := s.offline[name]; !seen && n.Cluster() != nil && !n.Cluster().Alive(n.ID()) {
				s.offline[name] = s.clock.Now()
			}
		}
	})
}

// settle waits until nothing is done that could be done without time.
func (s *stage) settle() {
	for deadline := time.Now().Add(5 * time.Second); !s.quiet(); {
		if time.Now().After(deadline) {
			s.t.Fatal("the servers do not come to rest")
		}
	}
}

// do makes a request that was not recorded, and which has to succeed.
func (s *stage) do(node, line, body string) {
	s.t.Helper()
	method, target, _ := strings.Cut(line, " ")
	r := s.await(s.send(node, method, target, body, nil, nil), time.Minute)
	if r.err != nil || r.status/100 != 2 {
		s.t.Fatalf("%s: %s: status %d %s %v", node, line, r.status, r.body, r.err)
	}
}

// id makes up an ID: the one that the recording says is next, else a new one.
func (s *stage) id() string {
	s.idLock.Lock()
	defer s.idLock.Unlock()
	if len(s.next) > 0 {
		id := s.next[0]
		s.next = s.next[1:]
		return id
	}
	return newID()
}

// announce has the server make up the IDs that are new in an answer, in their order.
func (s *stage) announce(body []byte) {
	s.idLock.Lock()
	defer s.idLock.Unlock()
	s.next = nil
	seen := map[string]bool{}
	for _, id := range uuidPattern.FindAllString(string(body), -1) {
		if _, bound := s.cmp.ours[id]; !bound && !seen[id] {
			seen[id] = true
			s.next = append(s.next, id)
		}
	}
}

// kill ends a server at once, with its bricks if asked for, and takes its time.
func (s *stage) kill(name string, bricks bool) {
	n := s.servers[name].server.Node
	n.Kill()
	if bricks {
		n.KillBricks()
	}
	s.mourn(name)
}

func (s *stage) mourn(name string) {
	s.ended[name] = s.clock.Now()
	delete(s.offline, name)
}

func (s *stage) node(name string) *cluster.Node { return s.servers[name].server.Node }

// kind says how a request failed, in the numbers of curl.
func kind(err error, secure bool) int {
	var cert *tls.CertificateVerificationError
	var alert tls.AlertError
	switch {
	case errors.Is(err, errTimeout):
		return 28
	case errors.Is(err, syscall.ECONNREFUSED):
		return 7
	case errors.As(err, &cert):
		return 60
	case errors.As(err, &alert) || (secure && strings.Contains(err.Error(), "protocol version")):
		return 35
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
		return 52
	}
	return -1
}

func describe(r result) string {
	return fmt.Sprintf("status %d, %q, error %v, after %s", r.status, r.body, r.err, r.took)
}
