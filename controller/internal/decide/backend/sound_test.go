package backend

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestSound_lossIsRemembered: a host lacks a volume, falls silent, and what happens then cannot bring the volume back. Each look sees only what the one
// before wrote.
func TestSound_lossIsRemembered(t *testing.T) {
	loses := finds(v1alpha1.ReasonVolumeLost, "no logical volume exists of v1")
	early := func(h *HostHealth) { down(h); h.Facts = Facts{TooEarly: true} }
	moves := func(edits ...func(*HostHealth)) []func(*HostHealth) { return append(edits, forgotten) }
	type look = []func(*HostHealth)
	for name, c := range map[string]struct {
		looks []look
		// want is the reason of the last look's finding; empty for none. sound is the reason that is remembered.
		want, sound string
	}{
		"it answers":                    {[]look{{loses}}, v1alpha1.ReasonVolumeLost, v1alpha1.ReasonVolumeLost},
		"it falls silent":               {[]look{{loses}, {down}}, v1alpha1.ReasonAgentUnreachable, v1alpha1.ReasonVolumeLost},
		"maintenance":                   {[]look{{loses}, {quiesced, down}}, v1alpha1.ReasonVolumeLost, v1alpha1.ReasonVolumeLost},
		"silent, then maintenance":      {[]look{{loses}, {down}, {down}, {down, quiesced}, {down, quiesced}}, v1alpha1.ReasonVolumeLost, v1alpha1.ReasonVolumeLost},
		"and the maintenance ends":      {[]look{{loses}, {down}, {down, quiesced}, {down}, {down, quiesced}}, v1alpha1.ReasonVolumeLost, v1alpha1.ReasonVolumeLost},
		"and the controller starts":     {[]look{{loses}, {down}, {down, quiesced}, {early, quiesced}, {down, quiesced}}, v1alpha1.ReasonVolumeLost, v1alpha1.ReasonVolumeLost},
		"the controller starts":         {[]look{{loses}, {down}, {early}}, v1alpha1.ReasonVolumeLost, v1alpha1.ReasonVolumeLost},
		"it leaves, then maintenance":   {[]look{{loses}, {down}, {down, leaves}, {down, leaves, quiesced}}, v1alpha1.ReasonVolumeLost, v1alpha1.ReasonVolumeLost},
		"it leaves, and one starts":     {[]look{{loses}, {down}, {early, leaves}}, v1alpha1.ReasonVolumeLost, v1alpha1.ReasonVolumeLost},
		"its node is away for a moment": {[]look{{loses}, {down, invalid}, {down, quiesced}}, v1alpha1.ReasonVolumeLost, v1alpha1.ReasonVolumeLost},
		"the volume is back":            {[]look{{loses}, {down}, {}, {down, quiesced}}, "", ""},
		"it answers, and cannot say": {
			[]look{{loses}, {func(h *HostHealth) { h.Decided.Reports = false }}, {down, quiesced}}, v1alpha1.ReasonVolumeLost, v1alpha1.ReasonVolumeLost,
		},
		"nothing was lost": {[]look{{}, {down}, {down, quiesced}}, "", ""},
		"the backend moves data, and says itself more": {[]look{moves(loses), moves(down), moves(down, quiesced)}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := &v1alpha1.Member{}
			var f Finding
			for _, edits := range c.looks {
				h := hostOf("n1", append(edits, func(h *HostHealth) { h.Object = m })...)
				f = h.Finding()
				ready, sound := h.Ready(), h.Sound()
				m = m.DeepCopy()
				m.Status.Message = f.Message
				meta.SetStatusCondition(&m.Status.Conditions, ready)
				if meta.RemoveStatusCondition(&m.Status.Conditions, v1alpha1.ConditionSound); sound != nil {
					meta.SetStatusCondition(&m.Status.Conditions, *sound)
				}
			}
			if f.Reason != c.want || (f.Kind == Bad) != (c.want != "") {
				t.Errorf("finding %+v, want %q", f, c.want)
			}
			sound := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionSound)
			switch {
			case sound == nil && c.sound != "":
				t.Error("nothing is remembered")
			case sound != nil && (sound.Reason != c.sound || sound.Status != metav1.ConditionFalse || sound.Message != "no logical volume exists of v1"):
				t.Errorf("remembered: %+v, want %q", sound, c.sound)
			}
		})
	}
}

// TestSound_statusFromBefore: a Member whose status an earlier version wrote says only by Ready what was wrong.
func TestSound_statusFromBefore(t *testing.T) {
	for reason, want := range map[string]string{
		v1alpha1.ReasonVolumeLost: v1alpha1.ReasonVolumeLost, v1alpha1.ReasonAgentUnreachable: "", v1alpha1.ReasonAgentMissing: "", v1alpha1.ReasonMaintenance: "",
	} {
		got := ""
		if c := hostOf("n1", down, was(reason)).Sound(); c != nil {
			got = c.Reason
		}
		if got != want {
			t.Errorf("%s: remembered %q, want %q", reason, got, want)
		}
	}
}
