//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// glusterJourney is what the steps share: a pool, and what clients wrote into its volume v.
type glusterJourney struct {
	c     *v1alpha1.GlusterCluster
	files []string
}

// TestGlusterPool makes a pool of four servers in four zones on local volumes, with a real etcd over TLS and the stand-in for glusterd2, which gets glusterd2's arguments, and a volume
// with two copies. Its pods get other images; nodes are under maintenance and back; a node with a brick leaves while controllers are killed; a template grows and shrinks by what is free; a server takes a disk of its machine; etcd loses a
// member, then the majority; a machine dies for good. After
// each step the volume has all files. Then the pool is deleted, and nothing is left. RUN=TestGlusterPool/STEP takes one step alone.
func TestGlusterPool(t *testing.T) {
	needGluster(t)
	create(t, newCluster("gluster", nodes...))
	waitReady(t, "gluster", limitPod)
	glusterRights(t)
	glusterNames(t)
	withGluster(t)
	glusterModel(t)
	j := &glusterJourney{c: glusterPool()}
	if err := kube.Create(t.Context(), j.c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removePool(t, j.c) })
	defer dumpGluster(t)
	eventually(t, limitPool, "the pool runs", poolRuns(j.c))
	etcdServes(t)
	j.fill(t)
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"rolls", j.rolls}, {"rests", j.rests}, {"leaves", j.leaves}, {"sizes", j.sizes}, {"disk", j.takesDisk}, {"etcd", j.losesEtcd}, {"dies", j.dies},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			defer dumpGluster(t)
			step.do(t)
			j.whole(t)
		}) {
			eventually(t, limitPool, "the pool runs even so", poolRuns(j.c))
		}
	}
	if err := ask(t.Context(), "delete/v", nil); err != nil {
		t.Fatal(err)
	}
	removePool(t, j.c)
	noClaims(t, "pool")
	nothingStrange(t)
}

// fill makes the volume v with a copy in the zones a and b, and writes a file.
func (j *glusterJourney) fill(t *testing.T) {
	t.Helper()
	createVolume(t, "v", 500, "a", "b")
	j.write(t, "first")
	eventually(t, limitPod, "two nodes have a brick", func(ctx context.Context) error {
		if n := len(withBrick(ctx, t, true)); n != 2 {
			return fmt.Errorf("%d have", n)
		}
		return nil
	})
}

// createVolume has the model make a volume of so many MiB, with a copy in each of some zones of the template's nodes. A brick is an XFS, which has 300 MB at least. One that
// takes its place is made with the size of its filesystem, without the log, so that it is smaller.
func createVolume(t *testing.T, name string, mebibytes int, zones ...string) {
	t.Helper()
	if err := ask(t.Context(), "create/"+name, map[string][]string{"size": {fmt.Sprint(mebibytes << 20)}, "replica": {fmt.Sprint(len(zones))}, "zone": zones}); err != nil {
		t.Fatal(err)
	}
}

// write has a client write a file into the volume.
func (j *glusterJourney) write(t *testing.T, file string) {
	t.Helper()
	if err := ask(t.Context(), "write/v", map[string][]string{"file": {file}}); err != nil {
		t.Fatal(err)
	}
	j.files = append(j.files, file)
}

// whole waits until the model says of the volume that it has exactly the files that were written, on two bricks, of which none lacks any.
func (j *glusterJourney) whole(t *testing.T) {
	t.Helper()
	volumeWhole(t, "v", j.files...)
}

// volumeWhole waits until the model says of a volume that it has exactly some files, on two bricks, of which none lacks any.
func volumeWhole(t *testing.T, name string, files ...string) {
	t.Helper()
	eventually(t, limitPod, fmt.Sprintf("volume %s is whole, with %d files", name, len(files)), func(ctx context.Context) error {
		has, err := volumeHas(ctx, name)
		if err != nil {
			return err
		}
		if !slices.Equal(has.Files, files) || len(has.Bricks) != 2 || lacking(has) > 0 {
			return fmt.Errorf("it has %+v, and %v were written", has, files)
		}
		return nil
	})
}

// withBrick are the nodes that have a brick of the volume, or those that have none.
func withBrick(ctx context.Context, t *testing.T, want bool) (found []v1alpha1.GlusterNode) {
	t.Helper()
	all, err := glusterNodes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		if n.Status.Bricks > 0 == want {
			found = append(found, n)
		}
	}
	return found
}

// etcdServes wants three members, each on a node of its own.
func etcdServes(t *testing.T) {
	t.Helper()
	pods := &corev1.PodList{}
	if err := kube.List(t.Context(), pods, client.InNamespace(glusterNamespace), client.MatchingLabels{v1alpha1.LabelGlusterPart: "etcd"}); err != nil {
		t.Fatal(err)
	}
	on := map[string]bool{}
	for _, p := range pods.Items {
		on[p.Spec.NodeName] = true
	}
	if len(on) != glusterMembers {
		t.Errorf("the members of etcd are on %v", on)
	}
}

// leaves has a node with a brick removed. Whenever something else is told of it, the controller that leads is killed.
func (j *glusterJourney) leaves(t *testing.T) {
	full := withBrick(t.Context(), t, true)
	full = slices.DeleteFunc(full, func(n v1alpha1.GlusterNode) bool { return n.Spec.Zone == "a" })
	if len(full) == 0 {
		t.Fatal("only the node that stays has a brick")
	}
	n := full[0]
	removeGlusterNode(t, n)
	seen := drainReasons(t, n)
	kills, leader := 0, ""
	waitRemoved(t, n, func(*v1alpha1.GlusterNode) {
		if kills < 15 {
			leader = killLeader(t, leader)
			kills++
		}
	})
	t.Logf("the controller was killed %d times", kills)
	if reasons := seen(); !reasons[v1alpha1.ReasonHealing] || !reasons[v1alpha1.ReasonDrained] {
		t.Errorf("it was not drained: %v", reasons)
	}
	eventually(t, limitPool, "another node is there", poolRuns(j.c))
	noClaims(t, n.Name)
}

// drainReasons looks all the time at why a node is not drained yet, also while the test waits for something else. The result ends that, and returns all reasons that were seen.
func drainReasons(t *testing.T, n v1alpha1.GlusterNode) (seen func() map[string]bool) {
	t.Helper()
	reasons := map[string]bool{}
	return polled(t, reasons, func(ctx context.Context) {
		one := &v1alpha1.GlusterNode{}
		if err := kube.Get(ctx, client.ObjectKeyFromObject(&n), one); err != nil {
			return
		}
		if c := meta.FindStatusCondition(one.Status.Conditions, v1alpha1.ConditionDrained); c != nil {
			reasons[c.Reason] = true
		}
	})
}

// polled looks at something ten times a second, until the function that it returns, or the end of the test, ends that. The function returns what the looks found.
func polled[T any](t *testing.T, found T, look func(context.Context)) (end func() T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			look(ctx)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	end = func() T {
		cancel()
		<-done
		return found
	}
	t.Cleanup(func() { end() })
	return end
}

// removeGlusterNode deletes a node as docs/gluster.md says.
func removeGlusterNode(t *testing.T, n v1alpha1.GlusterNode) {
	t.Helper()
	if _, err := tryLab("kubectl", "-n", glusterNamespace, "delete", "glusternode", n.Name, "--wait=false"); err == nil || !strings.Contains(err.Error(), "cannot be taken back") {
		t.Errorf("a node is deleted without a word: %v", err)
	}
	lab(t, "kubectl", "-n", glusterNamespace, "annotate", "--overwrite", "glusternode", n.Name, "quarry.storage/remove="+string(n.UID))
	lab(t, "kubectl", "-n", glusterNamespace, "delete", "glusternode", n.Name, "--wait=false")
}

// waitRemoved waits until a node is gone, and shows what is told meanwhile each time that it is something else.
func waitRemoved(t *testing.T, n v1alpha1.GlusterNode, told func(*v1alpha1.GlusterNode)) {
	t.Helper()
	last, began := "", time.Now()
	eventually(t, limitDrain, "node "+n.Name+" is gone", func(ctx context.Context) error {
		one := &v1alpha1.GlusterNode{}
		err := kube.Get(ctx, client.ObjectKeyFromObject(&n), one)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil && one.Status.Message != last {
			last = one.Status.Message
			t.Logf("after %.0f s: %s: %s", time.Since(began).Seconds(), one.Status.State, last)
			told(one)
		}
		return errors.Join(err, errors.New(last))
	})
}

// noClaims wants no claim whose name begins so.
func noClaims(t *testing.T, prefix string) {
	t.Helper()
	eventually(t, limitPod, "no claim of "+prefix+" is left", func(ctx context.Context) error {
		claims := &corev1.PersistentVolumeClaimList{}
		if err := kube.List(ctx, claims, client.InNamespace(glusterNamespace)); err != nil {
			return err
		}
		for _, c := range claims.Items {
			if strings.HasPrefix(c.Name, prefix) {
				return fmt.Errorf("claim %s is left", c.Name)
			}
		}
		return nil
	})
}
