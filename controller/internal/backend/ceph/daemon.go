package ceph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// apply brings an object to what is wanted.
func (b *Backend) apply(ctx context.Context, o client.Object) error {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Errorf("convert %T %s: %w", o, o.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: raw}
	unstructured.RemoveNestedField(u.Object, "status")
	return kube.Apply(ctx, b.Client, strings.ToLower(u.GetKind())+" "+o.GetName(), client.ApplyConfigurationFromUnstructured(u))
}

// deploy brings the Deployment of a daemon to what is wanted, and how many of its kind may be away at once.
func (b *Backend) deploy(ctx context.Context, s view.Step) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	p := cephpod.Of(c)
	if err := b.mine(ctx, cephname.Workload(c.Name, s.Daemon.Kind, s.Daemon.ID), s, &appsv1.Deployment{}); err != nil {
		return err
	}
	if err := b.hold(ctx, s, p); err != nil {
		return err
	}
	if s.Does == v1alpha1.ActionReplaceDaemon || s.Does == v1alpha1.ActionStartOSD {
		defer b.memory.changed(types.UID(s.UID))
	}
	return b.apply(ctx, p.Deployment(s.Daemon))
}

// hold makes the budget of a kind of daemons. Of OSDs none may go until Ceph was asked, and what it said last stays.
func (b *Backend) hold(ctx context.Context, s view.Step, p cephpod.Plan) error {
	switch s.Daemon.Kind {
	case cephname.DaemonTools:
		return nil
	case cephname.DaemonOSD:
		have := &policyv1.PodDisruptionBudget{}
		there, err := b.get(ctx, cephpod.BudgetName(s.Cluster, s.Daemon.Kind), have)
		if err != nil || there && have.Labels[cephname.LabelFSID] == s.FSID {
			return err
		}
		return b.apply(ctx, p.Budget(s.Daemon.Kind, 0))
	}
	return b.apply(ctx, p.Budget(s.Daemon.Kind, 1))
}

// setBudget says how many OSDs may be away by somebody's will at the same time.
func (b *Backend) setBudget(ctx context.Context, s view.Step) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	return b.apply(ctx, cephpod.Of(c).Budget(cephname.DaemonOSD, int32(s.Budget.Most), s.Budget.Free...))
}

// mine returns an error if an object of that name is of another Ceph cluster: a Cluster of the name that was deleted before is not over yet.
func (b *Backend) mine(ctx context.Context, name string, s view.Step, o client.Object) error {
	there, err := b.get(ctx, name, o)
	if err != nil {
		return err
	}
	if there && (o.GetLabels()[cephname.LabelFSID] != s.FSID || !o.GetDeletionTimestamp().IsZero()) {
		return passing("%T %s in namespace %s is of another Ceph cluster, or is being deleted", o, name, cephname.Namespace)
	}
	return nil
}

// removeDaemon takes a daemon away, or the data of a monitor that is gone.
func (b *Backend) removeDaemon(ctx context.Context, s view.Step) error {
	if s.Daemon.Kind == cephname.DaemonSweep {
		return b.sweep(ctx, s)
	}
	if s.Does == v1alpha1.ActionStopOSD {
		defer b.memory.changed(types.UID(s.UID))
	}
	return b.remove(ctx, s, cephname.Workload(s.Cluster, s.Daemon.Kind, s.Daemon.ID), &appsv1.Deployment{})
}

// remove deletes an object of the Ceph cluster, with its pods.
func (b *Backend) remove(ctx context.Context, s view.Step, name string, o client.Object) error {
	there, err := b.get(ctx, name, o)
	if err != nil || !there {
		return err
	}
	if o.GetLabels()[cephname.LabelFSID] != s.FSID {
		return passing("%T %s in namespace %s is of another Ceph cluster", o, name, cephname.Namespace)
	}
	how := metav1.DeletePropagationBackground
	if _, workload := o.(*appsv1.Deployment); workload {
		// It counts as deployed until its pods have ended.
		how = metav1.DeletePropagationForeground
	}
	return client.IgnoreNotFound(b.Client.Delete(ctx, o, client.PropagationPolicy(how), client.Preconditions{UID: new(o.GetUID())}))
}

// sweep has a pod remove the data of a monitor from its node, and takes the monitor off the record once that is over.
func (b *Backend) sweep(ctx context.Context, s view.Step) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	name := cephname.Workload(c.Name, cephname.DaemonSweep, s.Daemon.ID)
	if s.Daemon.Image, err = b.sweepImage(ctx, c.UID, name, s.Daemon.Node); err != nil {
		return err
	}
	want, have := cephpod.Of(c).Sweep(s.Daemon), &corev1.Pod{}
	there, err := b.get(ctx, want.Name, have)
	switch {
	case err != nil:
		return err
	case !there:
		return b.apply(ctx, want)
	case have.Labels[cephname.LabelFSID] != s.FSID:
		return passing("pod %s is of another Ceph cluster", want.Name)
	case have.Status.Phase == corev1.PodFailed:
		// The kubelet ended it, as where its node had no room or was switched off, and starts it no more: another one does the work.
		return b.end(ctx, have)
	case have.Status.Phase == corev1.PodPending && stuck(have) != "" && b.Now().Sub(have.CreationTimestamp.Time) > inVain:
		agents := s.Daemon.Image != "" && have.Spec.Containers[0].Image == s.Daemon.Image
		b.memory.note(c.UID, func(k *known) { k.cephSweeps[name] = agents })
		return b.end(ctx, have)
	case have.Status.Phase != corev1.PodSucceeded:
		return nil
	}
	// The pod goes first: the record is what finds it again. Sweeping once more removes nothing more.
	if err := b.end(ctx, have); err != nil {
		return err
	}
	return b.member(ctx, s, func(r *v1alpha1.MemberCeph) error {
		r.Swept = slices.DeleteFunc(r.Swept, func(name string) bool { return name == s.Daemon.ID })
		if r.Monitor != nil && r.Monitor.Name == s.Daemon.ID {
			r.Monitor = nil
		}
		return nil
	})
}

// inVain is how long a pod that does not start is waited for, before one with another image is made.
const inVain = 30 * time.Second

// sweepImage is the image of a pod that removes the data of a monitor; empty for the one of Ceph. That of the node's agent is on the node already: whoever gives a Cluster up needs no registry, and no right name of Ceph's image.
// Where the kubelet does not let the pod have it, as one that belongs to whoever has the secret for its registry, the two take turns.
func (b *Backend) sweepImage(ctx context.Context, uid types.UID, pod, node string) (string, error) {
	ceph := false
	b.memory.note(uid, func(k *known) { ceph = k.cephSweeps[pod] })
	if ceph || b.AgentImage == nil {
		return "", nil
	}
	return b.AgentImage(ctx, node)
}

// end deletes a pod, unless another one has its name by now.
func (b *Backend) end(ctx context.Context, p *corev1.Pod) error {
	return client.IgnoreNotFound(b.Client.Delete(ctx, p, client.Preconditions{UID: new(p.UID)}))
}

// serveDashboard makes the user of the dashboard with a password that is made once, has Ceph told both, and has the Service select the manager that serves.
func (b *Backend) serveDashboard(ctx context.Context, s view.Step) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	secret, err := b.dashboardSecret(ctx, c, s)
	if err != nil {
		return err
	}
	if !told(secret, s.FSID) {
		if refused, err := b.tellDashboard(ctx, c, s, secret); err != nil || refused {
			return err
		}
	}
	if err := b.mine(ctx, cephname.Dashboard(c.Name), s, &corev1.Service{}); err != nil {
		return err
	}
	return b.apply(ctx, cephpod.Of(c).Dashboard(s.Text))
}

// told reports whether a Secret has a password that the dashboard was told.
func told(secret *corev1.Secret, uid string) bool {
	return len(secret.Data[cephname.KeyPassword]) > 0 && secret.Annotations[cephname.AnnotationTold] == uid
}

// dashboardSecret returns the Secret of the dashboard, and makes it where there is none. One that is there is kept: a process that was cut off may have made it.
func (b *Backend) dashboardSecret(ctx context.Context, c *v1alpha1.Cluster, s view.Step) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := b.mine(ctx, cephname.Dashboard(c.Name), s, secret); err != nil {
		return nil, err
	}
	if secret.UID != "" {
		if len(secret.Data[cephname.KeyUsername]) == 0 || len(secret.Data[cephname.KeyPassword]) == 0 {
			return nil, fmt.Errorf("the Secret %s in namespace %s has no %s or no %s: delete it, and another one is made", secret.Name, secret.Namespace, cephname.KeyUsername, cephname.KeyPassword)
		}
		return secret, nil
	}
	password, err := cephpod.Password(b.Random)
	if err != nil {
		return nil, err
	}
	secret = cephpod.Of(c).DashboardSecret(password)
	if err := b.Client.Create(ctx, secret); err != nil {
		return nil, fmt.Errorf("create secret %s: %w", secret.Name, err)
	}
	return secret, nil
}

// tellDashboard has Ceph told what is in the Secret, and puts on record that it was. What Ceph refuses is put on record as well: only a change of the spec tries it again.
func (b *Backend) tellDashboard(ctx context.Context, c *v1alpha1.Cluster, s view.Step, secret *corev1.Secret) (refused bool, err error) {
	monitors, err := b.client(s.FSID)
	if err != nil {
		return false, err
	}
	err = monitors.ServeDashboard(ctx, string(secret.Data[cephname.KeyUsername]), secret.Data[cephname.KeyPassword])
	if said, is := errors.AsType[*ceph.Error](err); is && errors.Is(err, ceph.ErrRefused) {
		return true, b.refuse(ctx, c, view.RefusedDashboard, said.Said)
	}
	if err != nil {
		return false, err
	}
	before := secret.DeepCopy()
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[cephname.AnnotationTold] = s.FSID
	return false, b.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// refuse puts on record what Ceph refused, beside what it refused before.
func (b *Backend) refuse(ctx context.Context, c *v1alpha1.Cluster, what, said string) error {
	return b.writeConfig(ctx, c, func(data map[string]string) error {
		refused := map[string]string{}
		if text := data[keyRefused]; text != "" {
			if err := json.Unmarshal([]byte(text), &refused); err != nil {
				return fmt.Errorf("what Ceph refused: %w", err)
			}
		}
		refused[what] = said
		raw, err := json.Marshal(refused)
		data[keyRefused] = string(raw)
		return err
	})
}
