//go:build e2e

package e2e

import (
	"context"
	"errors"
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

// glusterZones are the zones of the pool, with one node each, and glusterMembers how many members its etcd has.
var glusterZones = []string{"a", "b", "c", "d"}

const glusterMembers = 3

// glusterPool is a GlusterCluster of four zones without drivers, as small as the lab is. What is in the first zone stays on the machine of the API server and of the
// model, which no step takes the power from. The second and the third zone have a machine of their own, as long as it is there, so that one without a
// brick can be lost.
func glusterPool() *v1alpha1.GlusterCluster {
	c := &v1alpha1.GlusterCluster{ObjectMeta: metav1.ObjectMeta{Namespace: glusterNamespace, Name: "pool"}}
	c.Spec.Images = v1alpha1.GlusterImages{Glusterd2: glusterImage, Etcd: v1alpha1.GlusterImage(etcdImage("1"))}
	c.Spec.Drivers = []v1alpha1.GlusterDriver{}
	// A machine has less than 4 GiB, for a member of etcd, two servers, and the state of one with a disk of its own.
	c.Spec.State = &v1alpha1.GlusterState{Capacity: new(resource.MustParse("384Mi"))}
	for i, zone := range glusterZones {
		t := glusterTemplate(zone, v1alpha1.GlusterThreshold{Nodes: new(int32(1))})
		on := onMachine(nodes[i%len(nodes)])
		if i == 0 {
			t.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{on}}}
		} else {
			t.NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: on}}}
		}
		c.Spec.NodeTemplates = append(c.Spec.NodeTemplates, t)
	}
	return c
}

// glusterTemplate is a template on local volumes, whose name is its zone.
func glusterTemplate(name string, threshold v1alpha1.GlusterThreshold) v1alpha1.GlusterNodeTemplate {
	return v1alpha1.GlusterNodeTemplate{
		Name: name, Threshold: threshold, Storage: v1alpha1.GlusterTemplateStorage{StorageClassName: "gluster", Capacity: resource.MustParse("1Gi")},
	}
}

// onMachine chooses a machine.
func onMachine(name string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}
}

// glusterNodes are the nodes of the pool.
func glusterNodes(ctx context.Context) ([]v1alpha1.GlusterNode, error) {
	list := &v1alpha1.GlusterNodeList{}
	err := kube.List(ctx, list, client.InNamespace(glusterNamespace))
	return list.Items, err
}

// poolRuns has nothing to say once the pool runs with one node for each of its zones.
func poolRuns(c *v1alpha1.GlusterCluster) func(context.Context) error {
	return poolRunsWith(c, int32(len(glusterZones)))
}

// poolRunsWith has nothing to say once the pool runs with so many nodes.
func poolRunsWith(c *v1alpha1.GlusterCluster, want int32) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if s := c.Status; s.State != v1alpha1.GlusterRunning || s.Nodes != want || s.NodeStates == nil || s.NodeStates.Online != want {
			var why []string
			for _, one := range s.Conditions {
				if one.Status != metav1.ConditionTrue {
					why = append(why, one.Type+": "+one.Message)
				}
			}
			return errors.New(string(s.State) + ": " + strings.Join(why, " "))
		}
		return nil
	}
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
