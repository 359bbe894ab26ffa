package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// forget makes the API server what it was before a host had a monitor and an OSD: its Member is gone, so that they are on no record, nothing is deployed for them, and no kubelet runs their pods.
func (k *kubelet) forget(host string) {
	k.t.Helper()
	ctx := context.Background()
	m := k.member("files", host)
	m.Finalizers = nil
	if err := k.client.Update(ctx, m); err != nil {
		k.t.Fatal(err)
	}
	if err := k.client.Delete(ctx, m); err != nil {
		k.t.Fatal(err)
	}
	var all appsv1.DeploymentList
	if err := k.client.List(ctx, &all, client.InNamespace(cephname.Namespace)); err != nil {
		k.t.Fatal(err)
	}
	for i := range all.Items {
		d := &all.Items[i]
		if kind := d.Labels[cephname.LabelDaemon]; d.Annotations[cephname.AnnotationNode] != host || kind != cephname.DaemonMonitor && kind != cephname.DaemonOSD {
			continue
		}
		if err := k.client.Delete(ctx, d); err != nil {
			k.t.Fatal(err)
		}
		k.stop(d)
	}
}

// recorded wants a host to have a monitor and an OSD on record.
func (k *kubelet) recorded(host string) string {
	if m := k.member("files", host); m == nil || m.Spec.Ceph == nil || m.Spec.Ceph.Monitor == nil || len(m.Spec.Ceph.OSDs) != 1 {
		return fmt.Sprintf("the Member is %+v", m)
	}
	return ""
}

// madeNothing wants Ceph to have been told nothing, after so many changes, that makes or gives up a monitor, an OSD, a pool or a filesystem.
func (k *kubelet) madeNothing(done int) {
	k.t.Helper()
	for _, line := range k.model.Changes()[done:] {
		if slices.ContainsFunc([]string{"osd new", "purge", "mon rm", "osd out", "osd destroy", "fs new", "pool create", "pool set"}, func(s string) bool { return strings.Contains(line, s) }) {
			k.t.Errorf("Ceph was told: %s", line)
		}
	}
}

// same wants the same monitor and OSD to be on record of a host as before.
func (k *kubelet) same(host string, was v1alpha1.MemberCeph) {
	k.t.Helper()
	got := k.member("files", host).Spec.Ceph
	if got == nil || got.Monitor == nil || len(got.OSDs) != 1 {
		k.t.Fatalf("%s: on record is %+v", host, got)
	}
	// What tells the key from others is not known any more.
	want := was.OSDs[0]
	want.KeyDigest = ""
	if *got.Monitor != *was.Monitor || got.OSDs[0] != want {
		k.t.Errorf("%s: on record is %+v with %+v, and was %+v with %+v", host, got.Monitor, got.OSDs[0], was.Monitor, want)
	}
}

// TestCeph_restoredFromBefore: after a restore of the API server from a backup which is older than a monitor and an OSD both come back on record, and serve with all that they had. Nothing is made anew.
func TestCeph_restoredFromBefore(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("encrypted %t", encrypted), func(t *testing.T) {
			k := newCeph(t, "n1", "n2", "n3")
			k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Encrypted: encrypted} }, "n1", "n2", "n3")
			k.until(k.served(3, 3))
			had := k.member("files", "n2").Spec.Ceph.DeepCopy()
			k.forget("n2")
			k.restartCeph()
			done := len(k.model.Changes())
			k.until(func(c *v1alpha1.Cluster) string {
				if why := k.recorded("n2"); why != "" {
					return why
				}
				return k.served(3, 3)(c)
			})
			k.same("n2", *had)
			k.madeNothing(done)
			k.passes(3)
			k.model.Change(func() {
				for _, o := range k.model.OSDs {
					if !o.Up || !o.In {
						t.Errorf("%+v", o)
					}
				}
			})
		})
	}
}

// TestCeph_restoredWithoutKey: an encrypted OSD that is younger than the backup, as its key is, stays off the record until somebody restores the Secret. The person is told which.
func TestCeph_restoredWithoutKey(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Encrypted: true, Replicas: 2} }, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	uuid := k.member("files", "n2").Spec.Ceph.OSDs[0].UUID
	secret := k.diskKeys()[uuid].DeepCopy()
	if err := k.client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	k.forget("n2")
	k.restartCeph()
	k.untilQuietly(func(*v1alpha1.Cluster) string {
		if m := k.member("files", "n2"); m == nil || !strings.Contains(m.Status.Message, cephname.AnnotationOSD+"="+uuid) {
			return fmt.Sprintf("the Member is %+v", m)
		}
		return ""
	})
	if r := k.member("files", "n2").Spec.Ceph; r != nil && len(r.OSDs) > 0 {
		t.Fatalf("on record is %+v", r)
	}
	secret.ResourceVersion, secret.UID = "", ""
	if err := k.client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	k.untilQuietly(k.served(3, 3))
	if o := k.member("files", "n2").Spec.Ceph.OSDs[0]; o.UUID != uuid || o.Secret != secret.Name {
		t.Errorf("on record is %+v", o)
	}
}
