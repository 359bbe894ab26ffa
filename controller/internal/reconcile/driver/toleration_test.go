package driver

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func ourTolerations() []corev1.Toleration {
	var out []corev1.Toleration
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		out = append(out, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(leavesAfter))})
	}
	return out
}

var (
	dedicated  = corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "storage", Effect: corev1.TaintEffectNoSchedule}
	everything = corev1.Toleration{Operator: corev1.TolerationOpExists}
	unready    = corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
)

// tolerate gives the Deployment other tolerations, as a person does.
func tolerate(t *testing.T, r *Reconciler, all []corev1.Toleration) {
	t.Helper()
	d, _ := deployed(t, r)
	d.Spec.Template.Spec.Tolerations = all
	must(t, r.Client.Update(t.Context(), d))
}

func checkTolerations(t *testing.T, what string, d *appsv1.Deployment, also ...corev1.Toleration) {
	t.Helper()
	if diff := cmp.Diff(append(ourTolerations(), also...), d.Spec.Template.Spec.Tolerations); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

// TestReconcile_keepsTolerationsOfOthers: where all nodes have taints a person gave the driver what it needs to run at all.
func TestReconcile_keepsTolerationsOfOthers(t *testing.T) {
	r := reconciler(t)
	withCluster(t, r)
	// As a version left it that set none, and with the time that Kubernetes gives a pod.
	theirs := []corev1.Toleration{
		dedicated, everything, unready,
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
	}
	tolerate(t, r, theirs)
	run(t, r)
	d, _ := deployed(t, r)
	checkTolerations(t, "after the upgrade", d, dedicated, everything, unready)

	before := d.ResourceVersion
	run(t, r)
	if d, _ = deployed(t, r); d.ResourceVersion != before {
		t.Error("the Deployment was written, and nothing changed")
	}
	tolerate(t, r, []corev1.Toleration{dedicated})
	run(t, r)
	d, _ = deployed(t, r)
	checkTolerations(t, "after two were taken off, and ours with them", d, dedicated)
}

// TestReconcile_keepsATolerationThatIsAddedMeanwhile: a person adds one between the look at the Deployment and the write.
func TestReconcile_keepsATolerationThatIsAddedMeanwhile(t *testing.T) {
	r := reconciler(t)
	withCluster(t, r)
	well, once := r.Client, true
	r.Client = interceptor.NewClient(apitest.Client(t), interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, want runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if _, is := want.(*appsv1ac.DeploymentApplyConfiguration); is && once {
				once = false
				tolerate(t, &Reconciler{Client: well}, append(ourTolerations(), dedicated))
			}
			return c.Apply(ctx, want, opts...)
		},
	})
	// Another image has the Deployment written.
	r.Images[Driver] = "quarry.storage/controller:next"
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.DriverLVM}})
	r.Client = well
	must(t, err)
	if once || result.RequeueAfter == 0 {
		t.Errorf("the Deployment was written over what a person changed meanwhile: %+v", result)
	}
	run(t, r)
	d, _ := deployed(t, r)
	checkTolerations(t, "after both", d, dedicated)
	if got := containerOf(t, d, Driver).Image; got != r.Images[Driver] {
		t.Errorf("image %s", got)
	}
}

// TestReconcile_doesNotWriteWhatItCouldNotRead: the tolerations of somebody are not known then.
func TestReconcile_doesNotWriteWhatItCouldNotRead(t *testing.T) {
	r := reconciler(t)
	withCluster(t, r)
	tolerate(t, r, append(ourTolerations(), dedicated))
	before, _ := deployed(t, r)
	well, unread := r.Client, errors.New("unread")
	r.Client = interceptor.NewClient(apitest.Client(t), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, is := o.(*appsv1.Deployment); is {
				return unread
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	r.Images[Driver] = "quarry.storage/controller:next"
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.DriverLVM}})
	r.Client = well
	if !errors.Is(err, unread) {
		t.Errorf("error %v", err)
	}
	if after, _ := deployed(t, r); after.ResourceVersion != before.ResourceVersion {
		t.Error("the Deployment was written")
	}
}
