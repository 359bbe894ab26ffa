package nfs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

func TestDeleteVolume_keepsThePolicyOfItsCreation(t *testing.T) {
	for name, c := range map[string]struct {
		made, now v1alpha1.DirectoryPolicy
		gone      bool
		left      string
	}{
		"delete":                  {"delete", "delete", false, ""},
		"delete, retain by now":   {"delete", "retain", false, ""},
		"archive, delete by now":  {"archive", "delete", false, "archived-" + pvc + "-20261121T190900Z"},
		"retain, delete by now":   {"retain", "delete", false, pvc},
		"delete, no Nfs any more": {"delete", "", true, ""},
		"retain, no Nfs any more": {"retain", "", true, pvc},
	} {
		for _, recorded := range []bool{true, false} {
			if c.gone && !recorded {
				continue
			}
			t.Run(name, func(t *testing.T) {
				s := newSuite(t)
				s.cache.nfs[0].Spec.OnDelete = c.made
				v := s.create(pvc)
				if recorded {
					s.record(v)
				}
				s.cache.nfs[0].Spec.OnDelete = c.now
				if c.gone {
					s.cache.nfs = nil
				}
				for range 2 {
					wantCode(t, s.remove(v.GetVolumeId()), codes.OK)
				}
				s.wantShare(0, strings.Fields(c.left)...)
			})
		}
	}
}

func TestDeleteVolume_unknownIsNeverAbsent(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(s *suite)
		want codes.Code
		says string
	}{
		"neither PersistentVolume nor Nfs": {func(s *suite) { s.cache.nfs, s.cache.volumes = nil, nil }, codes.FailedPrecondition, "not known which share"},
		"no agent": {func(s *suite) {
			for _, n := range s.agents.Online() {
				s.agents.Forget(n)
			}
		}, codes.Unavailable, "no agent"},
		"the cache does not answer": {func(s *suite) { s.cache.err = errors.New("not synced") }, codes.Internal, "not synced"},
		"a share without the mark": {func(s *suite) {
			s.cache.volumes[0].Spec.CSI.VolumeHandle = other + "/" + pvc
		}, codes.FailedPrecondition, "no mark"},
		"attributes that cannot be read": {func(s *suite) {
			delete(s.cache.volumes[0].Spec.CSI.VolumeAttributes, sharedvolume.KeyOnDelete)
		}, codes.FailedPrecondition, "does not say where"},
		"attributes that lead out": {func(s *suite) {
			s.cache.volumes[0].Spec.CSI.VolumeAttributes[sharedvolume.KeyDirectory] = "../../etc"
		}, codes.FailedPrecondition, "does not say where"},
		"another share at the same address": {func(s *suite) {
			s.cache.volumes[0].Spec.CSI.VolumeAttributes[sharedvolume.KeyShareID] = other
		}, codes.FailedPrecondition, "is on record"},
		"two PersistentVolumes": {func(s *suite) {
			s.cache.volumes = append(s.cache.volumes, *s.cache.volumes[0].DeepCopy())
		}, codes.FailedPrecondition, "pv-0, pv-0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			v := s.create(pvc)
			s.record(v)
			c.edit(s)
			id := v.GetVolumeId()
			if len(s.cache.volumes) > 0 {
				id = s.cache.volumes[0].Spec.CSI.VolumeHandle
			}
			err := s.remove(id)
			wantCode(t, err, c.want)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("message is %v, want %q", err, c.says)
			}
			s.wantShare(1, pvc)
		})
	}
}

// TestDeleteVolume_recordsThatAreGone: what a PersistentVolume names and the share has counts as there, even if the share has no record of it.
func TestDeleteVolume_recordsThatAreGone(t *testing.T) {
	for _, policy := range []v1alpha1.DirectoryPolicy{"delete", "archive", "retain"} {
		s := newSuite(t)
		s.cache.nfs[0].Spec.OnDelete = policy
		v := s.create(pvc)
		s.record(v)
		s.share.Forget(owner)
		wantCode(t, s.remove(v.GetVolumeId()), codes.FailedPrecondition)
		s.prepare(owner)
		if policy != "retain" {
			err := s.remove(v.GetVolumeId())
			wantCode(t, err, codes.FailedPrecondition)
			if !strings.Contains(err.Error(), "no record") || !strings.Contains(err.Error(), pvc) {
				t.Errorf("%s: %v", policy, err)
			}
			s.wantShare(0, pvc)
			s.share.Take(pvc)
		}
		wantCode(t, s.remove(v.GetVolumeId()), codes.OK)
	}
}

func TestDeleteVolume_hostileHandles(t *testing.T) {
	s := newSuite(t)
	s.share.Put("precious")
	for _, id := range []string{
		"../../etc", owner + "/../precious", owner + "/precious/..", owner + "/.", owner + "/..", owner + "//precious", "/precious",
		owner + "/" + strings.Repeat("x", 200), owner, owner + "/a b", owner + "/a\x00b", "precious", "#", owner + "/.quarry",
		strings.ToUpper(owner) + "/" + pvc, "server#/export#precious#", owner + "/${pv.name}", owner + "/-rf", owner + "/x;reboot",
		owner + "/%2e%2e",
	} {
		if err := s.remove(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	if calls := s.agents.asked(); len(calls) > 0 {
		t.Errorf("calls are %v", calls)
	}
	s.wantShare(0, "precious")
	wantCode(t, s.remove(""), codes.InvalidArgument)
}

// entries take three calls of an agent.
const entries = 2500

func TestDeleteVolume_largeTreeTakesSeveralCalls(t *testing.T) {
	s := newSuite(t)
	s.share.Use(gib, entries)
	v := s.create(pvc)
	s.record(v)
	// The time of a call is enough for one part only.
	once := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := s.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.GetVolumeId()})
		return err
	}
	for _, want := range []string{"1000 entries", "2000 entries"} {
		err := once()
		wantCode(t, err, codes.Aborted)
		if err == nil || !strings.Contains(status.Convert(err).Message(), want) {
			t.Errorf("message is %v, want %q", err, want)
		}
	}
	wantCode(t, once(), codes.OK)
	s.wantShare(0)
	v = s.create(pvc)
	s.agents.asked()
	wantCode(t, s.remove(v.GetVolumeId()), codes.OK)
	if calls := s.agents.asked(); len(calls) != 3 {
		t.Errorf("with time for all of it, calls are %v", calls)
	}
}

func TestDeleteVolume_cutOffWhileItGoesOn(t *testing.T) {
	s := newSuite(t)
	s.share.Use(gib, entries)
	v := s.create(pvc)
	s.record(v)
	calls := 0
	s.agents.hook(func(_ context.Context, method string) error {
		if calls++; calls == 1 {
			return nil
		}
		return &decide.Fault{Kind: decide.FaultBusy, Call: method, Message: "another call works on it"}
	}, nil)
	wantCode(t, s.remove(v.GetVolumeId()), codes.Aborted)
	s.agents.hook(nil, nil)
	s.share.Break("", sharedvolume.ReasonUnreachable, "no answer")
	wantCode(t, s.remove(v.GetVolumeId()), codes.Unavailable)
	s.share.Mend()
	wantCode(t, s.remove(v.GetVolumeId()), codes.OK)
	s.wantShare(0)
}

func TestDeleteVolume_beingRemovedIsNotMadeAgain(t *testing.T) {
	s := newSuite(t)
	s.share.Use(gib, entries)
	v := s.create(pvc)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := s.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: v.GetVolumeId()})
	wantCode(t, err, codes.Aborted)
	_, err = s.CreateVolume(t.Context(), s.request(pvc))
	wantCode(t, err, codes.FailedPrecondition)
}

func TestDeleteVolume_replacedDirectoryIsLeftAlone(t *testing.T) {
	s := newSuite(t)
	v := s.create(pvc)
	s.record(v)
	s.share.Take(pvc)
	s.share.Put(pvc)
	wantCode(t, s.remove(v.GetVolumeId()), codes.FailedPrecondition)
	s.wantShare(1, pvc)
	s.share.Take(pvc)
	wantCode(t, s.remove(v.GetVolumeId()), codes.OK)
	s.wantShare(0)
}

func TestDeleteVolume_anotherServerOfThatName(t *testing.T) {
	s := newSuite(t)
	v := s.create(pvc)
	s.record(v)
	s.share.Lose()
	wantCode(t, s.remove(v.GetVolumeId()), codes.FailedPrecondition)
	s.prepare(owner)
	wantCode(t, s.remove(v.GetVolumeId()), codes.FailedPrecondition)
}
