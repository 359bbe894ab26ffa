package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/pkg/quarry"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// from is the context of a call with a verified certificate of that common name.
func from(ctx context.Context, commonName string) context.Context {
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: commonName}}
	state := tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}
	return peer.NewContext(ctx, &peer.Peer{AuthInfo: credentials.TLSInfo{State: state}})
}

// TestAuthorize_csi lists what the CSI drivers may call: nothing that wipes, nothing that changes a group, no list of devices.
func TestAuthorize_csi(t *testing.T) {
	want := []string{
		"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/List", "/grpc.health.v1.Health/Watch",
		agentv1.LogicalVolumeService_CreateLogicalVolume_FullMethodName, agentv1.LogicalVolumeService_DeleteLogicalVolume_FullMethodName,
		agentv1.LogicalVolumeService_ListLogicalVolumes_FullMethodName, agentv1.LogicalVolumeService_ResizeLogicalVolume_FullMethodName,
		agentv1.SharedLunService_GetReservation_FullMethodName, agentv1.SharedLunService_Preempt_FullMethodName,
		agentv1.NodeService_GetNode_FullMethodName,
		agentv1.SharedDirectoryService_EnsureDirectory_FullMethodName, agentv1.SharedDirectoryService_ListDirectories_FullMethodName,
		agentv1.SharedDirectoryService_RemoveDirectory_FullMethodName,
		agentv1.SharedGroupService_ChangeSharedGroup_FullMethodName, agentv1.SharedGroupService_GetSharedGroup_FullMethodName,
		agentv1.SharedGroupService_ListMappings_FullMethodName, agentv1.SharedGroupService_MapVolume_FullMethodName,
		agentv1.SharedGroupService_UnmapVolume_FullMethodName, agentv1.SharedGroupService_PromiseEpoch_FullMethodName,
		agentv1.SharedGroupService_ZeroVolume_FullMethodName, agentv1.SharedGroupService_FormatVolume_FullMethodName,
		agentv1.SharedGroupService_CopyVolume_FullMethodName,
		agentv1.VolumeGroupService_WatchVolumeGroups_FullMethodName,
	}
	var allowed []string
	slices.Sort(want)
	for _, method := range Methods() {
		if err := Authorize(from(t.Context(), quarry.ControllerCommonName), method); err != nil {
			t.Errorf("the controller may not call %s: %v", method, err)
		}
		if Authorize(from(t.Context(), quarry.CSICommonName), method) == nil {
			allowed = append(allowed, method)
		}
	}
	if !slices.Equal(allowed, want) {
		t.Errorf("the CSI drivers may call\n%q\nwant\n%q", allowed, want)
	}
	for _, name := range []string{quarry.ControllerCommonName, quarry.CSICommonName} {
		if err := Authorize(from(t.Context(), name), "/quarry.agent.v1.NodeService/Unheard"); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s calls a method that is not in the table: %v", name, err)
		}
	}
}

func TestAuthorize_withoutTLS(t *testing.T) {
	for name, ctx := range map[string]context.Context{
		"no peer":     t.Context(),
		"no TLS":      peer.NewContext(t.Context(), &peer.Peer{}),
		"no verified": peer.NewContext(t.Context(), &peer.Peer{AuthInfo: credentials.TLSInfo{}}),
	} {
		if err := Authorize(ctx, agentv1.NodeService_GetNode_FullMethodName); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
}
