package health

import (
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// FailureReason returns the reason of a condition for a step that failed.
func FailureReason(action string, kind decide.FaultKind) string {
	removes := action == v1alpha1.ActionRemoveVolumeGroup || action == v1alpha1.ActionReduceVolumeGroup
	switch {
	case kind == decide.FaultNoRoom:
		return v1alpha1.ReasonNoRoom
	case kind == decide.FaultConflict && action == v1alpha1.ActionEnsureThinPool:
		return v1alpha1.ReasonThinPoolConflict
	case action == v1alpha1.ActionEnsureThinPool && kind != decide.FaultUnavailable:
		return v1alpha1.ReasonStepFailed
	case kind == decide.FaultConflict:
		return v1alpha1.ReasonVolumeGroupConflict
	case kind == decide.FaultPrecondition && removes:
		return v1alpha1.ReasonVolumesExist
	case kind == decide.FaultPrecondition:
		return v1alpha1.ReasonDeviceRefused
	case kind == decide.FaultNotFound:
		return v1alpha1.ReasonDeviceNotFound
	case kind == decide.FaultUnavailable:
		return v1alpha1.ReasonAgentUnreachable
	}
	return v1alpha1.ReasonStepFailed
}
