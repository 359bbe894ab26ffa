//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	// glusterNamespace is where the pool is, and glusterHub the pod with the model of its servers.
	glusterNamespace = "gluster"
	glusterHub       = "gd2-hub"
	// glusterImage is the stand-in for glusterd2, and glusterNext the same under another name.
	glusterImage, glusterNext = "quarry.storage/gd2:dev", "quarry.storage/gd2:next"
	// limitPool is how long etcd and four servers may take to come up, limitDrain how long a node may take to be emptied and to go: its data are looked at for five
	// minutes, nothing that is removed is removed at once, and a controller that was killed has a successor after 20 s.
	limitPool, limitDrain = 10 * time.Minute, 25 * time.Minute
	// labGateway is the machine for the nodes of the lab.
	labGateway = "10.99.0.1"
)

// needGluster skips the journey where nobody asked for it, and brings the images into the nodes.
func needGluster(t *testing.T) {
	t.Helper()
	if os.Getenv("QUARRY_GLUSTER") == "" {
		t.Skip("it takes minutes, the lab for itself, and the image of the stand-in for glusterd2: make e2e-gluster")
	}
	lab(t, "load", filepath.Join(repoRoot(), "dist", "gd2.tar"))
	archive := filepath.Join(t.TempDir(), "gd2.tar")
	lab(t, "image", "build", "-f", "test/gd2/Dockerfile", "-t", glusterNext, "--context", ".", "-o", archive)
	lab(t, "load", archive)
	loadEtcd(t)
	for _, n := range nodes {
		// A machine that loses its power later has all of them.
		onNode(t, n, "sync")
	}
}

// glusterRights has the namespace, and the right of the controller to work there.
func glusterRights(t *testing.T) {
	t.Helper()
	createObject(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: glusterNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}})
	createObject(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: glusterNamespace, Name: "quarry-gluster"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "quarry-gluster"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "quarry-controller", Namespace: controllerNamespace}},
	})
}

// glusterNames gives the pods of the namespace the names that a DNS of Kubernetes gives them: nodes, and with them all pods that are made from now on, ask a
// process of the machine.
func glusterNames(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "names")
	write := func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := kube.List(ctx, pods, client.InNamespace(glusterNamespace)); err != nil {
			return err
		}
		var text strings.Builder
		for _, p := range pods.Items {
			switch {
			case p.Status.PodIP == "":
			case p.Spec.Subdomain != "":
				fmt.Fprintf(&text, "%s.%s.%s.svc %s\n", p.Spec.Hostname, p.Spec.Subdomain, p.Namespace, p.Status.PodIP)
			default:
				fmt.Fprintf(&text, "%s %s\n", p.Name, p.Status.PodIP)
			}
		}
		// Who reads meanwhile reads all of the one or of the other.
		if err := os.WriteFile(file+".new", []byte(text.String()), 0o644); err != nil {
			return err
		}
		return os.Rename(file+".new", file)
	}
	if err := write(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := labCommand("netns", "--", filepath.Join(repoRoot(), "bin", "linux-"+runtime.GOARCH, "test", "gd2", "serve"), "names", "-listen", labGateway+":53", "-file", file)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := write(ctx); err != nil && ctx.Err() == nil {
				t.Log(err)
			}
			time.Sleep(time.Second)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
	})
	for _, n := range nodes {
		// Without the file no pod starts, so that it has to be there afterwards, too. It survives that the machine loses its power.
		before := onNode(t, n, "base64 -w0 /etc/resolv.conf")
		onNode(t, n, "printf 'nameserver "+labGateway+"\\n' > /etc/resolv.conf; sync")
		t.Cleanup(func() { onNode(t, n, "echo "+strings.TrimSpace(before)+" | base64 -d > /etc/resolv.conf; sync") })
	}
}

// withGluster has the controller run the kind, which it does not by itself, and what it had before at the end.
func withGluster(t *testing.T) {
	t.Helper()
	const path = "/spec/template/spec/containers/0/args"
	patch := func(to string) {
		lab(t, "kubectl", "-n", controllerNamespace, "patch", "deployment", "quarry-controller", "--type=json", "-p", to)
		lab(t, "kubectl", "-n", controllerNamespace, "rollout", "status", "deployment/quarry-controller", "--timeout=300s")
	}
	patch(`[{"op":"add","path":"` + path + `","value":["--controllers=*,glustercluster"]}]`)
	t.Cleanup(func() { patch(`[{"op":"remove","path":"` + path + `"}]`) })
}

// killLeader ends the process of the controller that leads, once it is another one than before, and says which it was. Its pod goes, too: the kubelet would wait before
// it starts the container again.
func killLeader(t *testing.T, before string) (leader string) {
	t.Helper()
	eventually(t, limitPod, "a controller leads", func(ctx context.Context) error {
		lease := &coordinationv1.Lease{}
		if err := kube.Get(ctx, client.ObjectKey{Namespace: controllerNamespace, Name: "quarry-controller"}, lease); err != nil {
			return err
		}
		if leader = ptr.Deref(lease.Spec.HolderIdentity, ""); leader == "" || leader == before {
			return fmt.Errorf("%q leads", leader)
		}
		return nil
	})
	name, _, _ := strings.Cut(leader, "_")
	p := &corev1.Pod{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: controllerNamespace, Name: name}, p); err != nil {
		t.Fatal(err)
	}
	out := onNode(t, p.Spec.NodeName, `for p in /proc/[0-9]*; do if grep -zxF "POD_NAME=`+name+`" $p/environ >/dev/null 2>&1; then kill -9 ${p#/proc/} && echo killed; fi; done`)
	if !strings.Contains(out, "killed") {
		t.Fatalf("no process of %s runs on %s", name, p.Spec.NodeName)
	}
	if err := kube.Delete(t.Context(), p, client.GracePeriodSeconds(1)); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return leader
}

// dumpGluster prints what a user would look at, if the test failed.
func dumpGluster(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for _, args := range [][]string{
		{"kubectl", "-n", glusterNamespace, "get", "glusterclusters,glusternodes,pods,persistentvolumeclaims,statefulsets", "-o", "wide"},
		{"kubectl", "-n", glusterNamespace, "get", "glusterclusters,glusternodes", "-o", "yaml"},
		{"kubectl", "-n", glusterNamespace, "get", "events", "--sort-by=.lastTimestamp"},
		{"kubectl", "-n", glusterNamespace, "logs", "-l", v1alpha1.LabelGlusterPart, "--prefix", "--tail=20"},
		{"kubectl", "-n", controllerNamespace, "logs", "-l", "app.kubernetes.io/part-of=quarry", "--all-containers", "--prefix", "--tail=80"},
	} {
		out, err := tryLab(args...)
		t.Logf("%s\n%s%v", strings.Join(args, " "), out, err)
	}
}
