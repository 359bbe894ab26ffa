//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
)

// TestCephFSEncrypted makes an encrypted OSD of one disk: nothing of what a pod writes is on the disk in the clear, also not after the node was off, and the disk is given back clean, without its key.
func TestCephFSEncrypted(t *testing.T) {
	needCeph(t)
	image := newImage(t, "sealed", 4<<30)
	d := plug(t, nodes[0], image, "ubd")
	c := newCephCluster(t, "sealed", nodes[0])
	c.Spec.Devices = &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{slotOf(t, d)}, MinAge: &metav1.Duration{}}
	c.Spec.Ceph.Encrypted, c.Spec.Ceph.Replicas, c.Spec.Ceph.MDS = true, 1, 1
	runCeph(t, c)
	encryptedOSD(t, c, image)

	const marker = "QUARRY-SAYS-THIS-ALOUD"
	v := claim(t, "sealed", c.Name, "256Mi", shared)
	p := pod(t, "says", nodes[0], "for i in $(seq 20000); do echo "+marker+" $i; done > /data0/said; sync; md5sum /data0/said", v)
	said := logs(waitPod(t, p, corev1.PodSucceeded))
	remove(t, p)
	onNode(t, nodes[0], "sync")
	if n := occurrences(t, image, []byte(marker)); n > 0 {
		t.Fatalf("the disk has what the pod wrote, %d times", n)
	}
	for _, in := range []string{"bluestore block device", cephname.PoolData} {
		if n := occurrences(t, image, []byte(in)); n > 0 {
			t.Errorf("the disk has %q, %d times", in, n)
		}
	}

	// A pod that ends leaves the disk open, and the next one finds it so.
	onOSD := client.MatchingLabels{cephname.LabelFSID: string(c.UID), cephname.LabelDaemon: cephname.DaemonOSD}
	if err := kube.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(cephname.Namespace), onOSD); err != nil {
		t.Fatal(err)
	}
	servesAgain(t, c, "its pod ended")
	lab(t, "node", "kill", nodes[0])
	lab(t, "node", "start", nodes[0])
	servesAgain(t, c, "its node was off")
	p = pod(t, "reads", nodes[0], "md5sum /data0/said", v)
	if again := logs(waitPod(t, p, corev1.PodSucceeded)); again != said {
		t.Errorf("written was %q, and read is %q", said, again)
	}
	remove(t, p)
	remove(t, v)
	removeWithin(t, c, limitCephGone)
	var keys corev1.SecretList
	if err := kube.List(t.Context(), &keys, client.InNamespace(cephname.Namespace), client.MatchingLabels{cephname.LabelDaemon: cephname.ObjectDiskKey}); err != nil || len(keys.Items) > 0 {
		t.Errorf("%d keys stay: %v", len(keys.Items), err)
	}
	if h := headersOf(t, image); len(h) > 0 {
		t.Errorf("the disk still carries %+v", h)
	}
}

// servesAgain waits until the OSD is up, and the Cluster ready.
func servesAgain(t *testing.T, c *v1alpha1.Cluster, why string) {
	t.Helper()
	eventually(t, limitCeph, "the OSD serves after "+why, func(ctx context.Context) error {
		h, err := healthOf(ctx, c)
		if err != nil {
			return err
		}
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if h.OSDMap.Up != 1 || !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("%+v, %s: %s", h, c.Status.Phase, c.Status.Message)
		}
		return nil
	})
}

// encryptedOSD wants both headers on the disk, the condition, and one key.
func encryptedOSD(t *testing.T, c *v1alpha1.Cluster, image string) {
	t.Helper()
	h := headersOf(t, image)
	if len(h) != 2 || h[0].Err != nil || h[1].Err != nil || !h[0].Ready || h[0].FSID != string(c.UID) {
		t.Fatalf("headers %+v", h)
	}
	eventually(t, limitReady, "the disk counts as encrypted", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionDisksEncrypted) {
			return fmt.Errorf("%+v", c.Status.Conditions)
		}
		return nil
	})
	var keys corev1.SecretList
	if err := kube.List(t.Context(), &keys, client.InNamespace(cephname.Namespace), client.MatchingLabels{cephname.LabelFSID: string(c.UID), cephname.LabelDaemon: cephname.ObjectDiskKey}); err != nil {
		t.Fatal(err)
	}
	if n := len(keys.Items); n != 1 || keys.Items[0].Annotations[cephname.AnnotationOSD] != h[0].UUID || len(keys.Items[0].Data[cephname.KeyDisk]) != osd.KeyBytes {
		t.Fatalf("%d keys", n)
	}
	out := onNode(t, nodes[0], "lsblk --noheadings --output TYPE,NAME; dmsetup table "+osd.MappingName(h[0].UUID))
	t.Logf("on the node:\n%s", out)
	if !strings.Contains(out, "crypt") {
		t.Error("nothing is mapped by dm-crypt")
	}
}

func headersOf(t *testing.T, image string) []osd.Header {
	t.Helper()
	f, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head := make([]byte, osd.HeadersBytes)
	if _, err := io.ReadFull(f, head); err != nil {
		t.Fatal(err)
	}
	return osd.ParseHeaders(head)
}

// occurrences counts how often something stands in an image.
func occurrences(t *testing.T, image string, what []byte) int {
	t.Helper()
	f, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, begin := 0, time.Now()
	buffer, kept := make([]byte, 4<<20), 0
	for {
		read, err := io.ReadFull(f, buffer[kept:])
		part := buffer[:kept+read]
		n += bytes.Count(part, what)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Logf("%q %d times, read in %s", what, n, time.Since(begin).Round(time.Second))
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		// What begins at the end of a part and goes on in the next one counts there.
		kept = copy(buffer, part[len(part)-len(what)+1:])
	}
}
