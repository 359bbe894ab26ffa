//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// kube talks to the lab's API server with an administrator's rights.
var kube client.WithWatch

// core reads what is no object: what pods printed.
var core kubernetes.Interface

func TestMain(m *testing.M) {
	if err := errors.Join(connect(), keepDriver()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	for _, o := range []client.Object{newCluster(keeper), newNfs(keeperNfs, "")} {
		if err := kube.Delete(context.Background(), o); client.IgnoreNotFound(err) != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// keeper is a Cluster on a host that does not exist. While it is there the CSI driver stays deployed, and no test waits for its start.
const keeper = "keeper"

func keepDriver() error {
	if kube == nil {
		return nil
	}
	return client.IgnoreAlreadyExists(kube.Create(context.Background(), newCluster(keeper, "nowhere")))
}

func connect() error {
	out, err := tryLab("up")
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", lastLine(out))
	if err != nil {
		return fmt.Errorf("kubeconfig of the lab: %w", err)
	}
	config.QPS, config.Burst = 100, 200
	// Warnings are about what the operators of others use: nobody reads them here.
	config.WarningHandler = rest.NoWarnings{}
	if core, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	kube, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	return err
}

// patience has the tests whose limits are longer, by their names.
var patience sync.Map

// patient multiplies the limits of a test: it lets things die so often that those who try again wait for long.
func patient(t *testing.T, times int) {
	t.Helper()
	patience.Store(t.Name(), time.Duration(times))
}

func patienceOf(t *testing.T) time.Duration {
	t.Helper()
	if times, is := patience.Load(t.Name()); is {
		return times.(time.Duration)
	}
	return 1
}

// eventually waits until check has nothing to say, and fails with what it said last.
func eventually(t *testing.T, limit time.Duration, what string, check func(ctx context.Context) error) {
	t.Helper()
	limit *= patienceOf(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	started := time.Now()
	var last error
	for {
		if err := check(ctx); err == nil {
			t.Logf("%s after %.1f s", what, time.Since(started).Seconds())
			return
		} else if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %v: %v", what, limit, last)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// newCluster is a lvm Cluster over some nodes.
func newCluster(name string, hosts ...string) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.StorageType = v1alpha1.StorageTypeLVM
	// What leaves is removed at once, unless a test says otherwise.
	c.Spec.RemovalDelay = &metav1.Duration{}
	// Tests do not wait for disks to get older.
	c.Spec.Devices = &v1alpha1.DeviceSelector{MinAge: &metav1.Duration{}}
	for _, h := range hosts {
		c.Spec.Hosts = append(c.Spec.Hosts, v1alpha1.HostName(h))
	}
	return c
}

// create makes a Cluster or an Nfs and sees to it that it is gone at the end of the test, with its disks clean.
func create(t *testing.T, o v1alpha1.Storage) {
	t.Helper()
	if err := kube.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			dump(t, o)
		}
		removeWithin(t, o, time.Minute)
	})
}

// removeWithin deletes a storage, also after the test's own context has ended, and waits until it is gone.
func removeWithin(t *testing.T, o v1alpha1.Storage, limit time.Duration) {
	t.Helper()
	if err := kube.Delete(context.Background(), o); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
	begin := time.Now()
	deadline, last := begin.Add(limit), ""
	for {
		err := kube.Get(context.Background(), client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			t.Logf("%s %s is gone after %.1f s", o.StorageKind(), o.GetName(), time.Since(begin).Seconds())
			return
		}
		// What it waited for tells where the time went.
		if message := o.StorageStatus().Message; err == nil && message != last {
			last = message
			t.Logf("after %.1f s: %s", time.Since(begin).Seconds(), message)
		}
		if time.Now().After(deadline) {
			t.Errorf("%s %s is still there: %s", o.StorageKind(), o.GetName(), o.StorageStatus().Message)
			dump(t, o)
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// dump prints what a user would look at.
func dump(t *testing.T, o v1alpha1.Storage) {
	t.Helper()
	for _, args := range [][]string{
		{"kubectl", "get", "clusters,members,iscsis,nfs,storagenodes", "-o", "wide"},
		{"kubectl", "describe", strings.ToLower(o.StorageKind()) + "." + v1alpha1.Group, o.GetName()},
		{"kubectl", "get", "pods", "-A", "-l", "app.kubernetes.io/part-of=quarry", "-o", "wide"},
		{"kubectl", "get", "volumeattachments,persistentvolumes", "-o", "wide"},
		{"kubectl", "get", "leases", "-A"},
		{"kubectl", "-n", controllerNamespace, "logs", "-l", "app.kubernetes.io/part-of=quarry", "--all-containers", "--prefix", "--tail=80"},
		{"kubectl", "-n", agentNamespace, "logs", "-l", "app.kubernetes.io/part-of=quarry", "-c", "agent", "--prefix", "--tail=60"},
	} {
		out, err := tryLab(args...)
		t.Logf("%s\n%s", strings.Join(args, " "), out)
		if err != nil {
			t.Log(err)
		}
	}
}

func getCluster(ctx context.Context, name string) (*v1alpha1.Cluster, error) {
	c := &v1alpha1.Cluster{}
	return c, kube.Get(ctx, client.ObjectKey{Name: name}, c)
}

func getNode(ctx context.Context, name string) (*v1alpha1.StorageNode, error) {
	n := &v1alpha1.StorageNode{}
	return n, kube.Get(ctx, client.ObjectKey{Name: name}, n)
}

// deviceOf finds a device of a node by its kernel name.
func deviceOf(n *v1alpha1.StorageNode, kernelName string) *v1alpha1.NodeDevice {
	for i := range n.Status.Devices {
		if n.Status.Devices[i].KernelName == kernelName {
			return &n.Status.Devices[i]
		}
	}
	return nil
}

func refusals(d *v1alpha1.NodeDevice) []string {
	var reasons []string
	for _, r := range d.Refusals {
		reasons = append(reasons, r.Reason)
	}
	return reasons
}

// waitReady waits until the Cluster is Running and Ready for its present spec.
func waitReady(t *testing.T, name string, limit time.Duration) *v1alpha1.Cluster {
	t.Helper()
	c := newCluster(name)
	waitRunning(t, c, limit)
	return c
}

// waitRunning waits until a storage is Running and Ready for its present spec, and reads it.
func waitRunning(t *testing.T, o v1alpha1.Storage, limit time.Duration) {
	t.Helper()
	eventually(t, limit, o.StorageKind()+" "+o.GetName()+" is Running", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		s := o.StorageStatus()
		if s.ObservedGeneration != o.GetGeneration() {
			return fmt.Errorf("status is of generation %d, the spec of %d", s.ObservedGeneration, o.GetGeneration())
		}
		if s.Phase != v1alpha1.PhaseRunning || !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("phase %s: %s", s.Phase, s.Message)
		}
		return nil
	})
}
