package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/ceph/cephtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
)

// diskKeys are the Secrets with keys of disks, by the UUIDs of the OSDs.
func (k *kubelet) diskKeys() map[string]*corev1.Secret {
	k.t.Helper()
	var all corev1.SecretList
	if err := k.client.List(context.Background(), &all, client.InNamespace(cephname.Namespace), client.MatchingLabels{cephname.LabelDaemon: cephname.ObjectDiskKey}); err != nil {
		k.t.Fatal(err)
	}
	out := map[string]*corev1.Secret{}
	for i := range all.Items {
		out[all.Items[i].Annotations[cephname.AnnotationOSD]] = &all.Items[i]
	}
	return out
}

// sealed wants the disk of a host to be encrypted, ready, closed, and to open with the key that its Secret has.
func (k *kubelet) sealed(host string) {
	k.t.Helper()
	m := k.agents[host].Marks("sdb")
	r := k.member("files", host).Spec.Ceph.OSDs
	if len(r) != 1 || !r[0].Encrypted || !r[0].Keyed {
		k.t.Fatalf("on record of %s is %+v", host, r)
	}
	secret := k.diskKeys()[r[0].UUID]
	if secret == nil {
		k.t.Fatalf("no key for %s", host)
	}
	key, err := osd.NewKey(secret.Data[cephname.KeyDisk])
	if err != nil || !m.Key.Equal(key) || len(m.Headers) != 2 || !m.Headers[0].Ready || m.Mapped || len(m.Labels) > 0 {
		k.t.Fatalf("%s: %+v, %v", host, m, err)
	}
}

// TestCeph_encrypted: disks are encrypted, each with a key of its own, from the first byte to the last; and are given back clean, without a key.
func TestCeph_encrypted(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3", "n4")
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Encrypted: true, Replicas: 2} }, "n1", "n2", "n3", "n4")
	k.until(k.served(4, 3))
	k.until(hasCondition(v1alpha1.ConditionDisksEncrypted, metav1.ConditionTrue, v1alpha1.ReasonDisksEncrypted))
	keys := map[string]bool{}
	for h := range k.agents {
		k.sealed(h)
	}
	for _, s := range k.diskKeys() {
		keys[string(s.Data[cephname.KeyDisk])] = true
	}
	if len(keys) != 4 {
		t.Errorf("%d keys for 4 disks", len(keys))
	}
	// A controller that remembers nothing makes no other keys.
	k.restartCeph()
	k.passes(5)
	for _, s := range k.diskKeys() {
		if !keys[string(s.Data[cephname.KeyDisk])] {
			t.Errorf("another key: %s", s.Name)
		}
	}
	k.leavesWithoutKey("n1")
	k.deleteCluster("files")
	k.until(func(c *v1alpha1.Cluster) string {
		if c != nil {
			return "still there"
		}
		return ""
	})
	for name, a := range k.agents {
		if !a.IsEmpty("sdb") {
			t.Errorf("%s: its disk carries %+v", name, a.Marks("sdb"))
		}
	}
	if len(k.diskKeys()) > 0 {
		t.Errorf("%d keys stay", len(k.diskKeys()))
	}
}

// leavesWithoutKey takes a host off the Cluster: its disk is clean then, and its key is gone.
func (k *kubelet) leavesWithoutKey(host string) {
	k.t.Helper()
	uuid := k.member("files", host).Spec.Ceph.OSDs[0].UUID
	c := k.get("files")
	c.Spec.Hosts = slices.DeleteFunc(c.Spec.Hosts, func(h v1alpha1.HostName) bool { return string(h) == host })
	if err := k.client.Update(context.Background(), c); err != nil {
		k.t.Fatal(err)
	}
	k.model.Change(func() {
		for i := range k.model.OSDs {
			k.model.OSDs[i].Holds = k.model.OSDs[i].Holds && k.model.OSDs[i].UUID != uuid
		}
	})
	k.until(func(c *v1alpha1.Cluster) string {
		if k.member("files", host) != nil {
			return "the member is still there"
		}
		return k.served(3, 3)(c)
	})
	if !k.agents[host].IsEmpty("sdb") || k.diskKeys()[uuid] != nil || len(k.diskKeys()) != 3 {
		k.t.Errorf("left are %+v, and %d keys", k.agents[host].Marks("sdb"), len(k.diskKeys()))
	}
}

// TestCeph_encryptedDiskIsBack: a disk that was away comes back as another device, which only a new pod of its OSD opens. One of an OSD that serves is left alone.
func TestCeph_encryptedDiskIsBack(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Encrypted: true, Replicas: 2} }, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	uuid := k.member("files", "n1").Spec.Ceph.OSDs[0].UUID
	k.agents["n1"].Replug("sdb", true)
	k.restartCeph()
	k.passes(10)
	if !k.agents["n1"].Marks("sdb").Moved {
		t.Fatal("the pod of an OSD that serves was replaced")
	}
	k.model.Change(func() {
		for i := range k.model.OSDs {
			k.model.OSDs[i].Up = k.model.OSDs[i].Up && k.model.OSDs[i].UUID != uuid
		}
	})
	k.passes(3)
	if !k.agents["n1"].Marks("sdb").Moved {
		t.Fatal("the pod of an OSD that only begins was replaced")
	}
	k.begunAnew(uuid)
	k.until(func(c *v1alpha1.Cluster) string {
		if k.agents["n1"].Marks("sdb").Moved {
			return "nobody opened the disk anew"
		}
		return k.served(3, 3)(c)
	})
	if m := k.agents["n1"].Marks("sdb"); m.Moved || !m.Mapped || len(m.Headers) != 2 {
		t.Errorf("the disk is %+v", m)
	}
}

// begunAnew has the daemon of an OSD end in its pod, and begin again there.
func (k *kubelet) begunAnew(uuid string) {
	k.t.Helper()
	var pods corev1.PodList
	if err := k.client.List(k.t.Context(), &pods, client.InNamespace(cephname.Namespace), client.MatchingLabels{cephname.LabelDaemon: cephname.DaemonOSD}); err != nil {
		k.t.Fatal(err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Annotations[cephname.AnnotationOSD] != uuid {
			continue
		}
		p.Status.ContainerStatuses[0].RestartCount++
		if err := k.client.Status().Update(k.t.Context(), p); err != nil {
			k.t.Fatal(err)
		}
	}
}

// TestCeph_diskKeyIsNeverMadeAnew: without the key of its disk an OSD is not started, nothing is formatted, and no other key is made. It goes on once the Secret is restored.
func TestCeph_diskKeyIsNeverMadeAnew(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Encrypted: true, Replicas: 2} }, "n1", "n2", "n3")
	k.until(k.served(3, 3))
	uuid := k.member("files", "n1").Spec.Ceph.OSDs[0].UUID
	secret := k.diskKeys()[uuid]
	if err := k.client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	k.until(func(c *v1alpha1.Cluster) string {
		if !strings.Contains(strings.Join(c.Status.Ceph.Waits, " "), secret.Name) {
			return "nobody waits for the Secret"
		}
		return hasCondition(v1alpha1.ConditionDisksEncrypted, metav1.ConditionFalse, v1alpha1.ReasonDiskKeyMissing, secret.Name)(c)
	})
	k.restartCeph()
	k.passes(10)
	if m := k.agents["n1"].Marks("sdb"); k.diskKeys()[uuid] != nil || len(m.Headers) != 2 || !m.Headers[0].Ready {
		t.Fatalf("the disk carries %+v, and the keys are %v", m, k.diskKeys())
	}
	// It is lost for ever: a person gives the OSD up, which needs no key, and the disk becomes an OSD with another one.
	k.model.Change(func() {
		i := slices.IndexFunc(k.model.OSDs, func(o cephtest.OSD) bool { return o.UUID == uuid })
		k.model.OSDs[i].Up, k.model.OSDs[i].In = false, false
	})
	k.until(replacementOffered)
	c := k.get("files")
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationApprove, c.Status.Plan.Digest)
	if err := k.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	k.groups("active+clean")
	k.until(func(c *v1alpha1.Cluster) string {
		if r := k.member("files", "n1").Spec.Ceph.OSDs; len(r) != 1 || r[0].Replaced || r[0].Purged || !r[0].Keyed {
			return "the disk is not an OSD anew"
		}
		return k.served(3, 3)(c)
	})
	k.sealed("n1")
	if got := k.diskKeys()[uuid]; got == nil || string(got.Data[cephname.KeyDisk]) == string(secret.Data[cephname.KeyDisk]) {
		t.Error("the key of the new OSD is the lost one")
	}
}

// TestCeph_encryptedLater: the field is about disks that are taken from then on. Those that are OSDs stay as they are, and are told of.
func TestCeph_encryptedLater(t *testing.T) {
	k := newCeph(t, "n1", "n2", "n3")
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Replicas: 1} }, "n1", "n2")
	k.until(k.served(2, 1))
	c := k.get("files")
	c.Spec.Ceph.Encrypted = true
	c.Spec.Hosts = append(c.Spec.Hosts, "n3")
	if err := k.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	k.until(func(c *v1alpha1.Cluster) string { return k.served(3, 3)(c) })
	k.until(hasCondition(v1alpha1.ConditionDisksEncrypted, metav1.ConditionFalse, v1alpha1.ReasonDisksNotEncrypted, "2 of 3"))
	k.sealed("n3")
	if m := k.agents["n1"].Marks("sdb"); len(m.Labels) == 0 || len(m.Headers) > 0 || len(k.diskKeys()) != 1 {
		t.Errorf("%+v, %d keys", m, len(k.diskKeys()))
	}
	// What is on record is not changed by anybody.
	for _, h := range []string{"n1", "n3"} {
		m := k.member("files", h)
		m.Spec.Ceph.OSDs[0].Encrypted = !m.Spec.Ceph.OSDs[0].Encrypted
		if err := k.client.Update(t.Context(), m); err == nil || !strings.Contains(err.Error(), "stays encrypted") {
			t.Errorf("%s: %v", h, err)
		}
	}
	// A controller of an earlier version writes the record without what it does not know.
	m := k.member("files", "n3")
	m.Spec.Ceph.OSDs[0].Secret = ""
	if err := k.client.Update(t.Context(), m); err == nil || !strings.Contains(err.Error(), "stays on record as long as the key may open the disk") {
		t.Error(err)
	}
}

// TestCeph_encryptedUnable: a node that cannot encrypt disks is told of, and its disk stays clean.
func TestCeph_encryptedUnable(t *testing.T) {
	k := newCeph(t, "n1")
	k.agents["n1"].RemoveEncryption(true)
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Encrypted: true, Replicas: 1} }, "n1")
	k.until(func(c *v1alpha1.Cluster) string {
		if c == nil || !strings.Contains(c.Status.Message, "cannot be encrypted on this node") {
			return "it is not told"
		}
		return ""
	})
	if !k.agents["n1"].IsEmpty("sdb") {
		t.Errorf("%+v", k.agents["n1"].Marks("sdb"))
	}
	k.agents["n1"].RemoveEncryption(false)
	k.until(k.served(1, 1))
	k.sealed("n1")
}

// TestCeph_keyBeforeItIsUsed: the key of a disk is made when it is used first. From then on that one is the only one.
func TestCeph_keyBeforeItIsUsed(t *testing.T) {
	k := newCeph(t, "n1")
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Encrypted: true, Replicas: 1} }, "n1")
	var uuid string
	// No pod runs meanwhile: the disk goes on record, and without monitors nobody gets to encrypt it.
	k.suite.until("files", func(*v1alpha1.Cluster) string {
		m := k.member("files", "n1")
		if m == nil || m.Spec.Ceph == nil || len(m.Spec.Ceph.OSDs) == 0 {
			return "no disk is on record"
		}
		uuid = m.Spec.Ceph.OSDs[0].UUID
		return ""
	})
	unused := func() {
		t.Helper()
		if r := k.member("files", "n1").Spec.Ceph.OSDs; len(r) != 1 || !r[0].Encrypted || r[0].Keyed || !k.agents["n1"].IsEmpty("sdb") {
			t.Fatalf("on record is %+v, and the disk carries %+v", r, k.agents["n1"].Marks("sdb"))
		}
	}
	unused()
	// No key is needed yet, so that it is not there is not told.
	for range 3 {
		k.suite.until("files", hasCondition(v1alpha1.ConditionDisksEncrypted, metav1.ConditionTrue, v1alpha1.ReasonDisksEncrypted))
	}
	unused()
	k.until(k.served(1, 1))
	k.sealed("n1")
	if got := k.diskKeys()[uuid]; got == nil || got.Name != k.member("files", "n1").Spec.Ceph.OSDs[0].Secret {
		t.Errorf("the key is %+v", got)
	}
}
