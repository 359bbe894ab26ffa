//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestNfsArchive: what becomes of the directory of a volume is what the Nfs said when the volume was made. An archived directory is never
// overwritten, and an Nfs with volumes is not removed.
func TestNfsArchive(t *testing.T) {
	turn(t, 11, 20)
	useServer(t)
	const name = "archive"
	n := share(t, name, func(n *v1alpha1.Nfs) {
		n.Spec.SubDir, n.Spec.OnDelete = "${pvc.name}", v1alpha1.DirectoryArchive
	})
	for _, content := range []string{"first", "second"} {
		write := fill(t, n, "papers", "echo "+content+" > /data0/file")
		discard(t, write)
	}
	checkArchive(t, n.Spec.Path, "papers", "first", "second")

	// Nobody gets an archive for a volume.
	setSpec(t, n, func(s *v1alpha1.NfsSpec) { s.SubDir = listed(t, n.Spec.Path)[0] })
	taken := claim(t, "takes-archive", name, "10Mi", shared)
	waitEvent(t, "PersistentVolumeClaim", taken.Name, n.Spec.SubDir)
	remove(t, taken)
	checkArchive(t, n.Spec.Path, "papers", "first", "second")
	setSpec(t, n, func(s *v1alpha1.NfsSpec) { s.SubDir = "${pvc.name}" })

	t.Run("retain", func(t *testing.T) {
		setPolicy(t, n, v1alpha1.DirectoryRetain)
		discard(t, fill(t, n, "kept", "echo kept > /data0/file"))
		if out := onServer(t, "cat "+n.Spec.Path+"/kept/file"); out != "kept\n" {
			t.Errorf("the file is %q", out)
		}
	})
	t.Run("delete", func(t *testing.T) {
		setPolicy(t, n, v1alpha1.DirectoryDelete)
		made := fill(t, n, "tree", "cd /data0; for i in $(seq 40); do mkdir -p d$i/e; touch d$i/e/f1 d$i/e/f2; ln -s / d$i/link; done")
		// A volume keeps the policy that it was made with.
		setPolicy(t, n, v1alpha1.DirectoryArchive)
		discard(t, made)
		left := listed(t, n.Spec.Path)
		if slices.ContainsFunc(left, func(entry string) bool { return strings.Contains(entry, "tree") }) || !slices.Contains(left, "kept") {
			t.Errorf("left on the share: %v", left)
		}
	})
	t.Run("an Nfs with volumes waits", func(t *testing.T) { deletionWaits(t, n) })
}

// fill makes a volume and runs a script on it.
func fill(t *testing.T, n *v1alpha1.Nfs, name, script string) *corev1.PersistentVolumeClaim {
	t.Helper()
	c := claim(t, name, n.Name, "10Mi", shared)
	p := pod(t, "fills-"+name, "", script, c)
	waitPod(t, p, corev1.PodSucceeded)
	remove(t, p)
	return c
}

// discard deletes a claim and waits until its volume is gone.
func discard(t *testing.T, c *corev1.PersistentVolumeClaim) {
	t.Helper()
	v := bound(t, c)
	remove(t, c)
	waitVolumeGone(t, v)
}

// listed returns what is at the root of a share, without what Quarry keeps there.
func listed(t *testing.T, path string) []string {
	t.Helper()
	return strings.Fields(onServer(t, "ls "+path))
}

// checkArchive: the archived directories of a volume's name hold these contents, each once.
func checkArchive(t *testing.T, path, name string, want ...string) {
	t.Helper()
	form := regexp.MustCompile(`^archived-` + name + `-[0-9]{4}`)
	var got []string
	for _, entry := range listed(t, path) {
		if !form.MatchString(entry) {
			t.Errorf("%s is on the share", entry)
			continue
		}
		got = append(got, strings.TrimSpace(onServer(t, "cat "+path+"/"+entry+"/file")))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("archived are %v, want %v", got, want)
	}
}

func setPolicy(t *testing.T, n *v1alpha1.Nfs, p v1alpha1.DirectoryPolicy) {
	t.Helper()
	setSpec(t, n, func(s *v1alpha1.NfsSpec) { s.OnDelete = p })
}

// setSpec changes an Nfs and waits until it serves as it says now.
func setSpec(t *testing.T, n *v1alpha1.Nfs, change func(*v1alpha1.NfsSpec)) {
	t.Helper()
	eventually(t, limitReady, "Nfs "+n.Name+" is changed", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		change(&n.Spec)
		return kube.Update(ctx, n)
	})
	waitRunning(t, n, limitReady)
}

// waitEvent waits until an event of an object says a text.
func waitEvent(t *testing.T, kind, name, text string) {
	t.Helper()
	eventually(t, limitPod, kind+" "+name+" is told", func(ctx context.Context) error {
		var events corev1.EventList
		if err := kube.List(ctx, &events, client.InNamespace(namespace), client.MatchingFields{"involvedObject.name": name}); err != nil {
			return err
		}
		var said []string
		for _, e := range events.Items {
			if e.InvolvedObject.Kind == kind && e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, text) {
				return nil
			}
			said = append(said, e.Message)
		}
		return fmt.Errorf("events say %q", said)
	})
}

// deletionWaits: volumes hold the deletion of an Nfs up. It names them, makes no new ones, and goes when they are gone.
func deletionWaits(t *testing.T, n *v1alpha1.Nfs) {
	c := fill(t, n, "last", "echo last > /data0/file")
	v := bound(t, c)
	if err := kube.Delete(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	eventually(t, limitReady, "the Nfs names its volume and has no class", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		if s := n.Status; s.Phase != v1alpha1.PhaseDeleting || !strings.Contains(s.Message, v.Name) || !strings.Contains(s.Message, namespace+"/"+c.Name) {
			return fmt.Errorf("phase %s: %s", s.Phase, s.Message)
		}
		err := kube.Get(ctx, client.ObjectKeyFromObject(n), &storagev1.StorageClass{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the StorageClass is there: %s", fmt.Sprint(err))
		}
		return nil
	})
	p := pod(t, "reads-last", "", "cat /data0/file", c)
	waitPod(t, p, corev1.PodSucceeded)
	remove(t, p)
	remove(t, c)
	eventually(t, limitPod, "the Nfs is gone", func(ctx context.Context) error {
		err := kube.Get(ctx, client.ObjectKeyFromObject(n), n)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("phase %s: %s, %s", n.Status.Phase, n.Status.Message, fmt.Sprint(err))
	})
}
