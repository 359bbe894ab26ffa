package cephpod

import (
	"encoding/base64"
	"encoding/binary"
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

// DiskKey makes the Secret with the key of the disk of an encrypted OSD. random has to be that of the system for what is used.
func (p Plan) DiskKey(random io.Reader, uuid string) (*corev1.Secret, error) {
	secret := make([]byte, osd.KeyBytes)
	if _, err := io.ReadFull(random, secret); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: cephname.DiskKey(p.Cluster, uuid), Namespace: cephname.Namespace, Labels: p.Labels(cephname.ObjectDiskKey, ""),
			Annotations: map[string]string{cephname.AnnotationOSD: uuid},
		},
		Data: map[string][]byte{cephname.KeyDisk: secret},
	}, nil
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
