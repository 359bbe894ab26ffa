package execpod

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"quarry.storage/quarry/controller/internal/ceph"
)

// said is what the program of a test prints, and how it ends.
type said struct {
	out, err string
	code     int
	// broken ends the connection before anything says how the program ended.
	broken bool
	// hangs lets the program go on until the connection ends.
	hangs bool
}

// server executes in pods as an API server does.
type server struct {
	t *testing.T
	// pods that exist, and what their programs say.
	pods map[string]said
	// noWebsocket is a proxy in between that knows SPDY only.
	noWebsocket bool

	mu    sync.Mutex
	asked []string
	args  []string
	stdin string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/") // /api/v1/namespaces/NS/pods/POD/exec
	if len(parts) != 8 || parts[4] != "quarry-ceph" || parts[7] != "exec" || r.URL.Query().Get("container") != "mon" {
		s.t.Errorf("asked for %s", r.URL)
	}
	pod := parts[6]
	s.mu.Lock()
	s.asked, s.args = append(s.asked, r.Method+" "+pod), r.URL.Query()["command"]
	s.mu.Unlock()
	if s.noWebsocket && wsstream.IsWebSocketRequest(r) {
		http.Error(w, "no such protocol", http.StatusBadGateway)
		return
	}
	does, ok := s.pods[pod]
	if !ok {
		status := apierrors.NewNotFound(corev1.Resource("pods"), pod).Status()
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(status)
		return
	}
	if s.noWebsocket {
		s.overSPDY(w, r, does)
		return
	}
	channels := []wsstream.ChannelType{wsstream.IgnoreChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel}
	if r.URL.Query().Get("stdin") == "true" {
		channels[0] = wsstream.ReadChannel
	}
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{remotecommand.StreamProtocolV5Name: {Binary: true, Channels: channels}})
	_, streams, err := conn.Open(w, r)
	if err != nil {
		s.t.Errorf("open: %v", err)
		return
	}
	defer func() { _ = conn.Close() }()
	var in io.Reader
	if channels[0] == wsstream.ReadChannel {
		in = streams[0]
	}
	s.play(r.Context(), does, in, streams[1], streams[2], streams[3])
}

// overSPDY serves one program over SPDY.
func (s *server) overSPDY(w http.ResponseWriter, r *http.Request, does said) {
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		s.t.Errorf("handshake: %v", err)
		return
	}
	arrived := make(chan httpstream.Stream, 4)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		arrived <- stream
		return nil
	})
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	streams := map[string]httpstream.Stream{}
	for range 3 {
		stream := <-arrived
		streams[stream.Headers().Get(corev1.StreamType)] = stream
	}
	s.play(r.Context(), does, nil, streams[corev1.StreamTypeStdout], streams[corev1.StreamTypeStderr], streams[corev1.StreamTypeError])
	for _, stream := range streams {
		stream.Close()
	}
	time.Sleep(100 * time.Millisecond)
}

// play is a program: it prints, and its end is told as kubelets do.
func (s *server) play(ctx context.Context, does said, stdin io.Reader, stdout, stderr, status io.Writer) {
	if stdin != nil {
		read, _ := io.ReadAll(stdin)
		s.mu.Lock()
		s.stdin = string(read)
		s.mu.Unlock()
	}
	if does.hangs {
		<-ctx.Done()
		return
	}
	for out := []byte(does.out); len(out) > 0; {
		n := min(len(out), 32<<10)
		if _, err := stdout.Write(out[:n]); err != nil {
			return
		}
		out = out[n:]
	}
	if does.err != "" {
		_, _ = stderr.Write([]byte(does.err))
	}
	if does.broken {
		return
	}
	_, _ = fmt.Fprintf(stdout, "\n%s%d\n", lastWord, does.code)
	ended := metav1.Status{Status: metav1.StatusSuccess}
	if does.code != 0 {
		ended = metav1.Status{Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason, Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(does.code)}},
		}}
	}
	text, _ := json.Marshal(ended)
	_, _ = status.Write(text)
}

func podNamed(name string, ready corev1.ConditionStatus) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "quarry-ceph", Name: name, UID: types.UID(name)},
		Status: corev1.PodStatus{
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "mon", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		},
	}
}

// served is a Runner over a real server, and pods that are ready.
func served(t *testing.T, s *server, ready ...string) *Runner {
	t.Helper()
	s.t = t
	http := httptest.NewServer(s)
	t.Cleanup(http.Close)
	start, err := Remote(&rest.Config{Host: http.URL})
	if err != nil {
		t.Fatal(err)
	}
	pods := []corev1.Pod{podNamed("starting", corev1.ConditionFalse), podNamed("deleted", corev1.ConditionTrue)}
	pods[0].Status.ContainerStatuses[0].State = corev1.ContainerState{}
	pods[1].DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for _, name := range ready {
		pods = append(pods, podNamed(name, corev1.ConditionTrue))
	}
	return New(Config{Pods: func(context.Context) ([]corev1.Pod, error) { return pods, nil }, Container: "mon", Start: start})
}

func TestRun(t *testing.T) {
	for name, s := range map[string]*server{
		"what it prints comes as it is": {pods: map[string]said{"a": {out: `{"epoch":7}`, err: "a warning\n"}}},
		"an exit code is no error":      {pods: map[string]said{"a": {err: "Error EBUSY: no\n", code: 16}}},
		"a large answer":                {pods: map[string]said{"a": {out: strings.Repeat("0123456789abcdef", 200_000)}}},
		"over SPDY":                     {noWebsocket: true, pods: map[string]said{"a": {out: `{"epoch":7}`, err: "a warning\n", code: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			r, err := served(t, s, "a").Run(ctx, ceph.Command{Args: []string{"osd", "dump"}})
			want := s.pods["a"]
			if err != nil || string(r.Stdout) != want.out || string(r.Stderr) != want.err || r.ExitCode != want.code {
				t.Errorf("%d bytes, stderr %q, exit code %d: %v", len(r.Stdout), r.Stderr, r.ExitCode, err)
			}
			if started := s.args[len(s.args)-3:]; !slices.Equal(started, []string{"ceph", "osd", "dump"}) {
				t.Errorf("started %q", s.args)
			}
		})
	}
}

// TestRun_brokenIsNotZero: a connection that ends without a word on how the program ended looks to the client like exit code 0.
func TestRun_brokenIsNotZero(t *testing.T) {
	for _, noWebsocket := range []bool{false, true} {
		s := &server{noWebsocket: noWebsocket, pods: map[string]said{"a": {out: `{"epoch":7}`, broken: true}, "b": {out: "{}"}}}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		r, err := served(t, s, "a", "b").Run(ctx, ceph.Command{Args: []string{"osd", "purge", "3"}})
		cancel()
		if err == nil || !errors.Is(err, ceph.ErrUnreachable) || errors.Is(err, ErrNotStarted) {
			t.Errorf("without websocket %v: %+v, %v", noWebsocket, r, err)
		}
		if slices.ContainsFunc(s.asked, func(a string) bool { return strings.HasSuffix(a, " b") }) {
			t.Errorf("a program that may have run was started once more: %q", s.asked)
		}
	}
}

// TestRun_nextPod: what was not started in one pod is started in the next, and the pod that failed comes last for a while.
func TestRun_nextPod(t *testing.T) {
	s := &server{pods: map[string]said{"b": {out: "{}"}}}
	r := served(t, s, "a", "b")
	for range 2 {
		if _, err := r.Run(t.Context(), ceph.Command{Args: []string{"status"}}); err != nil {
			t.Fatal(err)
		}
	}
	var pods []string
	for _, a := range s.asked {
		pods = append(pods, strings.Fields(a)[1])
	}
	// The first pod refuses the websocket, and SPDY after it.
	if diff := cmp.Diff([]string{"a", "a", "b", "b"}, pods); diff != "" {
		t.Error(diff)
	}
	s.pods = map[string]said{}
	_, err := r.Run(t.Context(), ceph.Command{Args: []string{"status"}})
	if !errors.Is(err, ceph.ErrUnreachable) || strings.Contains(err.Error(), "http://") {
		t.Error(err)
	}
}

// TestRun_unready: monitors that are not ready come after those that are, and are asked where no other is.
func TestRun_unready(t *testing.T) {
	var asked []string
	pods := []corev1.Pod{podNamed("a", corev1.ConditionFalse), podNamed("b", corev1.ConditionTrue)}
	r := New(Config{
		Pods: func(context.Context) ([]corev1.Pod, error) { return pods, nil }, Container: "mon",
		Start: func(_ context.Context, p Program) (int, error) {
			asked = append(asked, p.Pod)
			_, err := fmt.Fprintf(p.Stdout, "\n%s0\n", lastWord)
			return 0, err
		},
	})
	for range 2 {
		if _, err := r.Run(t.Context(), ceph.Command{}); err != nil {
			t.Fatal(err)
		}
		pods = pods[:1]
	}
	if !slices.Equal(asked, []string{"b", "a"}) {
		t.Errorf("asked %q", asked)
	}
}

func TestRun_noPod(t *testing.T) {
	_, err := served(t, &server{}).Run(t.Context(), ceph.Command{Args: []string{"status"}})
	if !errors.Is(err, ceph.ErrUnreachable) || !strings.Contains(err.Error(), "none of 2 pods") {
		t.Error(err)
	}
}

// TestRun_deadline: the caller goes on at its deadline, even if nobody ends the program.
func TestRun_deadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := served(t, &server{pods: map[string]said{"a": {hangs: true}}}, "a").Run(ctx, ceph.Command{Args: []string{"osd", "safe-to-destroy", "0"}})
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ceph.ErrUnreachable) {
		t.Error(err)
	}
}

// TestRun_ended: exit codes of what runs the program are errors, since nobody knows what the program did, or it did not run.
func TestRun_ended(t *testing.T) {
	for code, notStarted := range map[int]bool{124: false, 137: false, 126: true, 127: true} {
		s := &server{pods: map[string]said{"a": {code: code, out: "{"}}}
		r, err := served(t, s, "a").Run(t.Context(), ceph.Command{Args: []string{"status"}})
		if !errors.Is(err, ceph.ErrUnreachable) || errors.Is(err, ErrNotStarted) != notStarted {
			t.Errorf("exit code %d: %+v, %v", code, r, err)
		}
	}
}

// TestRun_tooMuch: half an answer is no answer.
func TestRun_tooMuch(t *testing.T) {
	s := &server{pods: map[string]said{"a": {out: strings.Repeat("x", maxStdout+1)}}}
	r, err := served(t, s, "a").Run(t.Context(), ceph.Command{Args: []string{"status"}})
	if err == nil || len(r.Stdout) > 0 || !strings.Contains(err.Error(), "more than") {
		t.Errorf("%d bytes, %v", len(r.Stdout), err)
	}
}

// TestRun_keys: what a program reads is neither in its arguments nor in an error.
func TestRun_keys(t *testing.T) {
	const secret = "AQBsecretsecretsecretsecretsecret=="
	s := &server{pods: map[string]said{"a": {out: secret, broken: true}}}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := served(t, s, "a").Run(ctx, ceph.Command{Args: []string{"auth", "import", "-i", "-"}, Stdin: []byte(secret)})
	if err == nil || strings.Contains(err.Error(), secret) || bytes.Contains([]byte(strings.Join(s.args, " ")), []byte(secret)) {
		t.Errorf("%q: %v", s.args, err)
	}
	if s.stdin != secret {
		t.Errorf("the program read %q", s.stdin)
	}
}

// TestRun_turns: no more programs run at the same time than the pod has memory for.
func TestRun_turns(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	r := New(Config{
		Pods: func(context.Context) ([]corev1.Pod, error) {
			return []corev1.Pod{podNamed("a", corev1.ConditionTrue)}, nil
		},
		Container: "mon",
		Start: func(_ context.Context, p Program) (int, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			_, err := fmt.Fprintf(p.Stdout, "\n%s0\n", lastWord)
			return 0, err
		},
	})
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if _, err := r.Run(t.Context(), ceph.Command{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most != 2 {
		t.Errorf("%d at the same time", most)
	}
}
