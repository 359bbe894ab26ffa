package kube

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"quarry.storage/quarry/controller/internal/decide/notice"
)

// maxNote is the longest message in bytes that is sent with an event. The API server takes 1024.
const maxNote = 1000

// Emit tells people what happened to an object.
func Emit(to events.EventRecorder, about runtime.Object, notes ...notice.Note) {
	EmitRelated(to, about, nil, notes...)
}

// EmitRelated tells people what happened to an object, and which other object had a part in it.
func EmitRelated(to events.EventRecorder, about, related runtime.Object, notes ...notice.Note) {
	for _, n := range notes {
		to.Eventf(about, related, n.Kind, n.Reason, n.Action, "%s", shorten(n.Message))
	}
}

// shorten keeps a message within what the API server takes for an event.
func shorten(s string) string {
	if len(s) <= maxNote {
		return s
	}
	return strings.ToValidUTF8(s[:maxNote], "") + "…"
}
