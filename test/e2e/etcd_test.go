//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// etcdGrace is the node grace of the StatefulCluster, and how long no write may be refused.
const etcdGrace = 30 * time.Second

// etcdImage is the image of a release. Both have the same programs.
func etcdImage(release string) string { return "quarry.storage/etcd:" + release }

// loadEtcd builds the images and puts them on the nodes.
func loadEtcd(t *testing.T) {
	t.Helper()
	source := filepath.Join(repoRoot(), "test", "etcd")
	for _, release := range []string{"1", "2"} {
		archive := filepath.Join(t.TempDir(), "etcd.tar")
		lab(t, "image", "build", "-f", filepath.Join(source, "Dockerfile"), "-t", etcdImage(release), "--build-arg", "RELEASE="+release, "--context", source, "-o", archive)
		lab(t, "load", archive)
	}
}

// etcdTemplate runs one member, which waits until the membership lets it join.
func etcdTemplate(t *testing.T, release string) func(*v1alpha1.StatefulCluster) {
	t.Helper()
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	spec := raw(t, corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](5),
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "replicas"}},
		}},
		Containers: []corev1.Container{{
			Name: "etcd", Image: etcdImage(release), ImagePullPolicy: corev1.PullNever,
			Env: []corev1.EnvVar{{Name: "POD_NAME", ValueFrom: field("metadata.name")}, {Name: "POD_IP", ValueFrom: field("status.podIP")}},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromInt32(2379)}},
				PeriodSeconds: 2, TimeoutSeconds: 3,
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "join", MountPath: "/run/etcd"}},
		}},
		// In memory, so that a member which was without power waits until its new address is known.
		Volumes: []corev1.Volume{{Name: "join", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}},
	})
	return func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec = spec }
}

// etcdJourney is what the steps share.
type etcdJourney struct {
	c      *v1alpha1.StatefulCluster
	writer *etcdWriter
}

// TestStatefulClusterRunsEtcd runs three members of etcd while a writer writes. A node reboots, one is drained, and the image rolls. After each, every member
// has every key that was acknowledged, and no write was refused for longer than the grace.
func TestStatefulClusterRunsEtcd(t *testing.T) {
	turn(t, 1, 20)
	j := startEtcd(t)
	j.reboots(t)
	j.isDrained(t)
	j.rolls(t)
}

// TestStatefulClusterReplacesEtcd runs the same while two nodes die one after the other.
func TestStatefulClusterReplacesEtcd(t *testing.T) {
	turn(t, 12, 20)
	j := startEtcd(t)
	first := j.dies(t, "")
	j.dies(t, first)
}

// startEtcd has three members run on local volumes, and a writer write to them.
func startEtcd(t *testing.T) *etcdJourney {
	t.Helper()
	loadEtcd(t)
	create(t, newCluster("quorum", nodes...))
	waitReady(t, "quorum", limitPod)
	waitCapacities(t, "quorum")
	createObject(t, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "etcd"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(2)), UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "replicas"}},
		},
	})
	c := stateful(t, "etcd", "quorum", 3, etcdTemplate(t, "1"), func(c *v1alpha1.StatefulCluster) {
		c.Annotations[v1alpha1.AnnotationNodeGrace] = etcdGrace.String()
		c.Spec.SyncedWhen = &v1alpha1.SyncedWhen{ConditionType: string(conditionMember)}
		c.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdateOptions{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
		c.Spec.VolumeClaimTemplates[0].Spec = raw(t, corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("quorum"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("400Mi")}},
		})
	})
	members := startMembership(t, c.Name)
	waitReplicas(t, c, 3)
	j := &etcdJourney{c: c, writer: startWriter(t, members)}
	j.check(t, "three members are there")
	return j
}

// check waits until the StatefulCluster is whole, and holds that each member has all keys that were acknowledged before.
func (j *etcdJourney) check(t *testing.T, after string) {
	t.Helper()
	waitReplicas(t, j.c, 3)
	count, pause := j.writer.so()
	t.Logf("%s: %d keys, and the longest time without a write is %.1f s", after, count, pause.Seconds())
	if pause >= etcdGrace {
		t.Errorf("%s: no write was taken for %v", after, pause)
	}
	pods := replicas(t, j.c.Name)
	if len(pods) != 3 {
		t.Errorf("%s: pods %v", after, slices.Sorted(maps.Keys(pods)))
	}
	for name, p := range pods {
		// A member may apply a moment later what the two others have acknowledged.
		eventually(t, 10*time.Second, name+" has all keys", func(ctx context.Context) error {
			keys, err := etcdKeys(ctx, p.Status.PodIP, etcdPrefix)
			if err != nil {
				return err
			}
			for n := range count {
				if keys[etcdKey(n)] != etcdValue(n) {
					return fmt.Errorf("of %d keys %s has %d, and %s holds %q", count, name, len(keys), etcdKey(n), keys[etcdKey(n)])
				}
			}
			return nil
		})
	}
}

// claimsOf returns the UIDs of the claims of the replicas, by the name of the pod.
func (j *etcdJourney) claimsOf(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, p := range replicas(t, j.c.Name) {
		out[name] = string(claimOf(t, j.c, p).UID)
	}
	return out
}

// kept holds that the replicas are those of before, on the same claims.
func (j *etcdJourney) kept(t *testing.T, before map[string]string) {
	t.Helper()
	if after := j.claimsOf(t); !maps.Equal(before, after) {
		t.Errorf("replicas and claims were %v, and are %v", before, after)
	}
}

// reboots takes the power from a node and gives it back at once: the member comes back on its claim.
func (j *etcdJourney) reboots(t *testing.T) {
	t.Helper()
	before := j.claimsOf(t)
	ended := onlyOn(t, replicas(t, j.c.Name), "n1")
	lab(t, "node", "kill", "n1")
	lab(t, "node", "start", "n1")
	waitMemberOn(t, j.c, "n1", ended)
	j.check(t, "a node has rebooted")
	j.kept(t, before)
}

// isDrained drains a node for less than the grace: the member waits for it, and comes back on its claim.
func (j *etcdJourney) isDrained(t *testing.T) {
	t.Helper()
	before := j.claimsOf(t)
	evicted := onlyOn(t, replicas(t, j.c.Name), "n2")
	lab(t, "kubectl", "drain", "n2", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--pod-selector=app=replicas", "--timeout=60s")
	lab(t, "kubectl", "uncordon", "n2")
	if p := waitMemberOn(t, j.c, "n2", evicted); p.UID == evicted.UID {
		t.Errorf("%s was not evicted", p.Name)
	}
	j.check(t, "a node was drained")
	j.kept(t, before)
}

// rolls gives the members the second release, one at a time, in place.
func (j *etcdJourney) rolls(t *testing.T) {
	t.Helper()
	before, pods := j.claimsOf(t), replicas(t, j.c.Name)
	patch := client.MergeFrom(j.c.DeepCopy())
	etcdTemplate(t, "2")(j.c)
	if err := kube.Patch(t.Context(), j.c, patch); err != nil {
		t.Fatal(err)
	}
	waitReplicas(t, j.c, 3)
	for name, p := range replicas(t, j.c.Name) {
		if p.Spec.Containers[0].Image != etcdImage("2") || p.UID != pods[name].UID {
			t.Errorf("%s has image %s, and is the same pod: %t", name, p.Spec.Containers[0].Image, p.UID == pods[name].UID)
		}
	}
	j.check(t, "the image was rolled")
	j.kept(t, before)
}

// dies takes the power from a node with one member, other than the one that died before. The member is replaced, and then the node comes back.
func (j *etcdJourney) dies(t *testing.T, before string) (victim string) {
	t.Helper()
	held := map[string][]corev1.Pod{}
	for _, p := range replicas(t, j.c.Name) {
		held[p.Spec.NodeName] = append(held[p.Spec.NodeName], p)
	}
	for _, n := range nodes {
		if len(held[n]) == 1 && n != before {
			victim = n
		}
	}
	if victim == "" {
		t.Fatalf("no other node than %q has one member: %v", before, held)
	}
	lost := held[victim][0]
	emptyOfDrivers(t, victim)
	lab(t, "node", "kill", victim)
	t.Cleanup(func() {
		if _, err := tryLab("node", "start", victim); err != nil {
			t.Error(err)
		}
	})
	eventually(t, limitReplicas, "the member of "+victim+" is replaced", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(j.c), j.c); err != nil {
			return err
		}
		if _, there := replicas(t, j.c.Name)[lost.Name]; there || j.c.Status.ReadyReplicas != 3 {
			return fmt.Errorf("%d are ready; the dead one still counts: %t; %+v", j.c.Status.ReadyReplicas, there, j.c.Status.Conditions)
		}
		return nil
	})
	j.check(t, victim+" has died")
	lab(t, "node", "start", victim)
	eventually(t, limitReplicas, "the claim of "+lost.Name+" is orphaned, and its pod has ended", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(j.c), j.c); err != nil {
			return err
		}
		err := kube.Get(ctx, client.ObjectKeyFromObject(&lost), &corev1.Pod{})
		if client.IgnoreNotFound(err) != nil || err == nil || len(j.c.Status.OrphanedClaims) == 0 {
			return errors.Join(fmt.Errorf("orphaned are %v", j.c.Status.OrphanedClaims), err)
		}
		return nil
	})
	j.check(t, victim+" is back")
	return victim
}

// waitMemberOn waits until a replica on a node is ready and has the data, in another container than before.
func waitMemberOn(t *testing.T, c *v1alpha1.StatefulCluster, node string, before corev1.Pod) (found corev1.Pod) {
	t.Helper()
	eventually(t, limitPod, "a member on "+node+" has the data", func(context.Context) error {
		for _, p := range replicas(t, c.Name) {
			has := func(want corev1.PodConditionType) bool {
				return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == want && c.Status == corev1.ConditionTrue })
			}
			if found = p; p.Spec.NodeName == node && runningContainer(&p) != runningContainer(&before) && has(corev1.PodReady) && has(conditionMember) {
				return nil
			}
		}
		return errors.New("there is none")
	})
	return found
}

// emptyOfDrivers moves the controllers of CSI drivers away from a node: once it is dead Kubernetes ends them half a minute after its taint, and they are not
// what is looked at.
func emptyOfDrivers(t *testing.T, node string) {
	t.Helper()
	lab(t, "kubectl", "cordon", node)
	defer lab(t, "kubectl", "uncordon", node)
	lab(t, "kubectl", "-n", controllerNamespace, "delete", "pods", "-l", v1alpha1.LabelDriver, "--field-selector=spec.nodeName="+node)
	eventually(t, limitPod, "the CSI drivers' controllers run elsewhere", func(ctx context.Context) error {
		var list corev1.PodList
		if err := kube.List(ctx, &list, client.InNamespace(controllerNamespace), client.HasLabels{v1alpha1.LabelDriver}); err != nil {
			return err
		}
		for _, p := range list.Items {
			ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
			if !ready || p.Spec.NodeName == node {
				return fmt.Errorf("%s is on %q, ready: %t", p.Name, p.Spec.NodeName, ready)
			}
		}
		if len(list.Items) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
}
