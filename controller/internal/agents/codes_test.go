package agents

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// TestFaultOf_reason: an agent that answers and does nothing now is told from one that is away. Each cause of the contract has a reason; one that a
// later agent knows has none here.
func TestFaultOf_reason(t *testing.T) {
	details := map[string][]protoadapt.MessageV1{
		"":                                {nil, &agentv1.Hindrance{Cause: 99}, &agentv1.Hindrance{}},
		v1alpha1.ReasonVolumeGroupUnknown: {&agentv1.UnknownVolumeGroup{}},
		v1alpha1.ReasonMoveUnfinished:     {&agentv1.Hindrance{Cause: agentv1.HindranceCause_HINDRANCE_CAUSE_MOVING}},
		v1alpha1.ReasonVolumeStale:        {&agentv1.Hindrance{Cause: agentv1.HindranceCause_HINDRANCE_CAUSE_STALE}},
		v1alpha1.ReasonThinPoolUnknown:    {&agentv1.Hindrance{Cause: agentv1.HindranceCause_HINDRANCE_CAUSE_POOL_UNKNOWN}},
		v1alpha1.ReasonStepFailed:         {&agentv1.Hindrance{Cause: agentv1.HindranceCause_HINDRANCE_CAUSE_UNTOLD}},
	}
	for want, all := range details {
		for _, d := range all {
			s := status.New(codes.Unavailable, "why")
			if d != nil {
				with, err := s.WithDetails(d)
				if err != nil {
					t.Fatal(err)
				}
				s = with
			}
			var f *decide.Fault
			if !errors.As(faultOf("n1", "Call", s.Err()), &f) || f.Reason != want || f.Kind != decide.FaultUnavailable || f.Message != "why" {
				t.Errorf("%v: %+v", d, f)
			}
		}
	}
	for number, name := range agentv1.HindranceCause_name {
		if cause := agentv1.HindranceCause(number); cause != agentv1.HindranceCause_HINDRANCE_CAUSE_UNSPECIFIED && causes[cause] == "" {
			t.Errorf("%s has no reason", name)
		}
	}
}
