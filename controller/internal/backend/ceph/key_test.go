package ceph

import (
	"bytes"
	"cmp"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	decideceph "quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
)

const (
	fsid    = "11111111-2222-4333-8444-555555555555"
	another = "11111111-2222-4333-8444-666666666666"
	disk    = "aaaaaaaa-bbbb-5ccc-8ddd-eeeeeeeeeeee"
)

// name is that of the Secret that keyed makes.
var name = cephname.DiskKey("files", disk) + "-" + strings.Repeat("72", 5)

// keyed is a Cluster with one encrypted OSD on record, and its Secret as change leaves it; nil for none.
func keyed(t *testing.T, change func(*corev1.Secret)) (*Backend, *v1alpha1.Cluster, *v1alpha1.Member, view.Step) {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		t.Fatal(err)
	}
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "files", UID: fsid}}
	m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "files.n1"}}
	m.Spec.Of.UID, m.Spec.Ceph = fsid, &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{UUID: disk, Encrypted: true, Secret: name, Keyed: true}}}
	objects := []client.Object{c, m}
	if change != nil {
		secret, err := cephpod.Of(c).DiskKey(strings.NewReader(strings.Repeat("r", 37)), disk)
		if err != nil {
			t.Fatal(err)
		}
		secret.UID = "secret"
		change(secret)
		objects = append(objects, secret)
	}
	api := fake.NewClientBuilder().WithScheme(kinds).WithObjects(objects...).WithIndex(&v1alpha1.Member{}, kube.MemberOwner, func(o client.Object) []string {
		return []string{string(o.(*v1alpha1.Member).Spec.Of.UID)}
	}).Build()
	s := view.Step{Ceph: decideceph.Step{UUID: disk}}
	s.Cluster, s.UID, s.FSID, s.Member, s.Daemon.Secret = "files", fsid, fsid, m.Name, name
	return New(Config{Client: api, Live: api}), c, m, s
}

func bareLabels(s *corev1.Secret) { s.Labels = nil }
func foreign(s *corev1.Secret)    { s.Labels[cephname.LabelFSID] = another }

// TestDiskKeys: what the look says of a Secret is what the step says that reads it, and it is found by its name.
func TestDiskKeys(t *testing.T) {
	for label, tt := range map[string]struct {
		change func(*corev1.Secret)
		says   string
	}{
		"whole":         {func(*corev1.Secret) {}, ""},
		"gone":          {nil, "is gone: restore it"},
		"no labels":     {bareLabels, "lacks the label quarry.storage/ceph-fsid=" + fsid},
		"another's":     {foreign, "lacks the label quarry.storage/ceph-fsid=" + fsid},
		"no annotation": {func(s *corev1.Secret) { s.Annotations = nil }, "lacks the annotation"},
		"no key":        {func(s *corev1.Secret) { s.Data[cephname.KeyDisk] = bytes.Repeat([]byte("r"), 31) }, "has no key of 32 bytes"},
	} {
		b, c, m, s := keyed(t, tt.change)
		w := &view.Workloads{}
		if err := b.diskKeys(t.Context(), c, []*v1alpha1.Member{m}, w); err != nil {
			t.Fatal(err)
		}
		told, read := w.DiskKeys[disk]
		if !read || !strings.Contains(told, tt.says) || (told == "") != (tt.says == "") {
			t.Errorf("%s: %q", label, told)
		}
		key, err := b.useKey(t.Context(), s)
		if key.IsZero() != (told != "") || err != nil && err.Error() != told {
			t.Errorf("%s: the look says %q, the step %v", label, told, err)
		}
	}
}

// TestDiskKeys_another: a key that did not encrypt the disk is told of, and not used. One of a record without a digest is.
func TestDiskKeys_another(t *testing.T) {
	right := rightKey(t)
	for label, tt := range map[string]struct{ digest, says string }{
		"not on record": {"", ""}, "the same": {right.Digest(disk), ""}, "another": {strings.Repeat("0", 64), "has another key"},
	} {
		b, c, m, s := keyed(t, func(*corev1.Secret) {})
		m.Spec.Ceph.OSDs[0].KeyDigest = tt.digest
		if err := b.Client.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		w := &view.Workloads{}
		if err := b.diskKeys(t.Context(), c, []*v1alpha1.Member{m}, w); err != nil {
			t.Fatal(err)
		}
		key, err := b.useKey(t.Context(), s)
		told := w.DiskKeys[disk]
		if (told == "") != (tt.says == "") || !strings.Contains(told, tt.says) || err == nil && key.IsZero() {
			t.Errorf("%s: %q", label, told)
		}
		if err == nil && told != "" || err != nil && err.Error() != told {
			t.Errorf("%s: the look says %q, the step %v", label, told, err)
		}
	}
}

// rightKey is the one that keyed has.
func rightKey(t *testing.T) osd.Key {
	t.Helper()
	k, err := osd.NewKey(bytes.Repeat([]byte("r"), osd.KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestDropKey: a Secret that a person made without labels goes with its disk. One with the label of another Ceph cluster stays, and the person is told what to do.
func TestDropKey(t *testing.T) {
	for label, tt := range map[string]struct {
		change func(*corev1.Secret)
		says   string
	}{
		"whole": {func(*corev1.Secret) {}, ""}, "gone": {nil, ""}, "no labels": {bareLabels, ""}, "another's": {foreign, "kubectl -n quarry-ceph delete secret"},
	} {
		b, _, _, s := keyed(t, tt.change)
		err := b.dropKey(t.Context(), s)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", label, err)
		}
		there, err := b.get(t.Context(), name, &corev1.Secret{})
		if there != (tt.says != "") || err != nil {
			t.Errorf("%s: there %t, %v", label, there, err)
		}
	}
}

// TestDropKey_elsewhere: a disk that went to another host takes its UUID along, and the key that it has there stays, also one of an earlier version, which all hosts call the same.
func TestDropKey_elsewhere(t *testing.T) {
	for label, recorded := range map[string]string{"a name of its own": name + "-n2", "an earlier version": ""} {
		b, _, _, s := keyed(t, func(*corev1.Secret) {})
		there := &corev1.Secret{}
		if err := b.Client.Get(t.Context(), client.ObjectKey{Namespace: cephname.Namespace, Name: name}, there); err != nil {
			t.Fatal(err)
		}
		there.Name, there.ResourceVersion, there.UID = cmp.Or(recorded, cephname.DiskKey("files", disk)), "", ""
		m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "files.n2"}}
		m.Spec.Of.UID, m.Spec.Ceph = fsid, &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{UUID: disk, Encrypted: true, Secret: recorded, Keyed: true}}}
		if err := errors.Join(b.Client.Create(t.Context(), there), b.Client.Create(t.Context(), m), b.dropKey(t.Context(), s)); err != nil {
			t.Fatal(err)
		}
		for secret, want := range map[string]bool{name: false, there.Name: true} {
			if is, err := b.get(t.Context(), secret, &corev1.Secret{}); is != want || err != nil {
				t.Errorf("%s: %s: there %t, %v", label, secret, is, err)
			}
		}
	}
}
