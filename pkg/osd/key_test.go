package osd_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/osd"
)

func TestKey(t *testing.T) {
	secret := bytes.Repeat([]byte("s"), osd.KeyBytes)
	k, err := osd.NewKey(secret)
	if err != nil || k.IsZero() || !bytes.Equal(k.Reveal(), secret) {
		t.Fatal(k, err)
	}
	holder := struct{ Key osd.Key }{k}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, holder); strings.Contains(got, "ss") || strings.Contains(got, "115") || strings.Contains(got, "0x73") {
			t.Errorf("%s prints %s", format, got)
		}
	}
	for says, bad := range map[string][]byte{"has 0 bytes": nil, "has 31 bytes": secret[1:], "has 33 bytes": append(secret, 's'), "zeros": make([]byte, osd.KeyBytes)} {
		if k, err := osd.NewKey(bad); err == nil || !k.IsZero() || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v", bad, k, err)
		}
	}
}

func TestKey_Digest(t *testing.T) {
	a, errA := osd.NewKey(bytes.Repeat([]byte("a"), osd.KeyBytes))
	b, errB := osd.NewKey(bytes.Repeat([]byte("b"), osd.KeyBytes))
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	// It is on record, so it stays what it is.
	if got := a.Digest(uuid); got != "91c240a3756bf8f0d1a173a21d0b1803e7e6a18fff01818513a6444ff77e39ca" {
		t.Error(got)
	}
	if a.Digest(uuid) == b.Digest(uuid) || a.Digest(uuid) == a.Digest(other) {
		t.Error("it does not tell keys apart")
	}
}
