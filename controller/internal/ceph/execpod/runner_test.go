package execpod

import (
	"bufio"
	"cmp"
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
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
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
	"quarry.storage/quarry/controller/internal/ceph/cephtest"
)

// said is what the program of a test answers to each command.
type said struct {
	out, err string
	code     int
	// greets is what it prints first, if it is not ready.
	greets string
	// broken ends the connection before the answer, as that of a program looks that ended well. exit is another exit code, of a program that ends there.
	broken bool
	exit   int
	// hangs lets the program go on until the connection ends.
	hangs bool
	// late puts an answer to another command before the one that is asked for.
	late bool
	// model performs the commands, if it is set.
	model ceph.Runner
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
	// commands that were performed, in all pods.
	commands [][]string
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
	channels := []wsstream.ChannelType{wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel}
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{remotecommand.StreamProtocolV5Name: {Binary: true, Channels: channels}})
	_, streams, err := conn.Open(w, r)
	if err != nil {
		s.t.Errorf("open: %v", err)
		return
	}
	defer func() { _ = conn.Close() }()
	s.play(r.Context(), does, streams[0], streams[1], streams[3])
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
	for range 4 {
		stream := <-arrived
		streams[stream.Headers().Get(corev1.StreamType)] = stream
	}
	s.play(r.Context(), does, streams[corev1.StreamTypeStdin], streams[corev1.StreamTypeStdout], streams[corev1.StreamTypeError])
	for _, stream := range streams {
		_ = stream.Close()
	}
	time.Sleep(100 * time.Millisecond)
}

// play is a program: it performs commands until its input ends, and its end is told as kubelets do.
func (s *server) play(ctx context.Context, does said, stdin io.Reader, stdout, status io.Writer) {
	code := s.perform(ctx, does, stdin, stdout)
	if does.broken {
		return
	}
	ended := metav1.Status{Status: metav1.StatusSuccess}
	if code != 0 {
		ended = metav1.Status{Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason, Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(code)}},
		}}
	}
	text, _ := json.Marshal(ended)
	_, _ = status.Write(text)
}

// perform reads commands and answers them, until its input ends or the program does. It returns the exit code.
func (s *server) perform(ctx context.Context, does said, stdin io.Reader, stdout io.Writer) int {
	if does.exit == exitNoSuch {
		return does.exit
	}
	if _, err := fmt.Fprintln(stdout, cmp.Or(does.greets, `{"ready": true}`)); err != nil || does.greets != "" {
		return 0
	}
	// A line without a command is the last one.
	for in := bufio.NewScanner(stdin); in.Scan() && in.Text() != ""; {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil || q.Seconds < 1 || len(q.Args) == 0 {
			s.t.Errorf("read %q: %v", in.Text(), err)
		}
		s.mu.Lock()
		s.commands = append(s.commands, q.Args)
		s.mu.Unlock()
		switch {
		case does.hangs:
			<-ctx.Done()
			return 0
		case does.broken || does.exit != 0:
			_, _ = io.WriteString(stdout, `{"id": 1, "code": 0, "out": "`+does.out)
			return does.exit
		case does.late:
			q.ID--
		}
		if does.tell(ctx, q, stdout) != nil {
			return 1
		}
	}
	return 0
}

// tell writes the answer to a command.
func (does said) tell(ctx context.Context, q question, to io.Writer) error {
	if does.model != nil {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(q.Seconds)*time.Second)
		defer cancel()
		r, err := does.model.Run(ctx, ceph.Command{Args: q.Args})
		if err != nil {
			return err
		}
		does.out, does.err, does.code = string(r.Stdout), string(r.Stderr), r.ExitCode
	}
	line, err := json.Marshal(answer{ID: q.ID, Code: &does.code, Out: []byte(does.out), Said: does.err})
	for line = append(line, '\n'); len(line) > 0 && err == nil; {
		n := min(len(line), 32<<10)
		_, err = to.Write(line[:n])
		line = line[n:]
	}
	return err
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
			if !slices.Equal(s.args[:2], []string{"python3", "-c"}) || len(s.commands) != 1 || !slices.Equal(s.commands[0], []string{"osd", "dump"}) {
				t.Errorf("started %q, and performed %q", s.args[:2], s.commands)
			}
		})
	}
}

// TestRun_brokenIsNotZero: a connection that ends looks to the client like a program that ended well. Whatever keeps an answer away is an error, the command is
// not performed once more, and the next one goes over a new connection.
func TestRun_brokenIsNotZero(t *testing.T) {
	for name, does := range map[string]said{
		"the connection breaks": {broken: true}, "the program ends": {exit: 1}, "the program is killed": {exit: 137}, "another answer comes": {late: true},
	} {
		for _, noWebsocket := range []bool{false, true} {
			s := &server{noWebsocket: noWebsocket, pods: map[string]said{"a": does, "b": {out: "{}"}}}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			r := served(t, s, "a", "b")
			got, err := r.Run(ctx, ceph.Command{Args: []string{"osd", "purge", "3"}})
			if err == nil || !errors.Is(err, ceph.ErrUnreachable) || errors.Is(err, ErrNotStarted) {
				t.Errorf("%s, without websocket %v: %+v, %v", name, noWebsocket, got, err)
			}
			if len(s.commands) != 1 {
				t.Errorf("%s: a command that may have been performed was repeated: %q", name, s.commands)
			}
			if _, err := r.Run(ctx, ceph.Command{Args: []string{"status"}}); err != nil {
				t.Errorf("%s: the next command: %v", name, err)
			}
			cancel()
		}
	}
}

// TestRun_oneProgram: all commands of a question go to one program, and of two at the same time each has its own. One that nobody uses is ended.
func TestRun_oneProgram(t *testing.T) {
	s := &server{pods: map[string]said{"a": {out: "{}"}}}
	r := served(t, s, "a")
	for range 15 {
		if _, err := r.Run(t.Context(), ceph.Command{Args: []string{"status"}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.asked) != 1 || len(s.commands) != 15 {
		t.Errorf("%d programs for %d commands", len(s.asked), len(s.commands))
	}
	c := r.resting[0]
	c.expires = time.Now().Add(-time.Second)
	if r.tidy(); len(r.resting) > 0 {
		t.Error("a connection that nobody uses is kept")
	}
	select {
	case <-c.ended:
	case <-time.After(5 * time.Second):
		t.Error("the program that nobody uses is not ended")
	}
}

// TestFacts_oneProgram: one program answers all that a look asks.
func TestFacts_oneProgram(t *testing.T) {
	const fsid = "7a1c6d1e-0000-4000-8000-000000000001"
	s := &server{pods: map[string]said{"a": {model: cephtest.New(t, fsid, "n0", "n1", "n2")}}}
	client, err := ceph.New(ceph.Config{Runner: served(t, s, "a"), FSID: fsid})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Facts(t.Context(), 0)
	_, overviewErr := client.Overview(t.Context())
	if err != nil || overviewErr != nil || len(s.asked) != 1 || len(s.commands) < 10 {
		t.Errorf("%d programs for %d commands: %v, %v", len(s.asked), len(s.commands), err, overviewErr)
	}
}

// TestRun_podGoes: a connection to a pod that is gone, or whose program ended while nobody used it, is not used.
func TestRun_podGoes(t *testing.T) {
	s := &server{pods: map[string]said{"a": {out: "{}"}, "b": {out: "{}"}}}
	r := served(t, s, "a", "b")
	run := func() {
		t.Helper()
		if _, err := r.Run(t.Context(), ceph.Command{Args: []string{"status"}}); err != nil {
			t.Fatal(err)
		}
	}
	run()
	r.resting[0].end(errors.New("the pod restarts"))
	<-r.resting[0].ended
	run()
	pods := r.cfg.Pods
	r.cfg.Pods = func(ctx context.Context) ([]corev1.Pod, error) {
		all, err := pods(ctx)
		return slices.DeleteFunc(all, func(p corev1.Pod) bool { return p.Name == "a" }), err
	}
	run()
	if want := []string{"GET a", "GET a", "GET b"}; !slices.Equal(s.asked, want) {
		t.Errorf("asked %q, want %q", s.asked, want)
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
	if diff := gocmp.Diff([]string{"a", "a", "b"}, pods); diff != "" {
		t.Error(diff)
	}
	s.pods = map[string]said{}
	r.resting[0].close()
	<-r.resting[0].ended
	_, err := r.Run(t.Context(), ceph.Command{Args: []string{"status"}})
	if !errors.Is(err, ceph.ErrUnreachable) || strings.Contains(err.Error(), "http://") {
		t.Error(err)
	}
}

// TestRun_unready: monitors that are not ready come after those that are, and are asked where no other is.
func TestRun_unready(t *testing.T) {
	s := &server{pods: map[string]said{"a": {out: "{}"}, "b": {out: "{}"}}}
	r := served(t, s)
	pods := []corev1.Pod{podNamed("a", corev1.ConditionFalse), podNamed("b", corev1.ConditionTrue)}
	r.cfg.Pods = func(context.Context) ([]corev1.Pod, error) { return pods, nil }
	for range 2 {
		if _, err := r.Run(t.Context(), ceph.Command{Args: []string{"status"}}); err != nil {
			t.Fatal(err)
		}
		pods = pods[:1]
	}
	if want := []string{"GET b", "GET a"}; !slices.Equal(s.asked, want) {
		t.Errorf("asked %q, want %q", s.asked, want)
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

// TestRun_ended: a program that ends at its alarm was too slow. Where there is none the next pod is tried.
func TestRun_ended(t *testing.T) {
	_, err := served(t, &server{pods: map[string]said{"a": {exit: exitAlarm}}}, "a").Run(t.Context(), ceph.Command{Args: []string{"status"}})
	if !errors.Is(err, ceph.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	s := &server{pods: map[string]said{"a": {exit: exitNoSuch}, "b": {out: "{}"}}}
	if _, err := served(t, s, "a", "b").Run(t.Context(), ceph.Command{Args: []string{"status"}}); err != nil || len(s.commands) != 1 {
		t.Errorf("%v, %q", err, s.commands)
	}
}

// TestRun_notReady: a program that does not reach the monitors, or says something else first, gets no command.
func TestRun_notReady(t *testing.T) {
	for greets, want := range map[string]error{`{"failed": "connect", "errno": 110}`: syscall.ETIMEDOUT, "hello": ceph.ErrUnreachable, "{}": ceph.ErrUnreachable} {
		s := &server{pods: map[string]said{"a": {greets: greets}, "b": {}}}
		_, err := served(t, s, "a", "b").Run(t.Context(), ceph.Command{Args: []string{"status"}})
		if !errors.Is(err, ceph.ErrUnreachable) || !errors.Is(err, want) || len(s.commands) > 0 || len(s.asked) != 1 {
			t.Errorf("%s: %v, %q", greets, err, s.asked)
		}
	}
}

// TestRun_tooMuch: half an answer is no answer.
func TestRun_tooMuch(t *testing.T) {
	s := &server{pods: map[string]said{"a": {out: strings.Repeat("x", maxLine/4*3)}}}
	r, err := served(t, s, "a").Run(t.Context(), ceph.Command{Args: []string{"status"}})
	if err == nil || len(r.Stdout) > 0 || !strings.Contains(err.Error(), "more than") {
		t.Errorf("%d bytes, %v", len(r.Stdout), err)
	}
}

// TestRun_keys: what a program says is in no error.
func TestRun_keys(t *testing.T) {
	const secret = "AQBsecretsecretsecretsecretsecret=="
	for _, does := range []said{{out: secret, broken: true}, {out: secret, late: true}, {greets: secret}} {
		s := &server{pods: map[string]said{"a": does}}
		_, err := served(t, s, "a").Run(t.Context(), ceph.Command{Args: []string{"auth", "get", "client.x"}})
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%+v: %v", does, err)
		}
	}
}

// TestRun_turns: no more programs run at the same time than the pod has memory for.
func TestRun_turns(t *testing.T) {
	s := &server{t: t, pods: map[string]said{"a": {out: "{}"}}}
	r := served(t, s, "a")
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			if _, err := r.Run(t.Context(), ceph.Command{Args: []string{"status"}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(s.asked) > 2 || len(s.commands) != 12 {
		t.Errorf("%d programs for %d commands", len(s.asked), len(s.commands))
	}
}
