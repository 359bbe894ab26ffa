package statefulcluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/stateful/disk"
	"quarry.storage/quarry/controller/internal/decide/stateful/nodes"
	"quarry.storage/quarry/controller/internal/decide/stateful/record"
	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/controller/internal/decide/stateful/topology"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// +kubebuilder:rbac:groups=quarry.storage,resources=members,verbs=get;list;watch

// hold tells how the volumes of a replica are: on which nodes they can be used, and what is known of the disks that hold them.
func (r *Reconciler) hold(ctx context.Context, s *scope, i *record.Identity, out *replica.Replica) error {
	on := map[string]bool{}
	scheduled := i.Pod != nil && i.Pod.Spec.NodeName != ""
	if scheduled {
		on[i.Pod.Spec.NodeName] = true
	}
	for _, c := range i.Claims {
		if c.Spec.VolumeName == "" {
			continue
		}
		v := &corev1.PersistentVolume{}
		err := r.reader(s, r.Client).Get(ctx, types.NamespacedName{Name: c.Spec.VolumeName}, v)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("get persistentvolume %s: %w", c.Spec.VolumeName, err)
		case err == nil && c.Status.Phase != corev1.ClaimLost:
			s.onVolume(v, scheduled, on, out)
		case c.Status.Phase == corev1.ClaimLost && !scheduled:
			// A cache may be late; of a volume that is gone the claim says so. It may be put back, as from a backup.
			out.Disk = out.Disk.With(replica.DiskFailed)
		}
	}
	return r.room(ctx, s, i, on, out)
}

// onVolume adds what a volume says of a replica: how its disks are, and on which nodes it can be used.
func (s *scope) onVolume(v *corev1.PersistentVolume, scheduled bool, on map[string]bool, out *replica.Replica) {
	state, doubtful := disk.Of(v, s.members, s.trust, out.Sound())
	out.Disk, out.Doubtful = out.Disk.With(state), out.Doubtful || doubtful
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return
	}
	for name, n := range s.nodes {
		on[name] = on[name] || topology.Matches(v.Spec.NodeAffinity.Required, name, n.Labels)
	}
	if out.Placed = true; !scheduled {
		out.Node = max(out.Node, s.nodes.Reach(v.Spec.NodeAffinity.Required))
	}
}

// room reports whether another node, or that of a disk that is lost for ever, is known to have room for the claims of a replica. It is asked only when the replica may be given up.
func (r *Reconciler) room(ctx context.Context, s *scope, i *record.Identity, on map[string]bool, out *replica.Replica) error {
	if out.Fate != "" || len(i.Claims) == 0 || !out.OutOfReach() && out.Disk != replica.DiskLost && out.Readiness == replica.Ready {
		return nil
	}
	if s.capacities == nil {
		var list storagev1.CSIStorageCapacityList
		if err := r.Live.List(ctx, &list); err != nil {
			return fmt.Errorf("list capacities: %w", err)
		}
		s.capacities = append([]storagev1.CSIStorageCapacity{}, list.Items...)
	}
	if out.Disk == replica.DiskLost {
		// What its node has room for is on other disks.
		on = nil
	}
	var err error
	out.Crowded, err = r.crowded(ctx, s, i, on)
	return err
}

// crowded says why no node is known to take another replica in place of one, and to have room for its claims and for its pod; empty when one is.
func (r *Reconciler) crowded(ctx context.Context, s *scope, i *record.Identity, on map[string]bool) (string, error) {
	pod, unknown, err := r.asMade(ctx, s)
	if err != nil || unknown != "" {
		return unknown, err
	}
	queries, ok := nodes.Neighbours(pod)
	if !ok {
		return "The template has a rule about other pods that is not understood here, such as one about namespaces with certain labels.", nil
	}
	var others []*corev1.Pod
	seen := map[types.UID]bool{}
	for _, q := range queries {
		more, err := r.listPods(ctx, i, client.InNamespace(q.Namespace), client.MatchingLabelsSelector{Selector: q.Selector})
		if err != nil {
			return "", err
		}
		for _, p := range more {
			if !seen[p.UID] {
				seen[p.UID], others = true, append(others, p)
			}
		}
	}
	takers, why := s.nodes.Takers(pod, others)
	short := map[string]string{}
	for _, name := range turn(disk.Room(i.Claims, on, takers, s.capacities), rand.IntN) {
		there, err := r.listPods(ctx, i, client.MatchingFields{"spec.nodeName": name})
		if err != nil {
			return "", err
		}
		if short[name] = s.nodes[name].Unfit(pod, there); short[name] == "" {
			return "", nil
		}
	}
	return nodes.Shortest(on, short, takers, why), nil
}

// asMade returns a pod as the API server would make it: with the defaults of the namespace, such as those of a LimitRange, and with what a webhook adds that can be tried out. Where it
// would not make one now, as while the quota is used up by what is to be replaced, or cannot try, it is as the template has it. An error that passes says why nobody knows.
func (r *Reconciler) asMade(ctx context.Context, s *scope) (pod *corev1.Pod, why string, err error) {
	if s.made != nil {
		return s.made, "", nil
	}
	pod = s.plan.Pod(trial)
	switch err := r.Client.Create(ctx, pod, kube.FieldOwner, client.DryRunAll); {
	case ctx.Err() != nil:
		return nil, "", fmt.Errorf("try to create %s: %w", pod.Name, err)
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		pod = s.plan.Pod(trial)
	case err != nil:
		return nil, "The API server does not say what the pod of another replica would be: " + err.Error() + ".", nil
	}
	s.made = pod
	return pod, "", nil
}

// asked is how many nodes are asked for their pods in one pass, at most.
const asked = 50

// turn returns the nodes that are asked now, from a random one on, so that each has its turn soon whenever and however often somebody looks.
func turn(names []string, random func(n int) int) []string {
	if len(names) <= asked {
		return names
	}
	first := random(len(names))
	return slices.Concat(names[first:], names[:first])[:asked]
}

// listPods lists pods of anybody at the API server itself, but for that of a replica that may be given up.
func (r *Reconciler) listPods(ctx context.Context, but *record.Identity, options ...client.ListOption) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := r.Live.List(ctx, &list, options...); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if p := &list.Items[i]; but.Pod == nil || p.UID != but.Pod.UID {
			out = append(out, p)
		}
	}
	return out, nil
}

// readMembers reads all Members, and tells how far what each says counts.
func (r *Reconciler) readMembers(ctx context.Context, s *scope) error {
	// What is told while the list is made may not be in it.
	told, watched := until(r.Told), until(r.Watched)
	var list v1alpha1.MemberList
	if err := r.reader(s, r.Client).List(ctx, &list); err != nil {
		return fmt.Errorf("list members: %w", err)
	}
	s.members, s.trust = list.Items, map[string]disk.Trust{}
	for i := range s.members {
		switch m := &s.members[i]; {
		case r.Runs != nil && !r.Runs(m.Spec.Of.Kind) || !told(m.UID):
			s.trust[m.Name] = disk.Stale
		case !watched(m.UID):
			s.trust[m.Name] = disk.Told
		default:
			s.trust[m.Name] = disk.Seen
		}
	}
	return nil
}

// until returns what is remembered of Members by now; all of them where nobody remembers any.
func until(remembered func() func(types.UID) bool) func(types.UID) bool {
	if remembered == nil {
		return func(types.UID) bool { return true }
	}
	return remembered()
}
