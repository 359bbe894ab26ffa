package agents

import (
	"context"
	"errors"
	"regexp"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// kinds maps the codes of the contract to what the caller can do. Every other code is an error nobody expected.
var kinds = map[codes.Code]decide.FaultKind{
	codes.InvalidArgument:    decide.FaultInvalid,
	codes.NotFound:           decide.FaultNotFound,
	codes.AlreadyExists:      decide.FaultConflict,
	codes.FailedPrecondition: decide.FaultPrecondition,
	codes.PermissionDenied:   decide.FaultDenied,
	codes.Unauthenticated:    decide.FaultDenied,
	codes.Aborted:            decide.FaultBusy,
	codes.ResourceExhausted:  decide.FaultNoRoom,
	codes.OutOfRange:         decide.FaultRange,
	codes.Unavailable:        decide.FaultUnavailable,
	codes.DeadlineExceeded:   decide.FaultUnavailable,
	codes.Canceled:           decide.FaultUnavailable,
}

// faultOf turns the error of a call into a fault; nil stays nil.
func faultOf(node, call string, err error) error {
	if err == nil {
		return nil
	}
	f := &decide.Fault{Node: node, Call: call, Message: explain(err)}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		f.Kind = decide.FaultUnavailable
	default:
		f.Kind = kinds[status.Code(err)]
	}
	f.Reason = reasonOf(err)
	return f
}

// causes are the reasons of an agent that answers, and does nothing now. One that a later agent has is not known.
var causes = map[agentv1.HindranceCause]string{
	agentv1.HindranceCause_HINDRANCE_CAUSE_MOVING:       v1alpha1.ReasonMoveUnfinished,
	agentv1.HindranceCause_HINDRANCE_CAUSE_STALE:        v1alpha1.ReasonVolumeStale,
	agentv1.HindranceCause_HINDRANCE_CAUSE_POOL_UNKNOWN: v1alpha1.ReasonThinPoolUnknown,
	agentv1.HindranceCause_HINDRANCE_CAUSE_UNTOLD:       v1alpha1.ReasonStepFailed,
}

// reasonOf returns the reason in the details of a status; empty without one.
func reasonOf(err error) string {
	s, ok := status.FromError(err)
	if !ok {
		return ""
	}
	for _, d := range s.Details() {
		switch p := d.(type) {
		case *agentv1.ShareProblem:
			return p.GetReason()
		case *agentv1.IscsiProblem:
			return p.GetReason()
		case *agentv1.UnknownVolumeGroup:
			return v1alpha1.ReasonVolumeGroupUnknown
		case *agentv1.Hindrance:
			return causes[p.GetCause()]
		}
	}
	return ""
}

// explain returns the message of an error without the wrapping of the wire.
func explain(err error) string {
	if err == nil {
		return "the connection was closed"
	}
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = s.Message()
	}
	if m := dialError.FindStringSubmatch(text); m != nil {
		text = m[1]
	}
	return localAddress.ReplaceAllString(text, "")
}

// dialError is how the wire wraps the error of a connection that could not be made.
var dialError = regexp.MustCompile(`^connection error: desc = "(?:transport: )?(?:Error while dialing: )?(.*)"$`)

// localAddress is the near end of a connection in an error of package net. Its port changes at every attempt, and a message
// in a status must not.
var localAddress = regexp.MustCompile(`[0-9A-Fa-f.:\[\]]+->`)
