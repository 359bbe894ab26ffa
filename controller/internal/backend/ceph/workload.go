package ceph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	decideceph "quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/cephvolume"
)

// Keys of the ConfigMap beside the configuration file: the options that Ceph was told, and those that it refuses.
const (
	keyOptions = "options.json"
	keyRefused = "refused.json"
)

// workloads reads what is deployed for a Cluster, from the API server itself.
func (b *Backend) workloads(ctx context.Context, c *v1alpha1.Cluster, members []*v1alpha1.Member) (*view.Workloads, error) {
	w := &view.Workloads{Tools: map[string]string{}, Sweeps: map[string]string{}, Pods: map[string][]string{}, OSDPods: map[string]bool{}, Opened: map[string]bool{}, Stuck: map[string][]string{}}
	ours := []client.ListOption{client.InNamespace(cephname.Namespace), client.MatchingLabels{cephname.LabelFSID: c.FSID(), v1alpha1.LabelOf(v1alpha1.KindCluster): c.Name}}
	var deployments appsv1.DeploymentList
	if err := b.Live.List(ctx, &deployments, ours...); err != nil {
		return nil, fmt.Errorf("list the Deployments of Cluster %s: %w", c.Name, err)
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		x := view.Workload{
			Kind: d.Labels[cephname.LabelDaemon], ID: d.Labels[cephname.LabelID], Node: d.Annotations[cephname.AnnotationNode], UUID: d.Annotations[cephname.AnnotationOSD],
			Template: cephpod.Template(d), Ready: settled(d) && d.Status.ReadyReplicas > 0, Away: away(d), Going: d.DeletionTimestamp != nil,
		}
		if containers := d.Spec.Template.Spec.Containers; len(containers) > 0 {
			x.Image = containers[0].Image
			x.First = cephpod.IsFirst(d)
		}
		w.Daemons = append(w.Daemons, x)
	}
	var pods corev1.PodList
	if err := b.Live.List(ctx, &pods, ours...); err != nil {
		return nil, fmt.Errorf("list the pods of Cluster %s: %w", c.Name, err)
	}
	for i := range pods.Items {
		count(w, &pods.Items[i])
	}
	markFailing(w, pods.Items)
	return w, errors.Join(b.files(ctx, c, w), b.services(ctx, c, w), b.diskKeys(ctx, c, members, w), b.budget(ctx, c, w))
}

// budget reads how many OSDs may be away by somebody's will.
func (b *Backend) budget(ctx context.Context, c *v1alpha1.Cluster, w *view.Workloads) error {
	have := &policyv1.PodDisruptionBudget{}
	there, err := b.get(ctx, cephpod.BudgetName(c.Name, cephname.DaemonOSD), have)
	if away, free, ours := cephpod.Of(c).Budgeted(cephname.DaemonOSD, have); there && ours {
		w.Budget = &decideceph.Budget{Most: int(away), Free: free}
	}
	return err
}

// diskKeys reads what the Secrets of the encrypted OSDs on record lack. It finds them by their names, whatever labels they have.
func (b *Backend) diskKeys(ctx context.Context, c *v1alpha1.Cluster, members []*v1alpha1.Member, w *view.Workloads) error {
	w.DiskKeys = map[string]string{}
	records := map[string]v1alpha1.MemberOSD{}
	for _, m := range members {
		if m.Spec.Ceph == nil {
			continue
		}
		for _, o := range m.Spec.Ceph.OSDs {
			if o.Encrypted {
				records[o.UUID] = o
			}
		}
	}
	if len(records) == 0 {
		return nil
	}
	var all corev1.SecretList
	if err := b.Live.List(ctx, &all, client.InNamespace(cephname.Namespace)); err != nil {
		return fmt.Errorf("list the Secrets of Cluster %s: %w", c.Name, err)
	}
	named := map[string]*corev1.Secret{}
	for i := range all.Items {
		named[all.Items[i].Name] = &all.Items[i]
	}
	p := cephpod.Of(c)
	for uuid, o := range records {
		w.DiskKeys[uuid] = ""
		name := p.DiskSecret(uuid, o.Secret)
		key, err := p.OpenDisk(name, uuid, named[name])
		if err == nil {
			err = p.SameKey(name, uuid, key, o.KeyDigest)
		}
		if err != nil {
			w.DiskKeys[uuid] = err.Error()
		}
	}
	return nil
}

// settled reports whether the pod of a Deployment is made of what the Deployment says now: until then the one before runs, or none.
func settled(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas > 0
}

// away is since when no pod of a Deployment is ready; zero while one is. A pod that takes the place of another one does not begin that time anew, so it is the time of the Deployment.
func away(d *appsv1.Deployment) time.Time {
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type != appsv1.DeploymentAvailable:
		case c.Status == corev1.ConditionTrue:
			return time.Time{}
		default:
			return c.LastTransitionTime.Time
		}
	}
	if d.Status.ReadyReplicas > 0 {
		return time.Time{}
	}
	return d.CreationTimestamp.Time
}

// markFailing marks the daemons whose pods do not start, or end again and again. A pod that is being deleted says nothing about what comes after it.
func markFailing(w *view.Workloads, pods []corev1.Pod) {
	failing := map[string]bool{}
	for i := range pods {
		name := pods[i].Labels[cephname.LabelDaemon] + "." + pods[i].Labels[cephname.LabelID]
		failing[name] = failing[name] || pods[i].DeletionTimestamp.IsZero() && stuck(&pods[i]) != ""
	}
	for i := range w.Daemons {
		w.Daemons[i].Failing = failing[w.Daemons[i].Kind+"."+w.Daemons[i].ID]
	}
}

// count takes in one pod.
func count(w *view.Workloads, p *corev1.Pod) {
	kind := p.Labels[cephname.LabelDaemon]
	switch kind {
	case cephname.DaemonSweep:
		w.Sweeps[p.Labels[cephname.LabelID]] = stuck(p)
		return
	case cephname.DaemonOSD:
		uuid := p.Annotations[cephname.AnnotationOSD]
		w.OSDPods[uuid] = true
		begun := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodInitialized && c.Status == corev1.ConditionTrue
		})
		// A daemon that only needs a minute until Ceph counts it as up is left alone.
		ended := slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.RestartCount > 0 || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
		})
		w.Opened[uuid] = w.Opened[uuid] || begun && ended && p.DeletionTimestamp.IsZero()
	case cephname.DaemonTools:
		for _, s := range p.Status.ContainerStatuses {
			// The runtime's name comes before the ID.
			if _, id, ok := strings.Cut(s.ContainerID, "://"); ok && s.State.Running != nil && p.DeletionTimestamp.IsZero() {
				w.Tools[p.Annotations[cephname.AnnotationNode]] = id
			}
		}
	}
	node := p.Annotations[cephname.AnnotationNode]
	w.Pods[kind] = append(w.Pods[kind], node)
	if text := stuck(p); text != "" {
		w.Stuck[node] = append(w.Stuck[node], text)
	}
}

// stuck says why a pod does not start, in the words of the scheduler, of the kubelet and of its program: a taint that it does not tolerate, too little memory, an image that cannot be pulled, that is built for another architecture, or that is none of
// Ceph. A pod that only has not started yet is not stuck.
func stuck(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return backend.Cut(strings.Join(strings.Fields(fmt.Sprintf("the pod %s does not start: no node is found for it: %s", p.Name, c.Message)), " "), 480) + "."
		}
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		wait := s.State.Waiting
		if wait == nil || wait.Reason == "" || wait.Reason == "PodInitializing" || wait.Reason == "ContainerCreating" {
			continue
		}
		text := fmt.Sprintf("the pod %s with image %s does not start: %s", p.Name, s.Image, wait.Reason)
		if wait.Message != "" {
			text += ": " + backend.Cut(wait.Message, 120)
		}
		if last := s.LastTerminationState.Terminated; last != nil && last.Message != "" {
			text += "; it said last: " + end(last.Message, 150)
		}
		return backend.Cut(strings.Join(strings.Fields(text), " "), 480) + "."
	}
	return ""
}

// colour is how programs have terminals show colours.
var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// end is what a program said last, on one line: why it ended is there.
func end(said string, limit int) string {
	said = strings.Join(strings.Fields(colour.ReplaceAllString(said, "")), " ")
	if len(said) <= limit {
		return said
	}
	return "…" + strings.ToValidUTF8(said[len(said)-limit:], "")
}

// files reads Secrets and ConfigMap.
func (b *Backend) files(ctx context.Context, c *v1alpha1.Cluster, w *view.Workloads) error {
	config := &corev1.ConfigMap{}
	there, err := b.get(ctx, cephname.Config(c.Name), config)
	if err != nil {
		return err
	}
	if w.Left = there && config.Labels[cephname.LabelFSID] == c.FSID(); w.Left {
		if err := options(config, w); err != nil {
			return err
		}
	}
	keys, clients := &corev1.Secret{}, &corev1.Secret{}
	if there, err = b.get(ctx, cephname.Keys(c.Name), keys); err != nil {
		return err
	}
	ours := there && keys.Labels[cephname.LabelFSID] == c.FSID()
	w.Keys = ours && len(keys.Data[cephname.KeyMonitor]) > 0 && len(keys.Data[cephname.KeyAdmin]) > 0
	w.Left = w.Left || ours
	if there, err = b.get(ctx, cephname.Client(c.Name), clients); err != nil {
		return err
	}
	if ours = there && clients.Labels[cephname.LabelFSID] == c.FSID(); ours && len(clients.Data[cephname.KeySecret]) > 0 {
		w.Client = string(clients.Data[cephvolume.SecretMonitors])
	}
	w.Left = w.Left || ours
	return nil
}

// services reads whether the Services of the managers are there, that of their metrics and that of the dashboard, and whether Ceph was told who may use the latter.
func (b *Backend) services(ctx context.Context, c *v1alpha1.Cluster, w *view.Workloads) error {
	metrics, dashboard, secret := &corev1.Service{}, &corev1.Service{}, &corev1.Secret{}
	ours := map[client.Object]bool{}
	for _, x := range []struct {
		name   string
		object client.Object
	}{{cephname.Metrics(c.Name), metrics}, {cephname.Dashboard(c.Name), dashboard}, {cephname.Dashboard(c.Name), secret}} {
		there, err := b.get(ctx, x.name, x.object)
		if err != nil {
			return err
		}
		ours[x.object] = there && x.object.GetLabels()[cephname.LabelFSID] == c.FSID()
	}
	w.Metrics = ours[metrics]
	if ours[dashboard] {
		w.Dashboard.Manager = dashboard.Spec.Selector[cephname.LabelID]
	}
	w.Dashboard.Told = ours[secret] && told(secret, c.FSID())
	return nil
}

// options reads what Ceph was told, and what it refused.
func options(config *corev1.ConfigMap, w *view.Workloads) error {
	w.Config, w.Options, w.Refused = config.Data[cephname.KeyConfig], map[string]string{}, map[string]string{}
	for key, into := range map[string]*map[string]string{keyOptions: &w.Options, keyRefused: &w.Refused} {
		if err := json.Unmarshal([]byte(config.Data[key]), into); err != nil && config.Data[key] != "" {
			return fmt.Errorf("%s of ConfigMap %s: %w", key, config.Name, err)
		}
	}
	return nil
}

func (b *Backend) get(ctx context.Context, name string, o client.Object) (bool, error) {
	err := b.Live.Get(ctx, types.NamespacedName{Namespace: cephname.Namespace, Name: name}, o)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get %T %s: %w", o, name, err)
	}
	return err == nil, nil
}
