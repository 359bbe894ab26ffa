//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/gd2/remote"
)

const (
	// glusterNamespace is where the pool is, and glusterHub the pod with the model of its servers.
	glusterNamespace = "gluster"
	glusterHub       = "gd2-hub"
	// glusterImage is the stand-in for glusterd2.
	glusterImage = "quarry.storage/gd2:dev"
	// limitPool is how long etcd and three servers may take to come up, limitDrain how long a node may take to be emptied and to go: its data are looked at for five
	// minutes, and nothing that is removed is removed at once.
	limitPool, limitDrain = 10 * time.Minute, 15 * time.Minute
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
	source, archive := filepath.Join(repoRoot(), "test", "etcd"), filepath.Join(t.TempDir(), "etcd.tar")
	lab(t, "image", "build", "-f", filepath.Join(source, "Dockerfile"), "-t", etcdImage("1"), "--build-arg", "RELEASE=1", "--context", source, "-o", archive)
	lab(t, "load", archive)
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
		// Without the file no pod starts, so that it has to be there afterwards, too.
		onNode(t, n, "cp /etc/resolv.conf /run/resolv.conf.before && printf 'nameserver "+labGateway+"\\n' > /etc/resolv.conf")
		t.Cleanup(func() { onNode(t, n, "cp /run/resolv.conf.before /etc/resolv.conf") })
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

// glusterModel runs the pod with the model of the servers.
func glusterModel(t *testing.T) {
	t.Helper()
	createObject(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: glusterNamespace, Name: glusterHub},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "hub", Image: glusterImage, ImagePullPolicy: corev1.PullNever, Args: []string{"hub", "--heal-time=5s"},
		}}},
	})
}

// askHub has the model do something through the server of a node.
func askHub(ctx context.Context, node, what string, query map[string]string) error {
	r := hub(core.CoreV1().RESTClient().Post(), "nodes", glusterHost(node), what)
	for key, value := range query {
		r = r.Param(key, value)
	}
	_, err := answered(ctx, r)
	return err
}

// glusterHost is the name that the server of a node has in the model.
func glusterHost(node string) string {
	return fmt.Sprintf("%s-0.pool-gluster.%s.svc", node, glusterNamespace)
}

// hub is a request to the model.
func hub(r *rest.Request, path ...string) *rest.Request {
	return r.Namespace(glusterNamespace).Resource("pods").Name(glusterHub + ":8080").SubResource("proxy").Suffix(path...)
}

func answered(ctx context.Context, r *rest.Request) (string, error) {
	text, err := r.DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return string(text), nil
}

// volumeIsWhole wants the model to say of a volume that it has exactly these files, on as many bricks, of which none lacks any.
func volumeIsWhole(t *testing.T, node, name string, bricks int, files ...string) {
	t.Helper()
	text, err := answered(t.Context(), hub(core.CoreV1().RESTClient().Get(), "nodes", glusterHost(node), "content", name))
	if err != nil {
		t.Fatal(err)
	}
	var has remote.Content
	if err := json.Unmarshal([]byte(text), &has); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(has.Files, files) || len(has.Bricks) != bricks {
		t.Errorf("volume %s is not as it was: %s", name, text)
	}
	for peer, lacks := range has.Bricks {
		if lacks > 0 {
			t.Errorf("the brick of volume %s on peer %s lacks %d entries", name, peer, lacks)
		}
	}
}

// nothingStrange wants the model to have been asked for nothing that it does not know: the stand-in answers that as a server would, and nobody would notice.
func nothingStrange(t *testing.T) {
	t.Helper()
	if text, err := answered(t.Context(), hub(core.CoreV1().RESTClient().Get(), "strange")); err != nil || strings.TrimSpace(text) != "[]" {
		t.Errorf("the model was asked for what it does not know: %s, %v", text, err)
	}
}

// glusterNodes are the nodes of the pool.
func glusterNodes(ctx context.Context) ([]v1alpha1.GlusterNode, error) {
	list := &v1alpha1.GlusterNodeList{}
	err := kube.List(ctx, list, client.InNamespace(glusterNamespace))
	return list.Items, err
}

// poolRuns has nothing to say once the pool runs with so many nodes.
func poolRuns(c *v1alpha1.GlusterCluster, want int32) func(context.Context) error {
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

// dumpGluster prints what a user would look at.
func dumpGluster(t *testing.T) {
	t.Helper()
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
