package cephpod

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
)

// keyType is that of AES-256 with Kerberos' way of use, the only one that monitors of version 20 take from daemons; keyBytes is how long a secret of it is.
const (
	keyType  = 2
	keyBytes = 32
)

// Key makes a key as Ceph writes it: the type, when it was made, and the secret with its length, in base64. random has to be that of the system for
// what is used.
func Key(random io.Reader, at time.Time) (string, error) {
	secret := make([]byte, keyBytes)
	if _, err := io.ReadFull(random, secret); err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	le := binary.LittleEndian
	out := le.AppendUint16(nil, keyType)
	out = le.AppendUint32(out, uint32(at.Unix()))
	out = le.AppendUint32(out, uint32(at.Nanosecond()))
	out = le.AppendUint16(out, keyBytes)
	return base64.StdEncoding.EncodeToString(append(out, secret...)), nil
}

// suffixBytes is how many random bytes a name of a Secret with a key of a disk ends with.
const suffixBytes = 5

// DiskSecret is the name of the Secret with the key of the disk of an encrypted OSD: the one on record. An OSD of an earlier version has none on record.
func (p Plan) DiskSecret(uuid, recorded string) string {
	if recorded != "" {
		return recorded
	}
	return cephname.DiskKey(p.Cluster, uuid)
}

// DiskKey makes a Secret with a key of the disk of an encrypted OSD. Its name is one that no Secret had before. random has to be that of the system for what is used.
func (p Plan) DiskKey(random io.Reader, uuid string) (*corev1.Secret, error) {
	secret, suffix := make([]byte, osd.KeyBytes), make([]byte, suffixBytes)
	for _, b := range [][]byte{secret, suffix} {
		if _, err := io.ReadFull(random, b); err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: cephname.DiskKey(p.Cluster, uuid) + "-" + hex.EncodeToString(suffix), Namespace: cephname.Namespace, Labels: p.Labels(cephname.ObjectDiskKey, ""),
			Annotations: map[string]string{cephname.AnnotationOSD: uuid},
		},
		// Another key in its place would open nothing, and the right one would be gone.
		Immutable: new(true),
		Data:      map[string][]byte{cephname.KeyDisk: secret},
	}, nil
}

// OpenDisk returns the key of the disk of an encrypted OSD that the Secret of a name has; nil for none. The error says why the Secret is not used, and what to do.
func (p Plan) OpenDisk(name, uuid string, secret *corev1.Secret) (osd.Key, error) {
	wrong := func(format string, args ...any) (osd.Key, error) {
		return osd.Key{}, fmt.Errorf("the Secret %s in namespace %s %w", name, cephname.Namespace, fmt.Errorf(format, args...))
	}
	if secret == nil {
		return wrong("is gone: restore it. No other key opens the disk, so none is made")
	}
	if !secret.DeletionTimestamp.IsZero() {
		return wrong("is being deleted: restore it once it is gone. No other key opens the disk, so none is made")
	}
	for _, label := range [][2]string{{cephname.LabelFSID, p.FSID}, {cephname.LabelDaemon, cephname.ObjectDiskKey}} {
		if secret.Labels[label[0]] != label[1] {
			return wrong("lacks the label %s=%s. If it is the right one, run: kubectl -n %s label --overwrite secret %s %s=%s", label[0], label[1], cephname.Namespace, name, label[0], label[1])
		}
	}
	if secret.Annotations[cephname.AnnotationOSD] != uuid {
		return wrong("lacks the annotation %s=%s. If it is the right one, run: kubectl -n %s annotate --overwrite secret %s %s=%s", cephname.AnnotationOSD, uuid, cephname.Namespace, name, cephname.AnnotationOSD, uuid)
	}
	key, err := osd.NewKey(secret.Data[cephname.KeyDisk])
	if err != nil {
		return wrong("has no key of %d bytes in %s: delete it, and restore it (%w)", osd.KeyBytes, cephname.KeyDisk, err)
	}
	return key, nil
}

// SameKey returns an error that says what to do if the key in the Secret of a name is another one than that on record, by its digest. Where no digest is on record it is taken for that.
func (p Plan) SameKey(name, uuid string, key osd.Key, digest string) error {
	if digest == "" || key.Digest(uuid) == digest {
		return nil
	}
	return fmt.Errorf("the Secret %s in namespace %s has another key than the one that encrypted the disk: delete it, and restore the right one", name, cephname.Namespace)
}

// passwordBytes is how many random bytes a password is made of: 24 letters, digits, dashes and underscores.
const passwordBytes = 18

// Password makes one that a person can copy. random has to be that of the system for what is used.
func Password(random io.Reader) (string, error) {
	secret := make([]byte, passwordBytes)
	if _, err := io.ReadFull(random, secret); err != nil {
		return "", fmt.Errorf("make a password: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(secret), nil
}

// Keyrings are those of the monitors, which has the administrator's key too, and of the administrator.
func Keyrings(monitor, admin string) (monitors, administrator string) {
	administrator = "[client.admin]\n\tkey = " + admin + "\n\tcaps mds = \"allow *\"\n\tcaps mgr = \"allow *\"\n\tcaps mon = \"allow *\"\n\tcaps osd = \"allow *\"\n"
	return "[mon.]\n\tkey = " + monitor + "\n\tcaps mon = \"allow *\"\n" + administrator, administrator
}
