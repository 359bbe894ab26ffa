package pki

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// stored is a Secret of the keeper's; nil when it does not exist.
func stored(t *testing.T, c client.Client, name string) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	err := c.Get(context.Background(), client.ObjectKey{Namespace: "quarry-system", Name: name}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// change writes other data into the Secret of the CA, or deletes it when there is none.
func change(t *testing.T, c client.Client, data map[string][]byte) {
	t.Helper()
	s := stored(t, c, SecretCA)
	if s != nil {
		if err := c.Delete(context.Background(), s); err != nil {
			t.Fatal(err)
		}
	}
	if data == nil {
		return
	}
	s = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "quarry-system", Name: SecretCA}, Data: data}
	if err := c.Create(context.Background(), s); err != nil {
		t.Fatal(err)
	}
}

func keep(t *testing.T, k *Keeper) Authority {
	t.Helper()
	if err := k.Keep(context.Background()); err != nil {
		t.Fatal(err)
	}
	a, err := k.Authority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func encoded(t *testing.T, a Authority) map[string][]byte {
	t.Helper()
	data, err := a.encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestKeeper_putsBackWhatItHolds: whatever becomes of the Secret, the leader's own CA stays in force, and no agent is cut off.
func TestKeeper_putsBackWhatItHolds(t *testing.T) {
	for name, broken := range map[string]func(held map[string][]byte) map[string][]byte{
		"deleted": func(map[string][]byte) map[string][]byte { return nil },
		"damaged": func(held map[string][]byte) map[string][]byte {
			held[corev1.TLSPrivateKeyKey] = []byte("x")
			return held
		},
		"another, of a backup": func(map[string][]byte) map[string][]byte { return encoded(t, authorityAt(t, start.Add(-time.Hour))) },
		"without one that is trusted": func(held map[string][]byte) map[string][]byte {
			held[keyBundle] = held[corev1.TLSCertKey]
			delete(held, keyNextCert)
			return held
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, now := fake.NewClientBuilder().Build(), start
			k := keeper(c, &now)
			keep(t, k)
			now = start.Add(caValidity - caRenewBefore + time.Hour) // A next one is trusted too.
			held := keep(t, k)
			if held.Next == nil {
				t.Fatal("no next ca")
			}
			want := encoded(t, held)
			change(t, c, broken(maps.Clone(want)))
			if got := keep(t, k); !got.Current.Certificate.Equal(held.Current.Certificate) || len(got.Trusted()) != len(held.Trusted()) {
				t.Error("the leader uses another ca")
			}
			if s := stored(t, c, SecretCA); s == nil || !maps.EqualFunc(s.Data, want, bytes.Equal) {
				t.Error("the secret was not put back as it was")
			}
		})
	}
}

// TestKeeper_takesWhatGoesOn: another leader rotated meanwhile.
func TestKeeper_takesWhatGoesOn(t *testing.T) {
	c, now := fake.NewClientBuilder().Build(), start
	k, other := keeper(c, &now), keeper(c, &now)
	keep(t, k)
	keep(t, other)
	now = start.Add(caValidity - caRenewBefore + time.Hour)
	keep(t, other)
	now = now.Add(caOverlap)
	rotated := keep(t, other)
	if got := keep(t, k); !got.Current.Certificate.Equal(rotated.Current.Certificate) || len(got.Old) != 1 {
		t.Error("the rotation was undone")
	}
}

// TestKeeper_lostIsNotReplaced: a leader that begins without the CA goes on with the published certificate, and makes no other CA before a
// person says so.
func TestKeeper_lostIsNotReplaced(t *testing.T) {
	for name, left := range map[string]func() map[string][]byte{
		"deleted":              func() map[string][]byte { return nil },
		"another, of a backup": func() map[string][]byte { return encoded(t, authorityAt(t, start.Add(-time.Hour))) },
	} {
		t.Run(name, func(t *testing.T) {
			c, now := fake.NewClientBuilder().Build(), start
			first := keep(t, keeper(c, &now))
			data := left()
			change(t, c, data)
			k := keeper(c, &now)
			if err := k.Keep(context.Background()); !errors.Is(err, errLost) {
				t.Fatalf("got %v", err)
			}
			if _, err := k.Authority(); !errors.Is(err, ErrNotReady) {
				t.Errorf("it signs: %v", err)
			}
			if cfg, err := k.ClientConfig("n1"); err != nil || !cfg.RootCAs.Equal(first.Pool()) {
				t.Errorf("it cannot talk to agents: %v", err)
			}
			if s := stored(t, c, SecretCA); data == nil && s != nil || data != nil && !maps.EqualFunc(s.Data, data, bytes.Equal) {
				t.Error("the secret was changed")
			}
			change(t, c, encoded(t, first))
			if got := keep(t, k); !got.Current.Certificate.Equal(first.Current.Certificate) {
				t.Error("the restored ca is not used")
			}
		})
	}
}

// TestKeeper_newCA: the word for a new one counts once, for the Secret that it was written on.
func TestKeeper_newCA(t *testing.T) {
	c, now := fake.NewClientBuilder().Build(), start
	k := keeper(c, &now)
	first := keep(t, k)
	say := func(uid, word string) {
		t.Helper()
		s := stored(t, c, SecretClient)
		s.UID, s.Annotations = "uid-1", map[string]string{v1alpha1.AnnotationNewCA: word, "other": "stays"}
		if err := c.Update(context.Background(), s); err != nil {
			t.Fatal(err)
		}
		if string(s.UID) != uid {
			t.Fatalf("the stand-in keeps no UID: %q", s.UID)
		}
	}
	say("uid-1", "true")
	if got := keep(t, k); !got.Current.Certificate.Equal(first.Current.Certificate) {
		t.Error("a word without the UID makes a new ca")
	}
	change(t, c, nil)
	say("uid-1", "uid-1")
	now = now.Add(time.Hour)
	fresh := keep(t, keeper(c, &now))
	if fresh.Current.Certificate.Equal(first.Current.Certificate) || len(fresh.Trusted()) != 1 {
		t.Error("no new ca, or the old one is trusted")
	}
	s := stored(t, c, SecretClient)
	if _, ok := s.Annotations[v1alpha1.AnnotationNewCA]; ok || s.Annotations["other"] != "stays" {
		t.Errorf("annotations %v", s.Annotations)
	}
	if got := keep(t, keeper(c, &now)); !got.Current.Certificate.Equal(fresh.Current.Certificate) {
		t.Error("the word counted twice")
	}
}
