package recorded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
)

func newID() string { return uuid.NewString() }

// partly lists the cases that are not compared in full, with the reason.
var partly = map[string]string{
	"a136": "the trace of a crash: the stand-in's servers end without one",
	"e002": "a dump of the process's memory: IDs, version and the names of its parts are compared",
	"e008": "what each server saved of the store's addresses is not modelled: the members are compared",
	"e018": "the server's log and what it saved of the store's addresses: that it came up is compared",
	"e003": "what the server saved of the store's addresses: that it came up is compared",
	"e030": "the server's log: that it did not come up is compared",
	"q003": "the server's log: that it did not come up is compared",
	"t001": "path and mode of the secret's file are not modelled: that the text is the key is compared",
	"t066": "curl and Go name it differently: that there is no connection with TLS 1.1 is compared",
	"t067": "curl and Go name it differently: that the connection ends without an answer is compared",
	"v110": "access rights and times of the directory: what is left, and the attributes that matter, are compared",
}

// TestReplay plays all that was asked of real servers to the stand-in, and compares what comes back.
func TestReplay(t *testing.T) {
	count := 0
	for name, set := range map[string]func(*testing.T) *script{
		"peers and devices, volumes, heal and bricks, dead peers": axScript, "embedded store": eScript, "store out of reach": kScript,
		"quick restart": qScript, "authentication and TLS": tScript,
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t)
			for _, run := range s.runs {
				for _, r := range load(t, run) {
					count++
					s.play(t, r)
				}
			}
			if len(s.before) > 0 || len(s.observe) > 0 {
				t.Errorf("not played: %d actions, %d observations", len(s.before), len(s.observe))
			}
		})
	}
	t.Logf("%d cases, %d of them compared in full, %d in part", count, count-len(partly), len(partly))
	if !t.Failed() && count != 504 {
		t.Errorf("%d cases were played, 504 were recorded", count)
	}
}

// script is what happened between the requests of a recording.
type script struct {
	*stage
	runs []string
	// before are what happened before a case.
	before map[string]func()
	// observe check what was observed.
	observe map[string]func(recording) error
	// headers changes what a request is sent with.
	headers func(r recording, method, target string, h map[string]string) string
	// clients are those of cases that need another one.
	clients map[string]*http.Client
	// early are requests that were begun before others that have lower numbers.
	early map[string]*sent
}

func (s *script) play(t *testing.T, r recording) {
	t.Helper()
	if do := s.before[r.key()]; do != nil {
		delete(s.before, r.key())
		do()
		s.settle()
	}
	if r.Request == nil {
		see := s.observe[r.key()]
		if see == nil {
			if partly[r.key()] == "" {
				t.Errorf("%s: nobody looks at this observation", r.Name)
			}
			return
		}
		delete(s.observe, r.key())
		if err := see(r); err != nil {
			t.Errorf("%s: %s", r.Name, err)
		}
		return
	}
	under := s.early[r.key()]
	if under == nil {
		under = s.begin(r)
	}
	limit := time.Minute
	if r.CurlExit == 28 {
		limit = time.Duration(r.Seconds * float64(time.Second))
	}
	got := s.await(under, limit)
	s.settle()
	if err := s.compare(r, got); err != nil {
		t.Errorf("%s: %s\n    got      %.700s\n    recorded %d %.600s %s", r.Name, err, describe(got), r.Status, r.Body, r.CurlError)
	}
}

// begin sends the request of a case.
func (s *script) begin(r recording) *sent {
	method, target := r.target()
	headers := map[string]string{}
	for k, v := range r.Request.Headers {
		headers[k] = v
	}
	target, body := s.cmp.translate(target), s.cmp.translate(r.requestBody())
	if s.headers != nil {
		target = s.headers(r, method, target, headers)
	}
	s.announce(r.Body)
	return s.send(r.Node, method, target, body, headers, s.clients[r.key()])
}

// compare compares an answer with the recorded one: whether there is one, status, headers, body, and how long it took.
func (s *script) compare(r recording, got result) error {
	if err := took(r, got); err != nil {
		return err
	}
	if r.CurlExit != 0 || got.err != nil {
		return s.compareFailure(r, got)
	}
	if got.status != r.Status {
		return fmt.Errorf("status %d, recorded %d", got.status, r.Status)
	}
	for _, h := range []string{"Content-Type", "Location", "X-Gluster-Peer-Id", "X-Gluster-Cluster-Id"} {
		if !s.cmp.text(r.Headers[h], got.headers.Get(h)) {
			return fmt.Errorf("header %s is %q, recorded %q", h, got.headers.Get(h), r.Headers[h])
		}
	}
	if got.headers.Get("X-Request-Id") == "" {
		return fmt.Errorf("no X-Request-Id")
	}
	if len(r.Body) == 0 || bytes.Equal(r.Body, []byte("null")) {
		if r.BodyRaw == nil || string(got.body) != *r.BodyRaw {
			return fmt.Errorf("the body is %q, recorded %v", got.body, r.BodyRaw)
		}
		return nil
	}
	theirs, err1 := parse(r.Body)
	ours, err2 := parse(got.body)
	if err1 != nil || err2 != nil {
		return fmt.Errorf("the bodies cannot be read: %w", errors.Join(err1, err2))
	}
	if r.key() == "e002" {
		return s.compareDump(theirs, ours)
	}
	return s.cmp.value("body", theirs, ours)
}

func (s *script) compareFailure(r recording, got result) error {
	want := r.CurlExit
	if got.err == nil {
		return fmt.Errorf("an answer, recorded curl %d", want)
	}
	is := kind(got.err, s.servers[r.Node].cert != nil)
	if want == 56 {
		// Go says of a connection that is reset without an answer either that, or that it ends.
		want = 52
	}
	if is != want {
		return fmt.Errorf("it fails as curl %d, recorded %d", is, r.CurlExit)
	}
	return nil
}

// compareDump compares a dump of the process: what its parts are called, and who it is of.
func (s *script) compareDump(theirs, ours any) error {
	a, ok1 := theirs.(map[string]any)
	b, ok2 := ours.(map[string]any)
	if !ok1 || !ok2 {
		return fmt.Errorf("no objects")
	}
	for k := range a {
		if _, ok := b[k]; !ok || len(a) != len(b) {
			return fmt.Errorf("the dump lacks %s, or has more", k)
		}
	}
	for _, k := range []string{"cluster-id", "peer-id", "version", "op_version"} {
		if err := s.cmp.value(k, a[k], b[k]); err != nil {
			return err
		}
	}
	return nil
}

// took compares how long it took: what was there at once is there within a second, and a wait is as long.
func took(r recording, got result) error {
	d := got.took.Seconds()
	if (r.Seconds < 1 && d < 1) || (r.Seconds >= 1 && d > r.Seconds*0.8 && d < r.Seconds*1.2+0.5) {
		return nil
	}
	return fmt.Errorf("it took %s, recorded %gs", got.took, r.Seconds)
}

// field reads a field of an observation.
func field[T any](r recording, name string) T {
	var out T
	text, err := json.Marshal(r.all[name])
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic(err)
	}
	return out
}

// sameIDs compares lists of IDs.
func (s *stage) sameIDs(theirs, ours []string) error {
	if len(theirs) != len(ours) {
		return fmt.Errorf("%v, recorded %v", ours, theirs)
	}
	for i := range theirs {
		if !s.cmp.same(theirs[i], ours[i]) {
			return fmt.Errorf("%v, recorded %v", ours, theirs)
		}
	}
	return nil
}

func about(d time.Duration, seconds float64) error {
	if got := d.Seconds(); got < seconds-1 || got > seconds+1 {
		return fmt.Errorf("after %s, recorded %gs", d, seconds)
	}
	return nil
}
