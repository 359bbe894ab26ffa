package gluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"
)

// maxAnswer is more than a cluster of a thousand volumes answers. What is longer is not read.
const maxAnswer = 64 << 20

// request is one call.
type request struct {
	op     string
	method string
	// path is not encoded. It has no double slash: the server would redirect it.
	path  string
	query url.Values
	body  any
	// open calls carry no token.
	open bool
	// status is the one with which the server says that it did what it was asked for.
	status int
	// into receives the answer. Nil means that the answer has no body.
	into any
	// says is what certain answers mean, by status and message. What is not listed means what it does for every call, and that is mostly Unknown: see meaning.
	says map[answerKey]Kind
}

type answerKey struct {
	status  int
	message string
}

type answer struct {
	status int
	from   Identity
	body   []byte
}

// call makes one request, once. It is never repeated here: only the caller knows how to look whether it took effect.
func (s *Server) call(ctx context.Context, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.client.timeout)
	defer cancel()
	fail := &Error{Kind: Unknown, Op: r.op, Address: s.base.Host}
	req, err := s.newRequest(ctx, r)
	if err != nil {
		fail.cause = err
		return answer{}, fail
	}
	// From here on the request may reach the server, whatever comes back.
	fail.Pending = r.method != http.MethodGet
	a, err := s.exchange(req)
	fail.Status = a.status
	if err != nil {
		fail.cause = err
		return answer{}, fail
	}
	if a.status != r.status {
		return answer{}, refusal(r, a, fail)
	}
	if err := read(a.body, r.into); err != nil {
		fail.cause = err
		return answer{}, fail
	}
	return a, nil
}

func read(body []byte, into any) error {
	if into == nil {
		if len(body) > 0 {
			return errors.New("the answer has a body where glusterd2 sends none")
		}
		return nil
	}
	if err := decode(body, into); err != nil {
		return fmt.Errorf("the answer cannot be read: %w", err)
	}
	return nil
}

func (s *Server) newRequest(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	at := s.base
	at.Path, at.RawQuery = r.path, r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, at.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if !r.open && len(s.client.secret) > 0 {
		t, err := token(s.client.secret, r.method, r.path, s.client.now())
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "bearer "+t)
	}
	return req, nil
}

// exchange sends a request, and reads the whole answer. It returns an error for what no glusterd2 answers.
func (s *Server) exchange(req *http.Request) (answer, error) {
	resp, err := s.client.http.Do(req)
	if err != nil {
		// The error of net/http repeats method and URL.
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return a, fmt.Errorf("the answer ends early: %w", err)
	}
	if len(a.body) > maxAnswer {
		return a, errors.New("the answer is too long")
	}
	a.from = Identity{Peer: resp.Header.Get("X-Gluster-Peer-Id"), Cluster: resp.Header.Get("X-Gluster-Cluster-Id")}
	if uuid.Validate(a.from.Peer) != nil || uuid.Validate(a.from.Cluster) != nil {
		return a, errors.New("the answer is not one of glusterd2: it names no peer and no cluster")
	}
	if media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); len(a.body) > 0 && (err != nil || media != "application/json") {
		return a, errors.New("the answer is not JSON")
	}
	return a, nil
}

// refusal says what an answer means that is not the one that was hoped for.
func refusal(r request, a answer, fail *Error) error {
	var body struct {
		Errors []struct {
			Message string            `json:"message"`
			Fields  map[string]string `json:"fields"`
		} `json:"errors"`
	}
	if err := decode(a.body, &body); err != nil || len(body.Errors) == 0 {
		fail.cause = errors.New("the answer says nothing")
		return fail
	}
	for _, e := range body.Errors {
		text := e.Message
		if cause := e.Fields["error"]; cause != "" {
			text = fmt.Sprintf("%s: %s on peer %s: %s", text, e.Fields["step"], e.Fields["peer-id"], cause)
		}
		fail.Messages = append(fail.Messages, clean(text))
	}
	fail.Kind = meaning(r, a.status, body.Errors[0].Message)
	fail.Pending = fail.Pending && (fail.Kind == Unknown || fail.Kind == Failed)
	return fail
}

const (
	busyLock = "could not obtain lock: another conflicting transaction may be in progress"
	stepDied = "a txn step failed"
)

func meaning(r request, status int, message string) Kind {
	if kind, ok := r.says[answerKey{status, message}]; ok {
		return kind
	}
	switch down := strings.HasPrefix(message, "node ") && strings.HasSuffix(message, " is probably down"); {
	case status == http.StatusInternalServerError && down:
		return PeerDown
	case status == http.StatusUnauthorized:
		return Denied
	case status == http.StatusConflict && message == busyLock:
		return Busy
	case status == http.StatusBadRequest:
		return Refused
	case status == http.StatusInternalServerError && message == stepDied:
		return Failed
	}
	// A 404 is Unknown, too, unless the call lists its message: with the store out of reach the server answers 404 for peers that exist.
	return Unknown
}

// decode reads one JSON value, and nothing may follow it. Fields that this package does not name are passed over.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the value")
	}
	return nil
}
