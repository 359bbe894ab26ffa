//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestGlusterPool makes a pool of three servers on local volumes, with a real etcd over TLS and the stand-in for glusterd2, which gets glusterd2's arguments. A node
// with a brick is deleted: the brick is moved, the node goes with its claims, and another one takes its place. Then the pool is deleted, and nothing is left.
func TestGlusterPool(t *testing.T) {
	needGluster(t)
	create(t, newCluster("gluster", nodes...))
	waitReady(t, "gluster", limitPod)
	glusterRights(t)
	glusterNames(t)
	withGluster(t)
	glusterModel(t)
	c := glusterPool()
	if err := kube.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			dumpGluster(t)
		}
		removePool(t, c)
	})
	eventually(t, limitPool, "the pool runs", poolRuns(c, 3))
	etcdServes(t)

	full := withBrick(t)
	removeGlusterNode(t, full)
	eventually(t, limitPool, "another node is there", poolRuns(c, 3))
	noClaims(t, full.Name)

	all, err := glusterNodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	volumeIsWhole(t, all[0].Name, "v", 2, "a")
	if err := askHub(t.Context(), all[0].Name, "delete/v", nil); err != nil {
		t.Fatal(err)
	}
	removePool(t, c)
	noClaims(t, "pool")
	nothingStrange(t)
}

// glusterPool is a GlusterCluster of three zones without drivers, as small as the lab is.
func glusterPool() *v1alpha1.GlusterCluster {
	c := &v1alpha1.GlusterCluster{ObjectMeta: metav1.ObjectMeta{Namespace: glusterNamespace, Name: "pool"}}
	c.Spec.Images = v1alpha1.GlusterImages{Glusterd2: glusterImage, Etcd: v1alpha1.GlusterImage(etcdImage("1"))}
	c.Spec.Drivers = []v1alpha1.GlusterDriver{}
	c.Spec.State = &v1alpha1.GlusterState{Capacity: new(resource.MustParse("512Mi"))}
	for _, zone := range []string{"a", "b", "c"} {
		c.Spec.NodeTemplates = append(c.Spec.NodeTemplates, v1alpha1.GlusterNodeTemplate{
			Name: zone, Threshold: v1alpha1.GlusterThreshold{Nodes: new(int32(1))},
			Storage: v1alpha1.GlusterTemplateStorage{StorageClassName: "gluster", Capacity: resource.MustParse("1Gi")},
		})
	}
	return c
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
	if len(on) != 3 {
		t.Errorf("the members of etcd are on %v", on)
	}
}

// withBrick makes a volume of two copies with three files, and returns a node that has a brick of it.
func withBrick(t *testing.T) v1alpha1.GlusterNode {
	t.Helper()
	all, err := glusterNodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A brick is an XFS, which has 300 MB at least. The one in its place is made with the size of the filesystem, without its log, so that it is smaller.
	if err := askHub(t.Context(), all[0].Name, "create/v", map[string]string{"size": fmt.Sprint(500 << 20), "replica": "2"}); err != nil {
		t.Fatal(err)
	}
	if err := askHub(t.Context(), all[0].Name, "write/v", map[string]string{"file": "a"}); err != nil {
		t.Fatal(err)
	}
	var full v1alpha1.GlusterNode
	eventually(t, limitPod, "a node has a brick", func(ctx context.Context) error {
		all, err := glusterNodes(ctx)
		for _, n := range all {
			if n.Status.Bricks > 0 && len(n.Status.Holding) > 0 {
				full = n
				return nil
			}
		}
		return errors.Join(err, errors.New("no node has a brick"))
	})
	return full
}

// removeGlusterNode deletes a node as docs/gluster.md says, and waits until it is gone. It has to have been drained.
func removeGlusterNode(t *testing.T, n v1alpha1.GlusterNode) {
	t.Helper()
	if _, err := tryLab("kubectl", "-n", glusterNamespace, "delete", "glusternode", n.Name, "--wait=false"); err == nil || !strings.Contains(err.Error(), "cannot be taken back") {
		t.Errorf("a node is deleted without a word: %v", err)
	}
	lab(t, "kubectl", "-n", glusterNamespace, "annotate", "--overwrite", "glusternode", n.Name, "quarry.storage/remove="+string(n.UID))
	lab(t, "kubectl", "-n", glusterNamespace, "delete", "glusternode", n.Name, "--wait=false")
	reasons, last, began := map[string]bool{}, "", time.Now()
	eventually(t, limitDrain, "node "+n.Name+" is gone", func(ctx context.Context) error {
		one := &v1alpha1.GlusterNode{}
		err := kube.Get(ctx, client.ObjectKeyFromObject(&n), one)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if c := meta.FindStatusCondition(one.Status.Conditions, v1alpha1.ConditionDrained); err == nil && c != nil {
			reasons[c.Reason] = true
		}
		if err == nil && one.Status.Message != last {
			last = one.Status.Message
			t.Logf("after %.0f s: %s: %s", time.Since(began).Seconds(), one.Status.State, last)
		}
		return errors.Join(err, errors.New(last))
	})
	if !reasons[v1alpha1.ReasonHealing] || !reasons[v1alpha1.ReasonDrained] {
		t.Errorf("it was not drained: %v", reasons)
	}
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

// removePool deletes the pool, and waits until it is gone.
func removePool(t *testing.T, c *v1alpha1.GlusterCluster) {
	t.Helper()
	ctx := context.Background()
	if err := kube.Delete(ctx, c); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
	last, began := "", time.Now()
	for time.Since(began) < limitDrain {
		err := kube.Get(ctx, client.ObjectKeyFromObject(c), c)
		if apierrors.IsNotFound(err) {
			t.Logf("the pool is gone after %.0f s", time.Since(began).Seconds())
			return
		}
		if ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady); err == nil && ready != nil && ready.Message != last {
			last = ready.Message
			t.Logf("after %.0f s: %s", time.Since(began).Seconds(), last)
		}
		time.Sleep(time.Second)
	}
	t.Errorf("the pool is still there: %s", last)
}
