// Package access says who may call which method of the agent, by the common name of the caller's client certificate. It knows the methods of
// the contract, and not what they do.
package access

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/pkg/quarry"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Who may call a method.
var (
	controller = []string{quarry.ControllerCommonName}
	// withCSI is for what the controllers of the CSI drivers need: volumes, and which groups have room for them. They see no device, and never wipe,
	// make, grow or remove a group of local disks. On a shared LUN they do more, since its volumes are made, moved and removed that way: they change
	// its group (ChangeSharedGroup, also to take over the turn of another writer), make the first filesystem on a volume, and fence a node that is
	// gone (Preempt). Each change of the group says the epoch, and the agent refuses an earlier one. They never make or remove the group of a LUN, and register
	// nobody.
	withCSI = []string{quarry.ControllerCommonName, quarry.CSICommonName}
)

// table says which common names may call a method. A method that is not here is served to nobody.
var table = map[string][]string{
	agentv1.NodeService_GetNode_FullMethodName: withCSI,

	agentv1.DeviceService_ListDevices_FullMethodName:   controller,
	agentv1.DeviceService_WatchDevices_FullMethodName:  controller,
	agentv1.DeviceService_InspectDevice_FullMethodName: controller,
	agentv1.DeviceService_WipeDevice_FullMethodName:    controller,

	agentv1.OsdService_InspectOsd_FullMethodName: controller,
	agentv1.OsdService_PrepareOsd_FullMethodName: controller,
	agentv1.OsdService_ZapOsd_FullMethodName:     controller,

	agentv1.IscsiService_GetInitiator_FullMethodName: controller,
	agentv1.IscsiService_GetTarget_FullMethodName:    controller,
	agentv1.IscsiService_Login_FullMethodName:        controller,
	agentv1.IscsiService_Logout_FullMethodName:       controller,

	agentv1.SharedLunService_GetReservation_FullMethodName: withCSI,
	agentv1.SharedLunService_Register_FullMethodName:       controller,
	agentv1.SharedLunService_Unregister_FullMethodName:     controller,
	agentv1.SharedLunService_Preempt_FullMethodName:        withCSI,

	agentv1.VolumeGroupService_ListVolumeGroups_FullMethodName:    controller,
	agentv1.VolumeGroupService_WatchVolumeGroups_FullMethodName:   withCSI,
	agentv1.VolumeGroupService_EnsureVolumeGroup_FullMethodName:   controller,
	agentv1.VolumeGroupService_ReduceVolumeGroup_FullMethodName:   controller,
	agentv1.VolumeGroupService_RemoveVolumeGroup_FullMethodName:   controller,
	agentv1.VolumeGroupService_ForgetMissingDevice_FullMethodName: controller,
	agentv1.VolumeGroupService_MoveExtents_FullMethodName:         controller,
	agentv1.VolumeGroupService_StampVolumeGroup_FullMethodName:    controller,
	agentv1.VolumeGroupService_ImportVolumeGroup_FullMethodName:   controller,

	agentv1.LogicalVolumeService_ListLogicalVolumes_FullMethodName:  withCSI,
	agentv1.LogicalVolumeService_CreateLogicalVolume_FullMethodName: withCSI,
	agentv1.LogicalVolumeService_DeleteLogicalVolume_FullMethodName: withCSI,
	agentv1.LogicalVolumeService_ResizeLogicalVolume_FullMethodName: withCSI,
	agentv1.LogicalVolumeService_EnsureThinPool_FullMethodName:      controller,
	agentv1.LogicalVolumeService_RepairThinPool_FullMethodName:      controller,

	agentv1.SharedDirectoryService_GetShare_FullMethodName:         controller,
	agentv1.SharedDirectoryService_EnsureDirectory_FullMethodName:  withCSI,
	agentv1.SharedDirectoryService_RemoveDirectory_FullMethodName:  withCSI,
	agentv1.SharedDirectoryService_AbandonDirectory_FullMethodName: controller,
	agentv1.SharedDirectoryService_ListDirectories_FullMethodName:  withCSI,

	agentv1.SharedGroupService_GetSharedGroup_FullMethodName:    withCSI,
	agentv1.SharedGroupService_CreateSharedGroup_FullMethodName: controller,
	agentv1.SharedGroupService_ChangeSharedGroup_FullMethodName: withCSI,
	agentv1.SharedGroupService_RemoveSharedGroup_FullMethodName: controller,
	agentv1.SharedGroupService_PromiseEpoch_FullMethodName:      withCSI,
	agentv1.SharedGroupService_MapVolume_FullMethodName:         withCSI,
	agentv1.SharedGroupService_UnmapVolume_FullMethodName:       withCSI,
	agentv1.SharedGroupService_ListMappings_FullMethodName:      withCSI,
	agentv1.SharedGroupService_ZeroVolume_FullMethodName:        withCSI,
	agentv1.SharedGroupService_CopyVolume_FullMethodName:        withCSI,
	agentv1.SharedGroupService_FormatVolume_FullMethodName:      withCSI,

	healthpb.Health_Check_FullMethodName: withCSI,
	healthpb.Health_List_FullMethodName:  withCSI,
	healthpb.Health_Watch_FullMethodName: withCSI,

	reflectionv1.ServerReflection_ServerReflectionInfo_FullMethodName:      controller,
	reflectionv1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: controller,
}

// Methods returns the methods that somebody may call, ordered.
func Methods() []string { return slices.Sorted(maps.Keys(table)) }

// Authorize returns nil when the caller may call a method. It returns UNAUTHENTICATED for a caller without a verified client certificate, and
// PERMISSION_DENIED for one whose common name the table does not name.
func Authorize(ctx context.Context, method string) error {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return status.Error(codes.Unauthenticated, "no peer")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 || len(info.State.VerifiedChains[0]) == 0 {
		return status.Error(codes.Unauthenticated, "no verified client certificate")
	}
	cn := info.State.VerifiedChains[0][0].Subject.CommonName
	if !slices.Contains(table[method], cn) {
		return status.Errorf(codes.PermissionDenied, "certificate of %q: %s is served to %q only", cn, method, table[method])
	}
	return nil
}
