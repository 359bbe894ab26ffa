package lvm

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestDecide_forgetWithoutApproval: a device with nothing on it is forgotten by itself, once it has been missing for long. Everything else waits
// for a person.
func TestDecide_forgetWithoutApproval(t *testing.T) {
	now := start.Add(time.Hour)
	unread := device("sdz")
	unread.Refusals = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalUnreadable, Message: "is not read"}}
	for name, c := range map[string]struct {
		since    time.Duration // before now; 0 when the status does not say
		group    func(*decide.Group)
		device   []decide.Device
		harmless bool
		wake     time.Duration
	}{
		"missing for long":                   {since: forgetAfter, harmless: true},
		"missing for a while":                {since: forgetAfter - time.Minute, wake: time.Minute},
		"nobody knows since when":            {wake: forgetAfter},
		"a volume lacks a part":              {since: forgetAfter, group: func(g *decide.Group) { g.PartialVolumes = []string{"lv"} }},
		"a hidden volume has extents on it":  {since: forgetAfter, group: func(g *decide.Group) { g.PVs[1].FreeBytes-- }},
		"nobody knows what is on it":         {since: forgetAfter, group: func(g *decide.Group) { g.PVs[1].SizeBytes, g.PVs[1].FreeBytes = 0, 0 }},
		"a disk that cannot be read may be":  {since: forgetAfter, device: []decide.Device{unread}},
		"a second one is missing since then": {since: forgetAfter, wake: forgetAfter, group: func(g *decide.Group) { g.PVs = append(g.PVs, decide.PV{UUID: "two", SizeBytes: 1, FreeBytes: 1}) }},
	} {
		t.Run(name, func(t *testing.T) {
			g := groupOf("A", "sda")
			g.Partial, g.PVs = true, append(g.PVs, decide.PV{UUID: "gone", SizeBytes: 1 << 30, FreeBytes: 1 << 30})
			if c.group != nil {
				c.group(&g)
			}
			o := memberOf(clusterOf(), records("A"))
			d := v1alpha1.MemberDevice{Path: missingPrefix + "gone", State: v1alpha1.DeviceMissing}
			if c.since > 0 {
				d.MissingSince = new(metav1.NewTime(now.Add(-c.since)))
			}
			o.Status.Devices = []v1alpha1.MemberDevice{d}
			got := scene{node: up("n1", []decide.Group{g}, c.device...), object: o}.decide()
			if len(got.Steps) != 1 || got.Steps[0].Action() != v1alpha1.ActionForgetMissingDevice || got.Wake != c.wake {
				t.Fatalf("steps %v, wake %v", got.Steps, got.Wake)
			}
			if s := got.Steps[0].(Step); s.Destroys() == c.harmless || c.harmless && (len(s.Lost) > 0 || !strings.Contains(s.Reason, "Nothing is on")) {
				t.Errorf("destroys %t: %+v", s.Destroys(), s)
			}
		})
	}
}

// TestDevices_missingSince: how long a device is missing counts while its agent reports, and anew after a silence.
func TestDevices_missingSince(t *testing.T) {
	now := start.Add(time.Hour)
	g := groupOf("A", "sda")
	g.Partial, g.PVs = true, append(g.PVs, decide.PV{UUID: "gone", SizeBytes: 1 << 30, FreeBytes: 1 << 30})
	o := memberOf(clusterOf(), records("A"), inStatus("sda", "sdb"))
	since := func(n decide.Node) *metav1.Time { return scene{node: n, object: o}.decide().Devices[1].MissingSince }
	if got := since(up("n1", []decide.Group{g})); got == nil || !got.Time.Equal(now) {
		t.Errorf("first seen missing: %v", got)
	}
	o.Status.Devices[1].State = v1alpha1.DeviceMissing
	o.Status.Devices[1].MissingSince = new(metav1.NewTime(start))
	if got := since(up("n1", []decide.Group{g})); got == nil || !got.Time.Equal(start) {
		t.Errorf("seen missing again: %v", got)
	}
	if got := since(away(g)); got != nil {
		t.Errorf("while the agent is silent: %v", got)
	}
}

// TestDecide_forgetVanished: while a volume is not there that has to be, the device may be what knows of it: it is forgotten by approval only, and
// the approver is told of the volume.
func TestDecide_forgetVanished(t *testing.T) {
	decideFor := func(v ...backend.Volume) Step {
		g := groupOf("A", "sda")
		g.Partial, g.PVs = true, append(g.PVs, decide.PV{UUID: "gone", SizeBytes: 1 << 30, FreeBytes: 1 << 30})
		o := memberOf(clusterOf(), records("A"))
		o.Status.Devices = []v1alpha1.MemberDevice{{
			Path: missingPrefix + "gone", State: v1alpha1.DeviceMissing, MissingSince: new(metav1.NewTime(start)),
		}}
		got := scene{node: up("n1", []decide.Group{g}), object: o, volumes: v}.decide()
		if len(got.Steps) != 1 || got.Steps[0].Action() != v1alpha1.ActionForgetMissingDevice {
			t.Fatalf("steps %v", got.Steps)
		}
		return got.Steps[0].(Step)
	}
	known := decideFor()
	vanished := decideFor(expected("v1", "A", "n1/quarry-a/"+lv))
	if known.Destroys() || !vanished.Destroys() {
		t.Errorf("destroys: %t, and %t with a volume that vanished", known.Destroys(), vanished.Destroys())
	}
	if api := vanished.API(); !slices.Contains(api.Volumes, "v1 (claim ns/v1)") || api.Digest == known.Digest() || len(vanished.Lost) > 0 {
		t.Errorf("%+v", api)
	}
}

// TestDecide_forgetWatched: time in which nobody looked does not count, whatever the status says.
func TestDecide_forgetWatched(t *testing.T) {
	now := start.Add(time.Hour)
	for name, c := range map[string]struct {
		leader, session time.Duration // before now
		left            time.Duration
	}{
		"watched for long":       {time.Hour, forgetAfter, 0},
		"the leader is new":      {time.Minute, time.Hour, forgetAfter - time.Minute},
		"the session is new":     {time.Hour, 2 * time.Minute, forgetAfter - 2*time.Minute},
		"both began this moment": {0, 0, forgetAfter},
	} {
		t.Run(name, func(t *testing.T) {
			g := groupOf("A", "sda")
			g.Partial, g.PVs = true, append(g.PVs, decide.PV{UUID: "gone", SizeBytes: 1 << 30, FreeBytes: 1 << 30})
			o := memberOf(clusterOf(), records("A"))
			o.Status.Devices = []v1alpha1.MemberDevice{{
				Path: missingPrefix + "gone", State: v1alpha1.DeviceMissing, MissingSince: new(metav1.NewTime(start)),
			}}
			n := up("n1", []decide.Group{g})
			n.Session = now.Add(-c.session)
			got := scene{node: n, object: o, world: backend.World{Started: now.Add(-c.leader)}}.decide()
			if len(got.Steps) != 1 || got.Wake != c.left || got.Steps[0].Destroys() != (c.left > 0) {
				t.Errorf("steps %v, wake %v", got.Steps, got.Wake)
			}
		})
	}
}
