//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// rests has a node without a brick under maintenance, and then one with a brick, whose machine is cordoned and whose server is away meanwhile. Clients write. No brick is
// moved, and no node is made.
func (j *glusterJourney) rests(t *testing.T) {
	if err := ask(t.Context(), "heals/v", nil); err != nil {
		t.Fatal(err)
	}
	for _, full := range []bool{false, true} {
		found := withBrick(t.Context(), t, full)
		// The last one is on no machine that a step leaves alone.
		n := found[len(found)-1]
		before := glusterThings(t)
		j.disable(t, n)
		j.write(t, fmt.Sprintf("while-%s-rests", n.Name))
		if full {
			j.awayWhileResting(t, n)
		}
		j.remains(t, n, before, full)

		began := time.Now()
		setDesired(t, n, v1alpha1.GlusterEnabled)
		waitNode(t, n, "the node is online", func(n *v1alpha1.GlusterNode) bool { return n.Status.State == "online" })
		devicesAre(t, n, "enabled")
		eventually(t, limitPool, "the pool runs", poolRuns(j.c))
		t.Logf("%s was back after %.0f s", n.Name, time.Since(began).Seconds())
		j.whole(t)
		j.remains(t, n, before, full)
	}
}

// disable has a node under maintenance, as docs/gluster.md says, and waits until glusterd2 puts no brick there.
func (j *glusterJourney) disable(t *testing.T, n v1alpha1.GlusterNode) {
	t.Helper()
	devicesAre(t, n, "enabled")
	setDesired(t, n, v1alpha1.GlusterDisabled)
	waitNode(t, n, "the node is under maintenance", func(n *v1alpha1.GlusterNode) bool {
		c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionDevicesReady)
		return n.Status.State == "quiesced" && c != nil && c.Reason == v1alpha1.ReasonDeviceDisabled
	})
	devicesAre(t, n, "disabled")
	eventually(t, limitPod, "the pool has a node under maintenance, and serves", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(j.c), j.c); err != nil {
			return err
		}
		s := j.c.Status.NodeStates
		if s == nil || s.Quiesced != 1 || s.Offline != 0 || !meta.IsStatusConditionTrue(j.c.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("%+v: %+v", s, j.c.Status.Conditions)
		}
		return nil
	})
}

// setDesired says what a person wants of a node.
func setDesired(t *testing.T, n v1alpha1.GlusterNode, to v1alpha1.GlusterDesiredState) {
	t.Helper()
	lab(t, "kubectl", "-n", glusterNamespace, "patch", "qgn", n.Name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"desiredState":%q}}`, to))
}

// devicesAre waits until all devices of a node, of which there is one at least, are so in glusterd2.
func devicesAre(t *testing.T, n v1alpha1.GlusterNode, state string) {
	t.Helper()
	eventually(t, limitPool, "the devices of "+n.Name+" are "+state, func(ctx context.Context) error {
		all, err := serverDevices(ctx, n)
		if err == nil && len(all) == 0 {
			err = errors.New("it has none")
		}
		for _, d := range all {
			if d.State != state {
				err = fmt.Errorf("%s is %s", d.Device, d.State)
			}
		}
		return err
	})
}

// awayWhileResting takes the server of a node under maintenance away for longer than a node is down until it is offline. A client writes, and the brick gets that when the server is back.
func (j *glusterJourney) awayWhileResting(t *testing.T, n v1alpha1.GlusterNode) {
	t.Helper()
	name := n.Name + "-0"
	old := glusterPods(t)[name]
	back := keepAway(t, old)
	waitNode(t, n, "glusterd2 says for a minute that it is down", func(n *v1alpha1.GlusterNode) bool {
		c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionPeerOnline)
		return n.Status.Flags != nil && !n.Status.Flags.IsUp && c != nil && c.Status != metav1.ConditionTrue
	})
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(&n), &n); err != nil || n.Status.State != "quiesced" {
		t.Errorf("a node under maintenance that is down is %s: %v", n.Status.State, err)
	}
	j.write(t, fmt.Sprintf("while-%s-is-away", n.Name))
	if has, err := volumeHas(t.Context(), "v"); err != nil || lacking(has) == 0 {
		t.Errorf("the brick was away, and the volume has %+v; %v", has, err)
	}
	devicesAre(t, n, "disabled")
	back()
	eventually(t, limitPod, "the server is back", func(ctx context.Context) error {
		all, err := listGlusterPods(ctx)
		if p := all[name]; err == nil && (p.UID == old.UID || !ready(p)) {
			err = errors.New("it is not ready")
		}
		return err
	})
}

// remains wants a node with what it had, nothing that is moved, and a pool with nothing but what it had. A pod that was away has another UID.
func (j *glusterJourney) remains(t *testing.T, n v1alpha1.GlusterNode, before map[string]types.UID, full bool) {
	t.Helper()
	now := glusterThings(t)
	pod := fmt.Sprintf("%T %s-0", &corev1.Pod{}, n.Name)
	if full {
		now[pod] = before[pod]
	}
	if !maps.Equal(before, now) {
		t.Errorf("before %s was under maintenance there was\n%v\nand is\n%v", n.Name, before, now)
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(&n), &n); err != nil {
		t.Fatal(err)
	}
	if n.Spec.Move != nil || meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionDrained) != nil || (n.Status.Bricks > 0) != full {
		t.Errorf("%s has %d bricks, and is drained: %+v", n.Name, n.Status.Bricks, n.Spec.Move)
	}
	j.condition(t, limitPod, v1alpha1.ConditionTemplatesSized, metav1.ConditionTrue, "")
}
