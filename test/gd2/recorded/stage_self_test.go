package recorded

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"quarry.storage/quarry/test/gd2/cluster"
)

// lateAnswers gives the client an answer a while after the server sent it, as a busy machine does.
type lateAnswers struct{ http.RoundTripper }

func (l lateAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	time.Sleep(200 * time.Millisecond)
	return resp, err
}

// TestStage_noTimePassesForAnAnswerOnItsWay: the clock of the recordings stands still until the client has what the server has sent, also while calls wait whose clients
// gave up.
func TestStage_noTimePassesForAnAnswerOnItsWay(t *testing.T) {
	s := newStage(t, recordedAt, cluster.Config{})
	s.server(1, "82d3c646-aaee-4bb5-8583-a7154c0859fd", "4f6c539d-1b02-4ff1-9c94-55da0bbbba40", nil).Start()
	client := &http.Client{Transport: lateAnswers{http.DefaultTransport}}
	got := s.await(s.send("gd1", http.MethodGet, "/v1/peers", "", nil, client), time.Minute)
	if got.err != nil || got.status != http.StatusOK || got.took != 0 {
		t.Errorf("status %d, error %v, after %s: want %d at once", got.status, got.err, got.took, http.StatusOK)
	}
	s.world.FreezeStore()
	if got := s.await(s.send("gd1", http.MethodPost, "/v1/volumes/v/start", "", nil, nil), time.Second); !errors.Is(got.err, errTimeout) {
		t.Fatalf("status %d, error %v: want none while the store is out of reach", got.status, got.err)
	}
	got = s.await(s.send("gd1", http.MethodGet, "/v1/peers", "", nil, client), time.Minute)
	if got.err != nil || got.status != http.StatusInternalServerError || got.took < 5*time.Second || got.took > 5500*time.Millisecond {
		t.Errorf("status %d, error %v, after %s: want %d after 5 s", got.status, got.err, got.took, http.StatusInternalServerError)
	}
}
