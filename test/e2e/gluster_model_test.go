//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/remote"
)

// glusterModel runs the pod with the model of the servers.
func glusterModel(t *testing.T) {
	t.Helper()
	createObject(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: glusterNamespace, Name: glusterHub},
		Spec: corev1.PodSpec{NodeName: nodes[0], Containers: []corev1.Container{{
			Name: "hub", Image: glusterImage, ImagePullPolicy: corev1.PullNever, Args: []string{"hub", "--heal-time=5s"},
		}}},
	})
}

// ask has the model do something through a server that runs.
func ask(ctx context.Context, what string, query map[string][]string) error {
	_, err := through(ctx, func(node string) *rest.Request {
		r := hub(core.CoreV1().RESTClient().Post(), "nodes", glusterHost(node), what)
		for key, values := range query {
			for _, value := range values {
				r = r.Param(key, value)
			}
		}
		return r
	})
	return err
}

// through asks the model for something through one server after the other until one answers.
func through(ctx context.Context, request func(node string) *rest.Request) (text string, err error) {
	all, err := glusterNodes(ctx)
	if err != nil {
		return "", err
	}
	err = errors.New("there is no node")
	for _, n := range all {
		var failed error
		if text, failed = answered(ctx, request(n.Name)); failed == nil {
			return text, nil
		}
		err = errors.Join(err, failed)
	}
	return "", err
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

// volumeHas is what the model says of a volume.
func volumeHas(ctx context.Context, volume string) (has remote.Content, err error) {
	return has, tells(ctx, &has, "content", volume)
}

// serverDevices are the devices that the model says a node has.
func serverDevices(ctx context.Context, n v1alpha1.GlusterNode) ([]cluster.Device, error) {
	var all []cluster.Device
	err := tells(ctx, &all, "devices")
	return slices.DeleteFunc(all, func(d cluster.Device) bool { return d.PeerID != n.Spec.Peer }), err
}

// tells reads what a server of the model tells.
func tells(ctx context.Context, to any, what ...string) error {
	text, err := through(ctx, func(node string) *rest.Request {
		return hub(core.CoreV1().RESTClient().Get(), append([]string{"nodes", glusterHost(node)}, what...)...)
	})
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), to)
}

// lacking is how many entries the bricks of a volume lack.
func lacking(has remote.Content) (n int) {
	for _, lacks := range has.Bricks {
		n += lacks
	}
	return n
}

// nothingStrange wants the model to have been asked for nothing that it does not know: the stand-in answers that as a server would, and nobody would notice.
func nothingStrange(t *testing.T) {
	t.Helper()
	if text, err := answered(t.Context(), hub(core.CoreV1().RESTClient().Get(), "strange")); err != nil || strings.TrimSpace(text) != "[]" {
		t.Errorf("the model was asked for what it does not know: %s, %v", text, err)
	}
}
