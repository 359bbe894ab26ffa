package cephpod

import (
	"encoding/binary"
	"encoding/json"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// says serves the socket of a daemon as Ceph does: a question ends with a zero, and an answer begins with its length.
func says(t *testing.T, path string, answer *atomic.Value) (asked *atomic.Value) {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	asked = &atomic.Value{}
	asked.Store([]string{})
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			text := make([]byte, 256)
			n, _ := c.Read(text)
			var question struct{ Prefix, Format string }
			if n > 0 && text[n-1] == 0 && json.Unmarshal(text[:n-1], &question) == nil && question.Format == "json" {
				asked.Store(append(asked.Load().([]string), question.Prefix))
			}
			whole := binary.BigEndian.AppendUint32(nil, uint32(len(answer.Load().(string))))
			whole = append(whole, answer.Load().(string)...)
			if strings.HasSuffix(string(whole), "…") {
				whole = whole[:len(whole)-8]
			}
			_, _ = c.Write(whole) // The program may have ended.
			c.Close()
		}
	}()
	return asked
}

// run runs what a probe of a container runs, with the paths of the test.
func run(t *testing.T, c corev1.Container, p *corev1.Probe, socket, mark string) error {
	t.Helper()
	command := append([]string{}, p.Exec.Command...)
	command[2], command[3] = strings.ReplaceAll(command[2], takenUp, mark), socket
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	for _, e := range c.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	return cmd.Run()
}

// TestReady: a daemon is ready once Ceph has taken it up, since a budget counts a pod that is ready as one that serves. It is not ended for that, and all but monitors are not asked any more afterwards.
func TestReady(t *testing.T) {
	plan := Of(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "files", UID: fsid}})
	type row struct {
		says  string
		ready bool
	}
	for kind, tt := range map[string]struct {
		question string
		rows     []row
		asked    int
	}{
		cephname.DaemonMonitor:  {"mon_status", []row{{`{"state":"probing"}`, false}, {`{"state":"leader"}`, true}, {`{"state":"electing"}`, false}, {`{"state":"peon"}`, true}}, 4},
		cephname.DaemonOSD:      {"status", []row{{`{"state":"booting"}`, false}, {`{"state":"active"}…`, false}, {`{"want_state":"active","state":"preboot"}`, false}, {`{"state":"active"}`, true}, {`{}`, true}}, 4},
		cephname.DaemonMetadata: {"status", []row{{`{"state":"up:boot"}`, false}, {`{"state":"up:replay"}`, false}, {`{"state":"up:standby"}`, true}, {`{}`, true}}, 3},
		cephname.DaemonManager:  {"version", []row{{``, false}, {`{"version":"20.2.4"}`, true}, {``, true}}, 2},
	} {
		main := plan.Deployment(Daemon{Kind: kind, ID: "7", Node: "n1", UUID: "u", Device: "/dev/x"}).Spec.Template.Spec.Containers[0]
		if want := "/run/ceph/ceph-" + kind + ".7.asok"; main.StartupProbe != nil || main.ReadinessProbe.Exec.Command[3] != want {
			t.Errorf("%s: %v, %v", kind, main.StartupProbe, main.ReadinessProbe.Exec.Command)
		}
		dir := t.TempDir()
		socket, answer := filepath.Join(dir, "s"), &atomic.Value{}
		asked := says(t, socket, answer)
		for i, row := range tt.rows {
			answer.Store(row.says)
			if err := run(t, main, main.ReadinessProbe, socket, filepath.Join(dir, "mark")); (err == nil) != row.ready {
				t.Errorf("%s: %d: ready %t, %v", kind, i, err == nil, err)
			}
		}
		if got := asked.Load().([]string); len(got) != tt.asked || got[0] != tt.question {
			t.Errorf("%s: asked %q", kind, got)
		}
	}
}

// TestAlive: a daemon that answers lives, whatever it says; one without a socket does not.
func TestAlive(t *testing.T) {
	plan := Of(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "files", UID: fsid}})
	main := plan.Deployment(Daemon{Kind: cephname.DaemonOSD, ID: "7", Node: "n1", UUID: "u", Device: "/dev/x"}).Spec.Template.Spec.Containers[0]
	dir := t.TempDir()
	socket, answer := filepath.Join(dir, "s"), &atomic.Value{}
	if err := run(t, main, main.LivenessProbe, socket, filepath.Join(dir, "mark")); err == nil {
		t.Error("one without a socket lives")
	}
	answer.Store(`{"version":"20.2.4"}`)
	asked := says(t, socket, answer)
	for range 2 {
		if err := run(t, main, main.LivenessProbe, socket, filepath.Join(dir, "mark")); err != nil {
			t.Error(err)
		}
	}
	if got := asked.Load().([]string); len(got) != 2 || got[1] != "version" {
		t.Errorf("asked %q", got)
	}
	if monitor := plan.Deployment(Daemon{Kind: cephname.DaemonMonitor, ID: "a", Node: "n1"}).Spec.Template.Spec.Containers[0]; monitor.LivenessProbe.TCPSocket == nil {
		t.Errorf("a monitor without a quorum is ended: %+v", monitor.LivenessProbe)
	}
}
