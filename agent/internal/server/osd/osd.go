// Package osd serves OsdService: it validates requests and converts them. It knows neither the tools nor how a disk is prepared, and keeps no state.
package osd

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"google.golang.org/grpc"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/prep"
	"quarry.storage/quarry/pkg/osd"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Node works on the disks of this node. Errors are those of packages plan and prep.
type Node interface {
	// InspectOSD says what a disk is to the Cluster that wants the OSD.
	InspectOSD(ctx context.Context, spec prep.Spec) (osd.Verdict, error)
	// PrepareOSD makes a disk the OSD, unless it is that already.
	PrepareOSD(ctx context.Context, spec prep.Spec) error
	// ZapOSD makes the disk of the OSD clean.
	ZapOSD(ctx context.Context, spec prep.Spec) error
}

// Identities validates the devices of a request.
type Identities func(in []*agentv1.DeviceIdentity, digestRequired bool) ([]plan.Identity, error)

// Register registers the service of the node of that name.
func Register(g grpc.ServiceRegistrar, name string, node Node, identities Identities) {
	agentv1.RegisterOsdServiceServer(g, &service{name: name, node: node, identities: identities})
}

type service struct {
	agentv1.UnimplementedOsdServiceServer
	name       string
	node       Node
	identities Identities
}

// InspectOsd implements agentv1.OsdServiceServer.
func (s *service) InspectOsd(ctx context.Context, req *agentv1.InspectOsdRequest) (*agentv1.InspectOsdResponse, error) {
	spec, err := s.spec(req)
	if err != nil {
		return nil, err
	}
	v, err := s.node.InspectOSD(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &agentv1.InspectOsdResponse{State: states[v.Kind], Message: v.Message, Encrypted: spec.Want.Encrypted, Making: v.Making, Stale: v.Stale, Carries: &v.Carries, Fsids: v.FSIDs, TellsFsids: true}, nil
}

// PrepareOsd implements agentv1.OsdServiceServer.
func (s *service) PrepareOsd(ctx context.Context, req *agentv1.PrepareOsdRequest) (*agentv1.PrepareOsdResponse, error) {
	spec, err := s.spec(req)
	if err != nil {
		return nil, err
	}
	if spec.Want.ID < 0 {
		return nil, fmt.Errorf("the id of the OSD is required: %w", plan.ErrInvalid)
	}
	if spec.Tools, spec.Fresh = req.GetToolsContainer(), req.GetFresh(); !containerID.MatchString(spec.Tools) {
		return nil, fmt.Errorf("tools_container %q: %w", spec.Tools, plan.ErrInvalid)
	}
	if spec.Key, err = keyOf(req, spec.Want.Encrypted); err != nil {
		return nil, err
	}
	if err := s.node.PrepareOSD(ctx, spec); err != nil {
		return nil, err
	}
	return &agentv1.PrepareOsdResponse{}, nil
}

// keyOf is the key of a request, which an encrypted OSD has and no other one.
func keyOf(req *agentv1.PrepareOsdRequest, encrypted bool) (osd.Key, error) {
	given := len(req.GetKey()) > 0
	switch {
	case !encrypted && !given:
		return osd.Key{}, nil
	case !encrypted:
		return osd.Key{}, fmt.Errorf("a key is given for an OSD that is not to be encrypted: %w", plan.ErrInvalid)
	case !given:
		return osd.Key{}, fmt.Errorf("no key is given for an OSD that is to be encrypted: %w", plan.ErrInvalid)
	}
	key, err := osd.NewKey(req.GetKey())
	if err != nil {
		return osd.Key{}, errors.Join(err, plan.ErrInvalid)
	}
	return key, nil
}

// ZapOsd implements agentv1.OsdServiceServer.
func (s *service) ZapOsd(ctx context.Context, req *agentv1.ZapOsdRequest) (*agentv1.ZapOsdResponse, error) {
	spec, err := s.spec(req)
	if err != nil {
		return nil, err
	}
	spec.Making = req.GetMaking()
	if err := s.node.ZapOSD(ctx, spec); err != nil {
		return nil, err
	}
	return &agentv1.ZapOsdResponse{}, nil
}

// states are the kinds of disks as the contract calls them. A kind that is not here is one of which nothing is known.
var states = map[osd.Kind]agentv1.OsdState{
	osd.Empty: agentv1.OsdState_OSD_STATE_EMPTY, osd.Unfinished: agentv1.OsdState_OSD_STATE_UNFINISHED,
	osd.Ready: agentv1.OsdState_OSD_STATE_READY, osd.Other: agentv1.OsdState_OSD_STATE_OTHER,
}

// containerID is how container runtimes name containers.
var containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// request is what the requests on one OSD have in common.
type request interface {
	GetDevice() *agentv1.DeviceIdentity
	GetOsd() *agentv1.OsdIdentity
}

func (s *service) spec(req request) (prep.Spec, error) {
	if req.GetDevice() == nil {
		return prep.Spec{}, fmt.Errorf("device is required: %w", plan.ErrInvalid)
	}
	ids, err := s.identities([]*agentv1.DeviceIdentity{req.GetDevice()}, false)
	if err != nil {
		return prep.Spec{}, err
	}
	want := req.GetOsd()
	for name, value := range map[string]string{"cluster_uid": want.GetClusterUid(), "uuid": want.GetUuid(), "fsid": want.GetFsid()} {
		if !osd.ValidUUID(value) {
			return prep.Spec{}, fmt.Errorf("%s %q is no UUID: %w", name, value, plan.ErrInvalid)
		}
	}
	spec := prep.Spec{Node: s.name, Device: ids[0], ClusterUID: want.GetClusterUid(), Want: osd.Wanted{UUID: want.GetUuid(), FSID: want.GetFsid(), ID: -1, Encrypted: want.GetEncrypted()}}
	if want.Id != nil {
		if want.GetId() < 0 {
			return prep.Spec{}, fmt.Errorf("the id of the OSD is %d: %w", want.GetId(), plan.ErrInvalid)
		}
		spec.Want.ID = int(want.GetId())
	}
	return spec, nil
}
