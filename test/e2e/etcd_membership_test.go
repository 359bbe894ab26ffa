//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// conditionMember is what the membership says of a pod: it is a voter, and has applied all that the leader had.
const conditionMember corev1.PodConditionType = "example.org/member"

// membership does what an operator of etcd does beside a StatefulCluster, and no more: it lets members that were given up go, new ones join,
// and says of each pod whether it has the data. It gives nothing to Quarry but that condition.
type membership struct {
	name string
	// begun says that the first member was told to begin a new cluster: nobody may be told twice.
	begun bool
	// told has the containers that know how to join.
	told map[string]bool

	mu sync.Mutex
	// voters are the addresses that take writes.
	voters []string
	// last is why the last pass stopped early.
	last error
}

// addresses returns where writes go.
func (m *membership) addresses() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.voters)
}

// run looks after the members until the test ends.
func (m *membership) run(ctx context.Context) {
	for ctx.Err() == nil {
		pass, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := m.pass(pass)
		cancel()
		m.mu.Lock()
		m.last = err
		m.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// runningContainer is the container of a pod that runs, or nothing.
func runningContainer(p *corev1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil {
			return c.ContainerID
		}
	}
	return ""
}

func peerURL(p *corev1.Pod) string { return "http://" + p.Status.PodIP + ":2380" }

// pass does what there is to do for each member, one change of the membership at most.
func (m *membership) pass(ctx context.Context) error {
	pods, gone, err := m.observe(ctx)
	if err != nil {
		return err
	}
	if !m.begun {
		if len(pods) == 0 {
			return errors.New("no pod runs yet")
		}
		p := &pods[0]
		err := m.tell(ctx, p, p.Name+"="+peerURL(p), "new")
		m.begun = err == nil
		return err
	}
	status, leader := m.look(ctx, pods)
	if leader == nil {
		return errors.New("no member knows a leader")
	}
	members, err := etcdMembers(ctx, leader.Status.PodIP)
	if err != nil {
		return err
	}
	return errors.Join(m.judge(ctx, pods, members, status, leader), m.change(ctx, pods, gone, members, leader))
}

// observe returns the pods whose container runs, oldest first, and the replicas that were given up.
func (m *membership) observe(ctx context.Context) (pods []corev1.Pod, gone map[string]bool, err error) {
	of := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelStatefulCluster: m.name}}
	var list corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	if err := errors.Join(kube.List(ctx, &list, of...), kube.List(ctx, &claims, of...)); err != nil {
		return nil, nil, err
	}
	gone = map[string]bool{}
	for _, c := range claims.Items {
		switch c.Annotations[v1alpha1.AnnotationReplicaState] {
		case v1alpha1.ReplicaReplaced, v1alpha1.ReplicaScaled, v1alpha1.ReplicaRolled:
			gone[m.name+"-"+c.Labels[v1alpha1.LabelIdentity]] = true
		}
	}
	for _, p := range list.Items {
		if p.DeletionTimestamp.IsZero() && p.Status.PodIP != "" && runningContainer(&p) != "" && !gone[p.Name] {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return pods, gone, nil
}

// look asks every pod how its member is, and finds one that knows a leader and votes.
func (m *membership) look(ctx context.Context, pods []corev1.Pod) (map[string]etcdStatus, *corev1.Pod) {
	status := map[string]etcdStatus{}
	var serving *corev1.Pod
	var voters []string
	for i := range pods {
		var s etcdStatus
		if etcdCall(ctx, pods[i].Status.PodIP, "maintenance/status", struct{}{}, &s) != nil || s.Leader == "" || s.Leader == "0" {
			continue
		}
		status[pods[i].Name] = s
		if !s.IsLearner {
			voters = append(voters, pods[i].Status.PodIP)
			serving = &pods[i]
		}
	}
	m.mu.Lock()
	m.voters = voters
	m.mu.Unlock()
	return status, serving
}

// judge says of each pod whether it is a member that has what the others had a moment before.
func (m *membership) judge(ctx context.Context, pods []corev1.Pod, members []etcdMember, before map[string]etcdStatus, leader *corev1.Pod) error {
	var errs []error
	for i := range pods {
		p := &pods[i]
		var now etcdStatus
		voter := slices.ContainsFunc(members, func(e etcdMember) bool {
			return e.Name == p.Name && !e.IsLearner && slices.Contains(e.PeerURLs, peerURL(p))
		})
		has := voter && etcdCall(ctx, p.Status.PodIP, "maintenance/status", struct{}{}, &now) == nil && now.index() >= before[leader.Name].index()
		errs = append(errs, setMember(ctx, p, has))
	}
	return errors.Join(errs...)
}

// setMember writes the condition, unless it is there.
func setMember(ctx context.Context, p *corev1.Pod, has bool) error {
	want := corev1.PodCondition{Type: conditionMember, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}
	if has {
		want.Status = corev1.ConditionTrue
	}
	patch := client.MergeFromWithOptions(p.DeepCopy(), client.MergeFromWithOptimisticLock{})
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == conditionMember })
	switch {
	case i < 0:
		p.Status.Conditions = append(p.Status.Conditions, want)
	case p.Status.Conditions[i].Status == want.Status:
		return nil
	default:
		p.Status.Conditions[i] = want
	}
	return kube.Status().Patch(ctx, p, patch)
}

// change lets one member go, join, move to another address or vote, and tells pods whose members are known how to start.
func (m *membership) change(ctx context.Context, pods []corev1.Pod, gone map[string]bool, members []etcdMember, leader *corev1.Pod) error {
	call := func(method string, request map[string]any) error {
		return etcdCall(ctx, leader.Status.PodIP, "cluster/member/"+method, request, &struct{}{})
	}
	for _, e := range members {
		if gone[e.Name] {
			return call("remove", map[string]any{"ID": e.ID})
		}
	}
	for i := range pods {
		p := &pods[i]
		at := slices.IndexFunc(members, func(e etcdMember) bool {
			return e.Name == p.Name || e.Name == "" && slices.Contains(e.PeerURLs, peerURL(p))
		})
		if at < 0 {
			// One learner at a time, which is also what etcd takes. It votes when it has the data.
			if slices.ContainsFunc(members, func(e etcdMember) bool { return e.IsLearner }) {
				continue
			}
			return call("add", map[string]any{"peerURLs": []string{peerURL(p)}, "isLearner": true})
		}
		e := members[at]
		if !slices.Contains(e.PeerURLs, peerURL(p)) {
			return call("update", map[string]any{"ID": e.ID, "peerURLs": []string{peerURL(p)}})
		}
		if !m.told[runningContainer(p)] {
			return m.tell(ctx, p, initialCluster(members, p), "existing")
		}
		if e.Name != "" && e.IsLearner {
			if err := call("promote", map[string]any{"ID": e.ID}); err != nil && !strings.Contains(err.Error(), "in sync") {
				return err
			}
		}
	}
	return nil
}

// initialCluster lists the members the way a new one has to know them.
func initialCluster(members []etcdMember, joins *corev1.Pod) string {
	var all []string
	for _, e := range members {
		name := e.Name
		if name == "" {
			name = joins.Name
		}
		for _, u := range e.PeerURLs {
			all = append(all, name+"="+u)
		}
	}
	return strings.Join(all, ",")
}

// tell writes into a pod how its member starts; test/etcd/member waits for it.
func (m *membership) tell(ctx context.Context, p *corev1.Pod, cluster, state string) error {
	script := fmt.Sprintf("printf 'CLUSTER=%s\\nSTATE=%s\\n' > /run/etcd/.join && mv /run/etcd/.join /run/etcd/join", cluster, state)
	call := labCommand("kubectl", "-n", namespace, "exec", p.Name, "--", "sh", "-ec", script)
	cmd := exec.CommandContext(ctx, call.Path, call.Args[1:]...)
	cmd.Dir = call.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("tell %s: %w: %s", p.Name, err, out)
	}
	m.told[runningContainer(p)] = true
	return nil
}

// startMembership begins to look after the members of a StatefulCluster, until the test ends.
func startMembership(t *testing.T, name string) *membership {
	t.Helper()
	m := &membership{name: name, told: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if t.Failed() {
			t.Logf("the membership stopped at: %v; voters %v", m.last, m.voters)
		}
	})
	return m
}
