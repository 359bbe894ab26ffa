package recorded

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recording is one case: a request with what came back, or an observation.
type recording struct {
	Name    string `json:"name"`
	Node    string `json:"node"`
	Request *struct {
		Line    string            `json:"line"`
		Headers map[string]string `json:"headers"`
		Body    json.RawMessage   `json:"body"`
		BodyRaw string            `json:"body_raw"`
	} `json:"request"`
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers"`
	Body      json.RawMessage   `json:"body"`
	BodyRaw   *string           `json:"body_raw"`
	CurlExit  int               `json:"curl_exit"`
	CurlError string            `json:"curl_error"`
	Seconds   float64           `json:"seconds"`

	// all has every field, for observations.
	all map[string]any
}

// key is the run and number of a case.
func (r recording) key() string { return r.Name[:4] }

// load reads the cases of a run, in order.
func load(t *testing.T, run string) []recording {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", run+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var out []recording
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var r recording
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(s.Bytes(), &r.all); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// method and target of the request.
func (r recording) target() (method, target string) {
	method, rest, _ := strings.Cut(r.Request.Line, " ")
	return method, strings.TrimSuffix(rest, " HTTP/1.1")
}

func (r recording) requestBody() string {
	if r.Request.BodyRaw != "" {
		return r.Request.BodyRaw
	}
	if len(r.Request.Body) == 0 || string(r.Request.Body) == "null" {
		return ""
	}
	return string(r.Request.Body)
}
