package backend

import (
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestFinding_speaksOfDisksOnlyWithTheWordsOfTheBackend goes through every state of a member of a backend that knows no disks.
func TestFinding_speaksOfDisksOnlyWithTheWordsOfTheBackend(t *testing.T) {
	again := func(h *HostHealth) { h.WantedAgain = true }
	waits := func(h *HostHealth) {
		held(h)
		h.Decided.Finding = Finding{}
	}
	for name, edits := range map[string][]func(*HostHealth){
		"well": nil, "steps run": {works}, "nothing is there yet": {preparing}, "steps wait": {waits}, "is down": {down}, "too early": {early},
		"is maintained": {quiesced}, "is maintained and down": {down, quiesced}, "leaves": {leaves}, "goes": {goes()}, "goes and is wanted": {goes(), again},
		"goes and holds": {goes("v1")}, "goes and is down": {down, goes()}, "goes and waits": {waits, goes()},
	} {
		h := hostOf("n1", edits...)
		h.Words = Readiness{}
		for _, text := range []string{h.Finding().Reason, h.Finding().Message, h.Ready().Reason, h.Ready().Message} {
			if strings.Contains(strings.ToLower(text), "disk") {
				t.Errorf("%s: %q", name, text)
			}
		}
		h.Words = Readiness{Preparing: "its daemons are being started", Unapproved: "changes of its daemons wait for approval"}
		if want := h.Words.Preparing; name == "steps run" && h.Finding().Message != want {
			t.Errorf("%s: %q, want %q", name, h.Finding().Message, want)
		}
		if want := h.Words.Unapproved; name == "steps wait" && h.Finding().Message != want {
			t.Errorf("%s: %q, want %q", name, h.Finding().Message, want)
		}
	}
	lost := Departure{Lost: true, Reason: v1alpha1.ReasonHostNotListed}.Leave()
	if strings.Contains(lost.Message, "disk") {
		t.Errorf("lost: %q", lost.Message)
	}
}
