package ceph

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/cephtest"
	"quarry.storage/quarry/controller/internal/decide"
	decideceph "quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// broken are disks that agents cannot clear.
type broken struct {
	Disks
	kind decide.FaultKind
}

func (b broken) Zap(_ context.Context, node string, _ decide.Device, _ OSD) error {
	return &decide.Fault{Kind: b.kind, Node: node, Call: "ZapOsd", Message: "input/output error"}
}

// asked are disks that remember what is to be cleared.
type asked struct {
	Disks
	zapped []OSD
}

func (a *asked) Zap(_ context.Context, _ string, _ decide.Device, o OSD) error {
	a.zapped = append(a.zapped, o)
	return nil
}

// TestZap_making: the agent is told which making of the OSD was seen when the step was decided on.
func TestZap_making(t *testing.T) {
	b, s := unused(t, false)
	disks := &asked{}
	b.Disks, s.Through, s.Devices, s.Making = disks, "n1", []decide.Device{{Path: "/dev/sdb"}}, "first"
	if err := b.zap(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if len(disks.zapped) != 1 || disks.zapped[0].Making != "first" || disks.zapped[0].UUID != s.Ceph.UUID {
		t.Errorf("%+v", disks.zapped)
	}
}

// TestZap_broken: a disk that cannot be cleared stays on record with its key, and the person is told what to do. One that is only busy is tried again.
func TestZap_broken(t *testing.T) {
	for label, tt := range map[string]struct {
		kind     decide.FaultKind
		replaced bool
		says     string
	}{
		"it was given up": {decide.FaultInternal, true, "input/output error. If the disk fails, take it out of host n1 and destroy it: what is on it was not cleared. Its OSD goes"},
		"its host leaves": {decide.FaultInternal, false, "switch host n1 off. Then take it out of host n1 and destroy it: what is on it was not cleared. While the host is off, declare its Member lost"},
		"it is busy":      {decide.FaultBusy, true, ""},
	} {
		b, s := unused(t, false)
		b.Disks, s.Through, s.Devices = broken{kind: tt.kind}, "n1", []decide.Device{{Path: "/dev/sdb"}}
		if err := b.osd(t.Context(), s, func(o *v1alpha1.MemberOSD) { o.Keyed, o.Replaced = true, tt.replaced }); err != nil {
			t.Fatal(err)
		}
		err := b.zap(t.Context(), s)
		if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "take it out") != (tt.says != "") {
			t.Errorf("%s: %v", label, err)
		}
		if o := onDisk(t, b, s); o == nil || !o.Purged || !o.Keyed || len(keys(t, b)) != 1 {
			t.Errorf("%s: %+v, %q", label, o, keys(t, b))
		}
	}
}

// TestPurge_kept: that an OSD is forgotten stays on record unless it is certain that the monitors keep it. Without the record its disk is not cleared, even if the monitors lose what they know later.
func TestPurge_kept(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*cephtest.Cluster)
		want   bool
	}{
		"it is forgotten":                {func(*cephtest.Cluster) {}, true},
		"a group needs it by now":        {func(m *cephtest.Cluster) { m.Groups = map[string]int{"active+undersized+degraded": 1} }, false},
		"it is up again":                 {func(m *cephtest.Cluster) { m.OSDs[0].Up = true }, false},
		"it is in again":                 {func(m *cephtest.Cluster) { m.OSDs[0].In = true }, false},
		"it was forgotten":               {func(m *cephtest.Cluster) { m.OSDs = m.OSDs[1:] }, true},
		"and another has its number":     {func(m *cephtest.Cluster) { m.OSDs[0].UUID = cephtest.UUID(7) }, true},
		"it has another number":          {func(m *cephtest.Cluster) { m.OSDs[0].UUID, m.OSDs[1].UUID = cephtest.UUID(7), disk }, false},
		"nobody can say":                 {func(m *cephtest.Cluster) { m.Monitors = map[string]bool{"a": false} }, true},
		"nobody can say if it is safe":   {func(m *cephtest.Cluster) { m.Fail = func(a []string) error { return failing(a, "safe-to-destroy") } }, false},
		"the answer to the last is lost": {func(m *cephtest.Cluster) { m.Fail = func(a []string) error { return failing(a, "purge") } }, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, s := unused(t, false)
			model := cephtest.New(t, fsid, "n0", "n1", "n2")
			model.OSDs[0].UUID, model.OSDs[0].Up, model.OSDs[0].In, model.OSDs[0].Holds = disk, false, false, false
			tt.change(model)
			b.Runner = func(string) ceph.Runner { return model }
			s.Ceph.Do, s.Ceph.ID = decideceph.PurgeOSD, 0
			err := b.purge(t.Context(), s)
			if o := onDisk(t, b, s); o == nil || o.Purged != tt.want {
				t.Errorf("%s: %+v, %v", name, o, err)
			}
		})
	}
}

// TestStopping: Ceph is asked once more right before a daemon of an OSD ends, and of no other daemon.
func TestStopping(t *testing.T) {
	for name, tt := range map[string]struct {
		kind   string
		change func(*cephtest.Cluster)
		want   bool
	}{
		"it may be stopped":             {cephname.DaemonOSD, func(*cephtest.Cluster) {}, true},
		"a group needs it by now":       {cephname.DaemonOSD, func(m *cephtest.Cluster) { m.OSDs[0].Needed = true }, false},
		"it does not run":               {cephname.DaemonOSD, func(m *cephtest.Cluster) { m.OSDs[0].Needed, m.OSDs[0].Up = true, false }, true},
		"another one has its number":    {cephname.DaemonOSD, func(m *cephtest.Cluster) { m.OSDs[0].UUID = cephtest.UUID(7) }, false},
		"nobody can say":                {cephname.DaemonOSD, func(m *cephtest.Cluster) { m.Monitors = map[string]bool{"a": false} }, false},
		"a metadata server is replaced": {cephname.DaemonMetadata, func(m *cephtest.Cluster) { m.OSDs[0].Needed = true }, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, s := unused(t, false)
			model := cephtest.New(t, fsid, "n0", "n1", "n2")
			tt.change(model)
			b.Runner = func(string) ceph.Runner { return model }
			s.Daemon.Kind, s.Daemon.ID, s.Daemon.UUID = tt.kind, "0", cephtest.UUID(0)
			done := false
			err := b.stopping(func(context.Context, view.Step) error { done = true; return nil })(t.Context(), s)
			if done != tt.want || (err == nil) != tt.want {
				t.Errorf("%s: done: %t, %v", name, done, err)
			}
		})
	}
}

func failing(args []string, word string) error {
	if len(args) > 1 && args[1] == word {
		return errors.New("no answer")
	}
	return nil
}

// TestMember_replaced: a step that was decided on before its Member was made anew writes nothing into the record of the new one.
func TestMember_replaced(t *testing.T) {
	b, _, m, s := keyed(t, nil)
	m.UID = "now"
	if err := b.Client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	for uid, writes := range map[types.UID]bool{"now": true, "before": false} {
		s.MemberUID = uid
		err := b.osd(t.Context(), s, func(o *v1alpha1.MemberOSD) { o.Outed = uid == "before" })
		if (err == nil) != writes || err != nil && !strings.Contains(err.Error(), "was replaced") {
			t.Errorf("%s: %v", uid, err)
		}
		if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil || m.Spec.Ceph.OSDs[0].Outed {
			t.Errorf("%s: on record is %+v, %v", uid, m.Spec.Ceph.OSDs, err)
		}
	}
}
