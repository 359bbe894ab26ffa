package gluster_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/gluster"
)

// answered is a recorded answer.
type answered struct {
	Name    string `json:"name"`
	Request *struct {
		Line string          `json:"line"`
		Body json.RawMessage `json:"body"`
	} `json:"request"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
	BodyRaw string            `json:"body_raw"`
}

// asked is the call of the client that makes a request like the recorded one.
type asked struct {
	line *regexp.Regexp
	call func(ctx context.Context, s *gluster.Server, part []string) error
}

var askedFor = []asked{
	{regexp.MustCompile(`^GET /ping HTTP`), func(ctx context.Context, s *gluster.Server, _ []string) error { _, err := s.Identify(ctx); return err }},
	{regexp.MustCompile(`^GET /v1/peers HTTP`), func(ctx context.Context, s *gluster.Server, _ []string) error { _, err := s.Peers(ctx); return err }},
	{regexp.MustCompile(`^DELETE /v1/peers/([0-9a-f-]{36}) HTTP`), func(ctx context.Context, s *gluster.Server, p []string) error { return s.RemovePeer(ctx, p[1]) }},
	{regexp.MustCompile(`^POST /v1/peers/([0-9a-f-]{36}) HTTP`), func(ctx context.Context, s *gluster.Server, p []string) error { return s.EditPeer(ctx, p[1], "z", nil) }},
	{regexp.MustCompile(`^POST /v1/peers HTTP`), func(ctx context.Context, s *gluster.Server, _ []string) error {
		_, err := s.AddPeer(ctx, []string{"h"}, "", nil)
		return err
	}},
	{regexp.MustCompile(`^GET /v1/devices/([0-9a-f-]{36}) HTTP`), func(ctx context.Context, s *gluster.Server, p []string) error {
		_, err := s.Devices(ctx, p[1])
		return err
	}},
	{regexp.MustCompile(`^POST /v1/devices/([0-9a-f-]{36})(/[^ %]*[^/]) HTTP`), func(ctx context.Context, s *gluster.Server, p []string) error {
		return s.EnableDevice(ctx, p[1], strings.ReplaceAll(p[2], "//", "/"), true)
	}},
	{regexp.MustCompile(`^GET /v1/volumes HTTP`), func(ctx context.Context, s *gluster.Server, _ []string) error { _, err := s.Volumes(ctx); return err }},
	{regexp.MustCompile(`^GET /v1/volumes/([a-z0-9]+) HTTP`), func(ctx context.Context, s *gluster.Server, p []string) error {
		_, err := s.Volume(ctx, p[1])
		return err
	}},
	{regexp.MustCompile(`^GET /v1/volumes/([a-z0-9]+)/bricks HTTP`), func(ctx context.Context, s *gluster.Server, p []string) error {
		_, err := s.Bricks(ctx, p[1])
		return err
	}},
	{regexp.MustCompile(`^GET /v1/volumes/([a-z0-9]+)/info-summary/heal-info HTTP`), func(ctx context.Context, s *gluster.Server, p []string) error {
		_, err := s.Heal(ctx, p[1])
		return err
	}},
	{regexp.MustCompile(`^POST /v1/volumes/([a-z0-9]+)/heal HTTP`), func(ctx context.Context, s *gluster.Server, p []string) error { return s.StartHeal(ctx, p[1]) }},
	{regexp.MustCompile(`^POST /v1/volumes/([a-z0-9]+)/options HTTP`), func(ctx context.Context, s *gluster.Server, p []string) error {
		return s.SetVolumeOptions(ctx, p[1], map[string]string{"a": "b"})
	}},
	{regexp.MustCompile(`^GET /v1/volumes/([a-z0-9]+)/options/([^ ]+) HTTP`), func(ctx context.Context, s *gluster.Server, p []string) error {
		_, err := s.VolumeOption(ctx, p[1], p[2])
		return err
	}},
	{regexp.MustCompile(`^GET /v1/cluster/options HTTP`), func(ctx context.Context, s *gluster.Server, _ []string) error {
		_, err := s.ClusterOptions(ctx)
		return err
	}},
	{regexp.MustCompile(`^GET /v1/snapshots HTTP`), func(ctx context.Context, s *gluster.Server, _ []string) error { _, err := s.Snapshots(ctx); return err }},
}

// absent are the words by which a server says that it looked and found nothing.
var absent = map[string]bool{"peer not found": true, "volume not found": true, "device does not exist in the given peer": true}

// TestClient_readsWhatWasRecorded has the client read recorded answers to its own calls. It succeeds where the server did, says Absent only where the server
// looked, and Unknown where the server could not.
func TestClient_readsWhatWasRecorded(t *testing.T) {
	files, err := filepath.Glob("../../../test/gd2/recorded/testdata/*.jsonl")
	if err != nil || len(files) != 8 {
		t.Fatal(files, err)
	}
	read := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var a answered
			if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
				t.Fatal(err)
			}
			if a.Request == nil || a.Status == 0 {
				continue
			}
			for _, q := range askedFor {
				if part := q.line.FindStringSubmatch(a.Request.Line); part != nil {
					read++
					judge(t, a, func(s *gluster.Server) error { return q.call(t.Context(), s, part) })
				}
			}
		}
	}
	t.Logf("%d answers were read", read)
	if read < 200 {
		t.Errorf("only %d answers were read", read)
	}
}

func judge(t *testing.T, a answered, call func(*gluster.Server) error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for k, v := range a.Headers {
			w.Header().Set(k, v)
		}
		w.WriteHeader(a.Status)
		body := a.BodyRaw
		if len(a.Body) > 0 && string(a.Body) != "null" {
			body = string(a.Body)
		}
		if _, err := io.WriteString(w, body); err != nil {
			return
		}
	}))
	defer server.Close()
	c, err := gluster.New(gluster.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.At(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	said, err := a.said(), call(s)
	if kind := gluster.KindOf(err); !fits(a, said, kind, err) {
		t.Errorf("%s: status %d, %q, and the client says %s: %v", a.Name, a.Status, said, kind, err)
	}
}

// said returns the message of an error.
func (a answered) said() string {
	var body struct {
		Errors []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	// A body that is a list has no errors.
	if json.Unmarshal(a.Body, &body) != nil || len(body.Errors) == 0 {
		return ""
	}
	return body.Errors[0].Message
}

func fits(a answered, said string, kind gluster.Kind, err error) bool {
	switch {
	case (err == nil) != (a.Status/100 == 2):
		return false
	case err == nil:
		return true
	case (kind == gluster.Absent) != absent[said]:
		return false
	case strings.Contains(said, "deadline exceeded"), a.Status/100 == 3:
		return kind == gluster.Unknown
	case a.Status == http.StatusUnauthorized:
		return kind == gluster.Denied
	case a.Status == http.StatusForbidden:
		return kind == gluster.HasBricks
	}
	return true
}
