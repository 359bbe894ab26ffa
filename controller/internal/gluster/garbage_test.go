package gluster_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/gluster"
)

// like sends an answer with the headers of a real one.
func like(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Gluster-Peer-Id", "82d3c646-aaee-4bb5-8583-a7154c0859fd")
		w.Header().Set("X-Gluster-Cluster-Id", "4f6c539d-1b02-4ff1-9c94-55da0bbbba40")
		if kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		w.WriteHeader(status)
		if _, err := io.WriteString(w, body); err != nil {
			return
		}
	}
}

const (
	jsonKind = "application/json; charset=UTF-8"
	html     = "<html><body>It works!</body></html>"
)

// changing are the calls that change something. ReplaceBrick is not among them: it looks first, and the garbage ends it there.
var changing = regexp.MustCompile("^(Set|Add|Edit|Remove|Enable|Start)")

// TestCalls_takeNoGarbageForAnAnswer has every call answered in every bad way. None may succeed, and none may say that something is absent.
func TestCalls_takeNoGarbageForAnAnswer(t *testing.T) {
	bad := map[string]http.HandlerFunc{
		"HTML with 200":             like(200, "text/html", html),
		"HTML that says it is JSON": like(200, jsonKind, html),
		"a page of another server":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, html) },
		"not found by another server": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", jsonKind)
			w.WriteHeader(404)
			fmt.Fprint(w, `{"errors":[{"code":1,"message":"peer not found"}]}`)
		},
		"no such path":              like(404, "text/plain; charset=utf-8", "404 page not found\n"),
		"the store is out of reach": like(404, jsonKind, `{"errors":[{"code":1,"message":"context deadline exceeded"}]}`),
		"not found without a word":  like(404, "", ""),
		"not found with no error":   like(404, jsonKind, `{"errors":[]}`),
		"400 without a word":        like(400, "", ""),
		"401 without a word":        like(401, "", ""),
		"500 without a word":        like(500, "", ""),
		"500 with HTML":             like(500, "text/html", html),
		"502":                       like(502, "text/html", html),
		"500 of the store":          like(500, jsonKind, `{"errors":[{"code":1,"message":"context deadline exceeded"}]}`),
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/v1/peers")
			like(301, "", "")(w, r)
		},
		"another success":         like(202, jsonKind, `{}`),
		"a number":                like(200, jsonKind, `7`),
		"a text":                  like(200, jsonKind, `"ok"`),
		"two values":              like(200, jsonKind, `[][]`),
		"the beginning of a list": like(200, jsonKind, `[{"id":"82d3c646`),
		"a list of nothing":       like(200, jsonKind, `[{}]`),
		"an object of nothing":    like(200, jsonKind, `{}`),
		"less than was said": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			like(200, jsonKind, `[`)(w, r)
		},
		"the end of the connection": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.Close()
			}
		},
		"nothing in time": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(time.Second):
			}
		},
	}
	p := newPool(t, 1)
	p.client = p.newClient(gluster.Config{Secret: []byte(secret), CA: p.ca, Timeout: 100 * time.Millisecond})
	id := p.id(0)
	for answer, do := range bad {
		for name, call := range calls(id) {
			// Who it is has to be known before a brick is replaced.
			p.servers[0].Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if name == "ReplaceBrick" && r.URL.Path == "/ping" {
					return false
				}
				do(w, r)
				return true
			})
			t.Run(name+" is answered with "+answer, func(t *testing.T) {
				err := call(t.Context(), p.server(0))
				wantKind(t, err, gluster.Unknown, changing.MatchString(name))
				if strings.Contains(err.Error(), secret[:8]) || len(err.Error()) > 700 || strings.ContainsAny(err.Error(), "\n\t") {
					t.Errorf("the error is not fit for a condition: %q", err)
				}
			})
		}
	}
}

// TestCalls_refused: a message with 400 or 401 is a refusal, whatever it says, and nothing was begun. Without one it is no answer.
func TestCalls_refused(t *testing.T) {
	p := newPool(t, 1)
	for name, call := range calls(p.id(0)) {
		for _, row := range []struct {
			answer http.HandlerFunc
			kind   gluster.Kind
		}{
			{like(400, jsonKind, `{"errors":[{"code":1,"message":"what nobody has seen before"}]}`), gluster.Refused},
			{like(400, jsonKind, `{"errors":[{"code":1,"message":"peer not found"}]}`), gluster.Refused},
			{like(401, jsonKind, `{"errors":[{"code":1,"message":"what nobody has seen before"}]}`), gluster.Denied},
			{like(400, "text/html", html), gluster.Unknown},
			{like(401, jsonKind, `{"errors":[]}`), gluster.Unknown},
		} {
			p.servers[0].Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if name == "ReplaceBrick" && r.URL.Path == "/ping" {
					return false
				}
				row.answer(w, r)
				return true
			})
			wantKind(t, call(t.Context(), p.server(0)), row.kind, row.kind == gluster.Unknown && changing.MatchString(name))
		}
	}
}

func TestPeers_isNeverEmpty(t *testing.T) {
	p := newPool(t, 1)
	for _, body := range []string{"null\n", "[]\n"} {
		p.answers(like(200, jsonKind, body))
		_, err := p.server(0).Peers(t.Context())
		wantKind(t, err, gluster.Unknown, false)
		_, err = p.server(0).PeerGone(t.Context(), p.id(0))
		wantKind(t, err, gluster.Unknown, false)
	}
}

func TestVolumes_nullIsNoEmptyList(t *testing.T) {
	p := newPool(t, 1)
	p.answers(like(200, jsonKind, "null\n"))
	_, err := p.server(0).Volumes(t.Context())
	wantKind(t, err, gluster.Unknown, false)
	_, err = p.server(0).Snapshots(t.Context())
	wantKind(t, err, gluster.Unknown, false)
}

func TestBricks_areListedOnce(t *testing.T) {
	p := newPool(t, 1)
	brick := `{"info":{"id":"82d3c646-aaee-4bb5-8583-a7154c0859fd","path":"/b","peer-id":"17057dd8-b470-4396-9edb-9b1a3b8f517d","host":"h"},"online":true}`
	p.answers(like(200, jsonKind, "["+brick+","+brick+"]"))
	_, err := p.server(0).Bricks(t.Context(), "v")
	wantKind(t, err, gluster.Unknown, false)
	heal := `{"name":"h:/b","status":"Connected","total-entries":0,"entries-in-heal-pending":0,"entries-in-split-brain":0,"entries-possibly-healing":0}`
	p.answers(like(200, jsonKind, "["+heal+","+heal+"]"))
	_, err = p.server(0).Heal(t.Context(), "v")
	wantKind(t, err, gluster.Unknown, false)
}

func TestHeal_entriesThatNobodyCountsAreNotKnown(t *testing.T) {
	p := newPool(t, 1)
	for counts, known := range map[string]bool{
		`"total-entries":0,"entries-in-heal-pending":0,"entries-in-split-brain":0,"entries-possibly-healing":0`:  true,
		`"total-entries":3,"entries-in-heal-pending":1,"entries-in-split-brain":1,"entries-possibly-healing":1`:  true,
		`"total-entries":3,"entries-in-heal-pending":0,"entries-in-split-brain":0,"entries-possibly-healing":0`:  false,
		`"total-entries":0,"entries-in-heal-pending":0,"entries-possibly-healing":0`:                             false,
		`"total-entries":-1,"entries-in-heal-pending":0,"entries-in-split-brain":0,"entries-possibly-healing":0`: false,
		`"total-entries":0,"entries-in-heal-pending":-1,"entries-in-split-brain":0,"entries-possibly-healing":0`: false,
	} {
		p.answers(like(200, jsonKind, `[{"name":"h:/b","status":"Connected",`+counts+`}]`))
		if got, err := p.server(0).Heal(t.Context(), "v"); err != nil || len(got) != 1 || got[0].Known != known {
			t.Errorf("%s: %+v %v, want known %v", counts, got, err, known)
		}
	}
}

func TestPeerGone_listedPeersAreNotGone(t *testing.T) {
	p := newPool(t, 2)
	id := p.id(1)
	p.servers[0].Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/peers/"+id {
			return false
		}
		like(404, jsonKind, `{"errors":[{"code":1,"message":"peer not found"}]}`)(w, r)
		return true
	})
	_, err := p.server(0).PeerGone(t.Context(), id)
	wantKind(t, err, gluster.Unknown, false)
}

func TestVolumes_bricksInNestedSubvolumesCount(t *testing.T) {
	p := newPool(t, 1)
	brick := `{"id":"82d3c646-aaee-4bb5-8583-a7154c0859fd","path":"/b","peer-id":"17057dd8-b470-4396-9edb-9b1a3b8f517d","host":"h"}`
	p.answers(like(200, jsonKind, `[{"id":"82d3c646-aaee-4bb5-8583-a7154c0859fd","name":"v","state":"Started","subvols":[{"name":"s","bricks":null,"subvols":[{"name":"t","bricks":[`+brick+`]}]}]}]`))
	got, err := p.server(0).Volumes(t.Context())
	if err != nil || len(got) != 1 || len(got[0].Subvolumes) != 1 || len(got[0].Subvolumes[0].Bricks) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	p.answers(like(200, jsonKind, `[{"id":"82d3c646-aaee-4bb5-8583-a7154c0859fd","name":"v","state":"Started","subvols":[{"name":"s","bricks":[]}]}]`))
	_, err = p.server(0).Volumes(t.Context())
	wantKind(t, err, gluster.Unknown, false)
}
