package gluster

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
)

// Kind is what an error of a call means.
type Kind string

const (
	// Unknown says that the call told nothing: no answer, one that is not of glusterd2, or one that says that the server could not know.
	Unknown Kind = "Unknown"
	// Absent says that the server looked in its store and did not find the object. For a peer it is not enough: see PeerGone.
	Absent Kind = "Absent"
	// Exists says that the object exists already.
	Exists Kind = "Exists"
	// Busy says that another operation holds the lock. Nothing was done.
	Busy Kind = "Busy"
	// Denied says that the server did not accept the token.
	Denied Kind = "Denied"
	// HasBricks says that the peer has bricks, and stays.
	HasBricks Kind = "HasBricks"
	// PeerDown says that the server wants a peer alive that is not. Nothing was done.
	PeerDown Kind = "PeerDown"
	// NoPlace says that no device is left that the new brick may go to. Nothing was done.
	NoPlace Kind = "NoPlace"
	// Refused says that the server did not accept the request. Nothing was done.
	Refused Kind = "Refused"
	// Failed says that the server began and did not end what it was asked for. What was done by then stays.
	Failed Kind = "Failed"
)

// Error is a call that did not succeed.
type Error struct {
	// Kind is what it means.
	Kind Kind
	// Op is what was asked for, and of which object.
	Op string
	// Address of the server.
	Address string
	// Status is the HTTP status, 0 without an answer.
	Status int
	// Messages are the server's, shortened.
	Messages []string
	// Pending says that the request may have taken effect, or takes effect later. Look before it is repeated.
	Pending bool

	cause error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s at Gluster server %s", e.Op, e.Address)
	if e.Status != 0 {
		text += fmt.Sprintf(" (HTTP status %d)", e.Status)
	}
	if len(e.Messages) > 0 {
		text += ": " + strings.Join(e.Messages, "; ")
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	if e.Pending {
		text += "; it may have taken effect, or may do so later"
	}
	return text
}

// Unwrap returns what the call failed with on this side.
func (e *Error) Unwrap() error { return e.cause }

// KindOf returns what an error means. An error that is not of this package is Unknown.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Unknown
}

// IsPending reports whether a call that failed may have taken effect, or may do so later. An error that is not of this package may.
func IsPending(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Pending
	}
	return err != nil
}

// Said returns what a server said to a call that failed, short and in one line, or what kept the call from being made. It is empty if the call was made and had no
// answer, or one that tells no error.
func Said(err error) string {
	var e *Error
	if !errors.As(err, &e) || e.Pending && e.Status < http.StatusBadRequest {
		return ""
	}
	var all []string
	if e.Status != 0 {
		all = append(all, fmt.Sprintf("HTTP status %d", e.Status))
	}
	all = append(all, e.Messages[:min(len(e.Messages), 3)]...)
	if e.cause != nil {
		all = append(all, clean(e.cause.Error()))
	}
	return strings.TrimRight(strings.Join(all, ": "), " .")
}

const maxMessage = 300

// clean makes a server's text fit for a condition: one line, printable, short.
func clean(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(text); len(runes) > maxMessage {
		return string(runes[:maxMessage]) + "..."
	}
	return text
}
