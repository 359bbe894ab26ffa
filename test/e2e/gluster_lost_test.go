//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// losesEtcd takes away one member of etcd, and nothing changes; then a second one. Nobody knows the pool now, so a node that is deleted stays with all that it has, until
// the members return.
func (j *glusterJourney) losesEtcd(t *testing.T) {
	members := map[string]corev1.Pod{}
	for _, p := range glusterPods(t) {
		if p.Labels[v1alpha1.LabelGlusterPart] == "etcd" {
			members[p.Spec.NodeName] = p
		}
	}
	n := withBrick(t.Context(), t, false)[0]
	before := glusterThings(t)

	first := keepAway(t, members[nodes[1]])
	j.condition(t, limitPod, v1alpha1.ConditionEtcdReady, metav1.ConditionTrue, "2 of 3")
	j.write(t, "one-member-is-away")
	j.whole(t)
	eventually(t, limitPod, "the pool runs with two members", poolRuns(j.c))

	second := keepAway(t, members[nodes[2]])
	j.condition(t, limitPool, v1alpha1.ConditionEtcdReady, metav1.ConditionFalse, "of 3")
	j.condition(t, limitPool, v1alpha1.ConditionNodesReady, metav1.ConditionUnknown, "")
	if j.c.Status.State != v1alpha1.GlusterFailed {
		t.Errorf("the pool is %s without the majority of etcd", j.c.Status.State)
	}
	removeGlusterNode(t, n)
	// Long enough for several passes of who removes a node without asking. There is no event to wait for.
	time.Sleep(45 * time.Second)
	if now := glusterThings(t); !maps.Equal(before, now) {
		t.Errorf("without the majority of etcd there was\n%v\nand is\n%v", before, now)
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(&n), &n); err != nil || n.Status.State != "failed" {
		t.Errorf("the node is %s: %s, %v", n.Status.State, n.Status.Message, err)
	}
	t.Logf("meanwhile: %s", n.Status.Message)

	second()
	first()
	j.condition(t, limitPool, v1alpha1.ConditionEtcdReady, metav1.ConditionTrue, "3 of 3")
	waitRemoved(t, n, func(*v1alpha1.GlusterNode) {})
	eventually(t, limitPool, "another node is there", poolRuns(j.c))
	noClaims(t, n.Name)
}

// keepAway has a pod of a local volume end, and lets no other one run in its place until the function that it returns is called.
func keepAway(t *testing.T, p corev1.Pod) (back func()) {
	t.Helper()
	machine, done := p.Spec.NodeName, false
	if machine == "" {
		t.Fatal("there is no such pod")
	}
	lab(t, "kubectl", "cordon", machine)
	back = func() {
		if !done {
			done = true
			lab(t, "kubectl", "uncordon", machine)
		}
	}
	t.Cleanup(back)
	if err := kube.Delete(t.Context(), &p); err != nil {
		t.Fatal(err)
	}
	return back
}

// condition waits until a condition of the pool has a status, and says something.
func (j *glusterJourney) condition(t *testing.T, limit time.Duration, condition string, status metav1.ConditionStatus, says string) {
	t.Helper()
	eventually(t, limit, fmt.Sprintf("%s is %s", condition, status), func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(j.c), j.c); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(j.c.Status.Conditions, condition); c == nil || c.Status != status || !strings.Contains(c.Message, says) {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
}

// glusterThings are the nodes of the pool, and what was made for them but for etcd's pods: their UIDs by kind and name.
func glusterThings(t *testing.T) map[string]types.UID {
	t.Helper()
	all := map[string]types.UID{}
	for _, list := range []client.ObjectList{&v1alpha1.GlusterNodeList{}, &appsv1.StatefulSetList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PodList{}, &corev1.SecretList{}} {
		if err := kube.List(t.Context(), list, client.InNamespace(glusterNamespace)); err != nil {
			t.Fatal(err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			one, ok := o.(client.Object)
			if p, is := o.(*corev1.Pod); ok && (!is || p.Labels[v1alpha1.LabelGlusterPart] != "etcd") {
				all[fmt.Sprintf("%T %s", o, one.GetName())] = one.GetUID()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// dies takes the power from a machine with a server that has no brick, for good. The word of a person frees the node, and another one takes its place on another machine.
func (j *glusterJourney) dies(t *testing.T) {
	n, machine := mayDie(t)
	for _, one := range withBrick(t.Context(), t, true) {
		refusesLost(t, one)
	}
	emptyOfDrivers(t, machine)
	lab(t, "node", "kill", machine)
	started := false
	start := func() {
		if !started {
			started = true
			lab(t, "node", "start", machine)
		}
	}
	t.Cleanup(start)
	waitNode(t, n, "the node is offline", func(n *v1alpha1.GlusterNode) bool { return n.Status.State == "offline" })
	j.write(t, "a-machine-is-dead")
	j.whole(t)

	if err := sayLost(n); err != nil {
		t.Fatal(err)
	}
	waitNode(t, n, "it is told what to do about the machine", func(n *v1alpha1.GlusterNode) bool {
		return strings.Contains(n.Status.Message, "kubectl taint nodes "+machine+" node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
	})
	inService := outOfService(t, machine)
	waitRemoved(t, n, func(*v1alpha1.GlusterNode) {})
	noClaims(t, n.Name)
	eventually(t, limitPool, "the pool runs with another node", poolRuns(j.c))
	next := withBrick(t.Context(), t, false)
	i := slices.IndexFunc(next, func(one v1alpha1.GlusterNode) bool { return one.Spec.Zone == n.Spec.Zone })
	if i < 0 || next[i].UID == n.UID || glusterPods(t)[next[i].Name+"-0"].Spec.NodeName == machine {
		t.Errorf("%s was on %s, and no other node of its zone is on another machine", n.Name, machine)
	}
	j.whole(t)

	start()
	inService()
	j.condition(t, limitPool, v1alpha1.ConditionEtcdReady, metav1.ConditionTrue, "3 of 3")
	waitReady(t, "gluster", limitPool)
	eventually(t, limitPool, "no volume of "+n.Name+" is left", func(ctx context.Context) error {
		volumes := &corev1.PersistentVolumeList{}
		if err := kube.List(ctx, volumes); err != nil {
			return err
		}
		for _, v := range volumes.Items {
			if c := v.Spec.ClaimRef; c != nil && c.Namespace == glusterNamespace && strings.HasPrefix(c.Name, n.Name) {
				return fmt.Errorf("volume %s is %s", v.Name, v.Status.Phase)
			}
		}
		return nil
	})
}

// mayDie returns a node without a brick that is alone on its machine, and the machine, which is another one than that of the API server.
func mayDie(t *testing.T) (n v1alpha1.GlusterNode, machine string) {
	t.Helper()
	servers, on := map[string]int{}, map[string]string{}
	for name, p := range glusterPods(t) {
		if p.Labels[v1alpha1.LabelGlusterPart] != "etcd" {
			servers[p.Spec.NodeName]++
			on[strings.TrimSuffix(name, "-0")] = p.Spec.NodeName
		}
	}
	for _, n := range withBrick(t.Context(), t, false) {
		if machine := on[n.Name]; machine != "" && machine != nodes[0] && servers[machine] == 1 {
			return n, machine
		}
	}
	t.Fatalf("the servers are on %v, and no one without a brick has a machine for itself that is not %s", on, nodes[0])
	return n, ""
}

// refusesLost says of a node that serves that it is lost, and wants the API server to refuse that.
func refusesLost(t *testing.T, n v1alpha1.GlusterNode) {
	t.Helper()
	if err := sayLost(n); err == nil || !strings.Contains(err.Error(), "spec.lost is refused: the node is online.") {
		t.Errorf("node %s serves, and is said to be lost: %v", n.Name, err)
	}
}

// sayLost writes a person's word that a node is gone for ever.
func sayLost(n v1alpha1.GlusterNode) error {
	_, err := tryLab("kubectl", "-n", glusterNamespace, "patch", "glusternode", n.Name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"lost":%q}}`, n.UID))
	return err
}

// waitNode waits until something is so of a node.
func waitNode(t *testing.T, n v1alpha1.GlusterNode, what string, is func(*v1alpha1.GlusterNode) bool) {
	t.Helper()
	eventually(t, limitPool, what, func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(&n), &n); err != nil {
			return err
		}
		if !is(&n) {
			return errors.New(string(n.Status.State) + ": " + n.Status.Message)
		}
		return nil
	})
}
