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

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// sizedTemplate is the template, and the zone, whose number of nodes follows what is free.
const sizedTemplate = "e"

// sizes adds a template with bounds for what is free. One node is made. While it is under maintenance the number is frozen, whatever the bounds say. Volumes take the space, and a second one is made;
// one of them goes, and so does a node, which has a brick of another one. The brick is moved first. Every node is seen, so that none was made more than once for the same space.
func (j *glusterJourney) sizes(t *testing.T) {
	seen := watchTemplate(t)
	all := int32(len(glusterZones))
	j.bounds(t, "150Mi", "1150Mi")
	eventually(t, limitPool, "the pool runs with a node of the template", poolRunsWith(j.c, all+1))
	first := j.ofTemplate(t, 1)[0]
	j.frozen(t, first)

	// The other copies of the volumes have room where v has none.
	spare := withBrick(t.Context(), t, false)
	createVolume(t, "x", 420, string(spare[0].Spec.Zone), sizedTemplate)
	createVolume(t, "w", 500, string(spare[1].Spec.Zone), sizedTemplate)
	began := time.Now()
	eventually(t, limitPool, "the pool has grown", poolRunsWith(j.c, all+2))
	t.Logf("the template grew within %.0f s: %s", time.Since(began).Seconds(), j.sizing())
	nodes := j.ofTemplate(t, 2)
	second := nodes[slices.IndexFunc(nodes, func(n v1alpha1.GlusterNode) bool { return n.UID != first.UID })]
	createVolume(t, "y", 380, string(spare[1].Spec.Zone), sizedTemplate)
	if err := ask(t.Context(), "write/y", map[string][]string{"file": {"moved"}}); err != nil {
		t.Fatal(err)
	}
	waitNode(t, second, "the second node has the brick", func(n *v1alpha1.GlusterNode) bool { return n.Status.Bricks == 1 })
	j.settled(t, 2)

	reasons := drainReasons(t, second)
	if err := ask(t.Context(), "delete/w", nil); err != nil {
		t.Fatal(err)
	}
	j.shrinks(t, second)
	if r := reasons(); !r[v1alpha1.ReasonHealing] || !r[v1alpha1.ReasonDrained] {
		t.Errorf("%s was not drained: %v", second.Name, r)
	}
	volumeWhole(t, "y", "moved")
	volumeWhole(t, "x")
	j.settled(t, 1)
	wantSeen(t, seen(), first, second)
	j.endTemplate(t, first)
}

// bounds gives the template bounds for what is free, and makes it if there is none.
func (j *glusterJourney) bounds(t *testing.T, least, most string) {
	t.Helper()
	h := v1alpha1.GlusterThreshold{MinNodes: new(int32(1)), FreeStorageMin: new(resource.MustParse(least)), FreeStorageMax: new(resource.MustParse(most))}
	j.template(t, &h)
}

// template gives the template a threshold, or takes it out of the spec.
func (j *glusterJourney) template(t *testing.T, h *v1alpha1.GlusterThreshold) {
	t.Helper()
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(j.c), j.c); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(j.c.DeepCopy())
	j.c.Spec.NodeTemplates = slices.DeleteFunc(j.c.Spec.NodeTemplates, func(t v1alpha1.GlusterNodeTemplate) bool { return t.Name == sizedTemplate })
	if h != nil {
		j.c.Spec.NodeTemplates = append(j.c.Spec.NodeTemplates, glusterTemplate(sizedTemplate, *h))
	}
	if err := kube.Patch(t.Context(), j.c, patch); err != nil {
		t.Fatal(err)
	}
}

// sizing is what the status says of the template.
func (j *glusterJourney) sizing() string {
	for _, s := range j.c.Status.Templates {
		if s.Name == sizedTemplate {
			return s.Message
		}
	}
	return ""
}

// ofTemplate are the nodes of the template, of which there are so many.
func (j *glusterJourney) ofTemplate(t *testing.T, want int) []v1alpha1.GlusterNode {
	t.Helper()
	all, err := glusterNodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(n v1alpha1.GlusterNode) bool { return n.Annotations[v1alpha1.AnnotationTemplate] != sizedTemplate })
	if len(all) != want {
		t.Fatalf("the template has %d nodes, and %d are wanted", len(all), want)
	}
	return all
}

// frozen has a node under maintenance while its template has less free than a person wants now. No node is made then.
func (j *glusterJourney) frozen(t *testing.T, n v1alpha1.GlusterNode) {
	t.Helper()
	j.disable(t, n)
	j.bounds(t, "1100Mi", "1150Mi")
	eventually(t, limitPod, "the number is frozen", func(ctx context.Context) error {
		err := kube.Get(ctx, client.ObjectKeyFromObject(j.c), j.c)
		c := meta.FindStatusCondition(j.c.Status.Conditions, v1alpha1.ConditionTemplatesSized)
		if c == nil || c.ObservedGeneration != j.c.Generation || c.Reason != v1alpha1.ReasonSizingFrozen || !strings.Contains(j.sizing(), "while node "+n.Name+" is quiesced") {
			err = errors.Join(err, fmt.Errorf("%+v: %s", c, j.sizing()))
		}
		return err
	})
	// Long enough for several passes. There is no event to wait for.
	time.Sleep(30 * time.Second)
	j.ofTemplate(t, 1)
	j.bounds(t, "150Mi", "1150Mi")
	setDesired(t, n, v1alpha1.GlusterEnabled)
	waitNode(t, n, "the node is online", func(n *v1alpha1.GlusterNode) bool { return n.Status.State == "online" })
	devicesAre(t, n, "enabled")
	j.settled(t, 1)
}

// settled waits until the template has as many nodes as its bounds want, and holds that this stays so for a while.
func (j *glusterJourney) settled(t *testing.T, want int) {
	t.Helper()
	eventually(t, limitPool, "the template has the nodes that it should", func(ctx context.Context) error {
		err := poolRunsWith(j.c, int32(len(glusterZones)+want))(ctx)
		if told := j.sizing(); err == nil && !strings.Contains(told, "as wanted") {
			err = errors.New(told)
		}
		return err
	})
	// More than a pass of a pool in which nothing happens, of which there is one in 30 s.
	time.Sleep(45 * time.Second)
	j.ofTemplate(t, want)
}

// shrinks waits until a node that nobody deleted by hand is emptied, and is gone with its claims.
func (j *glusterJourney) shrinks(t *testing.T, n v1alpha1.GlusterNode) {
	t.Helper()
	began := time.Now()
	waitNode(t, n, "the pool gives up a node", func(n *v1alpha1.GlusterNode) bool { return n.DeletionTimestamp != nil })
	waitRemoved(t, n, func(*v1alpha1.GlusterNode) {})
	noClaims(t, n.Name)
	t.Logf("the pool shrank within %.0f s", time.Since(began).Seconds())
}

// watchTemplate looks all the time at the nodes of the template. The result ends that, and returns in which states each was seen.
func watchTemplate(t *testing.T) (seen func() map[types.UID][]string) {
	t.Helper()
	states := map[types.UID][]string{}
	return polled(t, states, func(ctx context.Context) {
		all, _ := glusterNodes(ctx)
		for _, n := range all {
			if n.Annotations[v1alpha1.AnnotationTemplate] == sizedTemplate && !slices.Contains(states[n.UID], string(n.Status.State)) {
				states[n.UID] = append(states[n.UID], string(n.Status.State))
			}
		}
	})
}

// wantSeen wants the template to have had two nodes and no other one, of which the second was given up with what it had and then without.
func wantSeen(t *testing.T, seen map[types.UID][]string, first, second v1alpha1.GlusterNode) {
	t.Helper()
	t.Logf("the nodes of the template were: %v", seen)
	if len(seen) != 2 || seen[first.UID] == nil || seen[second.UID] == nil {
		t.Errorf("the template had the nodes %v, and %s and %s are wanted", seen, first.UID, second.UID)
	}
	for _, state := range []string{"failed", "abandoned"} {
		if slices.Contains(seen[first.UID], state) || !slices.Contains(seen[second.UID], state) {
			t.Errorf("%s was given up: %v", state, seen)
		}
	}
}

// endTemplate has the volumes of the step deleted, and then the template with its last node.
func (j *glusterJourney) endTemplate(t *testing.T, last v1alpha1.GlusterNode) {
	t.Helper()
	for _, v := range []string{"x", "y"} {
		if err := ask(t.Context(), "delete/"+v, nil); err != nil {
			t.Fatal(err)
		}
	}
	j.template(t, &v1alpha1.GlusterThreshold{Nodes: new(int32)})
	waitRemoved(t, last, func(*v1alpha1.GlusterNode) {})
	noClaims(t, last.Name)
	j.template(t, nil)
	eventually(t, limitPool, "the pool runs without the template", poolRuns(j.c))
}
