// Package osd makes the agents' calls about disks that are OSDs of Ceph. It knows the wire, as package agents does, whose connections it uses, and decides
// nothing. Errors are decide.Faults.
package osd

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/ceph/preflight"
	"quarry.storage/quarry/pkg/osd"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const (
	// lookTimeout bounds a look at a disk.
	lookTimeout = 30 * time.Second
	// makeTimeout bounds a call that writes. Making an OSD takes seconds; others on the node may take their turn before it. A call that was cut off is repeated.
	makeTimeout = 4 * time.Minute
)

// OSD is one that a Cluster has on a disk, or is to have.
type OSD struct {
	// Device is the disk, as it was when the decision was made.
	Device decide.Device
	// ClusterUID, UUID and FSID say which OSD it is.
	ClusterUID, UUID, FSID string
	// ID is the number that Ceph gave it; below 0 while it has none.
	ID int
	// Encrypted: its disk is. Key opens that, and is told only to who makes the disk the OSD.
	Encrypted bool
	Key       osd.Key
	// Making names the making of the OSD that is to be cleared; empty if the disk was seen clean.
	Making string
}

// Calls makes the calls.
type Calls struct {
	Pool *agents.Pool
}

// Inspect says what the disk is to the Cluster. A kind that the agent does not tell, or that is not known here, is osd.Unknown.
func (c Calls) Inspect(ctx context.Context, node string, o OSD) (osd.Verdict, error) {
	var r *agentv1.InspectOsdResponse
	err := c.call(ctx, lookTimeout, node, "InspectOsd", func(ctx context.Context, client agentv1.OsdServiceClient) (err error) {
		r, err = client.InspectOsd(ctx, &agentv1.InspectOsdRequest{Device: o.device(false), Osd: o.identity()})
		return err
	})
	if err != nil {
		return osd.Verdict{}, err
	}
	if err := understood(node, o, r); err != nil {
		return osd.Verdict{}, err
	}
	return verdict(r), nil
}

// verdict is what an agent says of a disk. What one of an earlier version leaves out says nothing of the disk.
func verdict(r *agentv1.InspectOsdResponse) osd.Verdict {
	return osd.Verdict{
		Kind: kinds[r.GetState()], Message: r.GetMessage(), Making: r.GetMaking(), Stale: r.GetStale(),
		Carries: r.GetCarries(), FSIDs: r.GetFsids(), Blind: r.Carries == nil || !r.GetTellsFsids(),
	}
}

// understood returns an error if the agent does not know encrypted OSDs: it would make one in the clear.
func understood(node string, o OSD, r *agentv1.InspectOsdResponse) error {
	if o.Encrypted && !r.GetEncrypted() {
		return &decide.Fault{Kind: decide.FaultUnavailable, Node: node, Message: "the agent encrypts no disks: it is of an earlier version"}
	}
	return nil
}

// Clock says how far the clock of a node is ahead of this one. The agent read it at some time during the call.
func (c Calls) Clock(ctx context.Context, node string) (preflight.Clock, error) {
	var r *agentv1.GetNodeResponse
	var before, after time.Time
	err := c.Pool.Call(ctx, lookTimeout, node, "GetNode", func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		before = time.Now()
		r, err = agentv1.NewNodeServiceClient(conn).GetNode(ctx, &agentv1.GetNodeRequest{})
		after = time.Now()
		return err
	})
	if err != nil {
		return preflight.Clock{}, err
	}
	if r.GetClockMicros() <= 0 {
		return preflight.Clock{}, &decide.Fault{Kind: decide.FaultUnavailable, Node: node, Message: "the agent does not tell its clock: it is of an earlier version"}
	}
	at := time.UnixMicro(r.GetClockMicros())
	return preflight.Clock{Least: at.Sub(after), Most: at.Sub(before)}, nil
}

// Prepare makes a clean disk the OSD, with the programs of a container on the node, and leaves one that carries it as it is. fresh says that Ceph has never
// seen the OSD run. A disk that another node sees is refused.
func (c Calls) Prepare(ctx context.Context, node string, o OSD, tools string, fresh bool) error {
	const call = "PrepareOsd"
	if err := c.Pool.Unshared(node, call, o.Device); err != nil {
		return err
	}
	if o.Encrypted {
		// An agent that knows no encrypted OSDs would make one in the clear.
		if _, err := c.Inspect(ctx, node, o); err != nil {
			return err
		}
	}
	return c.call(ctx, makeTimeout, node, call, func(ctx context.Context, client agentv1.OsdServiceClient) error {
		_, err := client.PrepareOsd(ctx, &agentv1.PrepareOsdRequest{Device: o.device(true), Osd: o.identity(), ToolsContainer: tools, Fresh: fresh, Key: o.Key.Reveal()})
		return err
	})
}

// Zap makes the disk of the OSD clean: its data are lost. A disk that another node sees is refused, and the agent refuses one that carries another making of the OSD.
func (c Calls) Zap(ctx context.Context, node string, o OSD) error {
	const call = "ZapOsd"
	if err := c.Pool.Unshared(node, call, o.Device); err != nil {
		return err
	}
	return c.call(ctx, makeTimeout, node, call, func(ctx context.Context, client agentv1.OsdServiceClient) error {
		_, err := client.ZapOsd(ctx, &agentv1.ZapOsdRequest{Device: o.device(false), Osd: o.identity(), Making: o.Making})
		return err
	})
}

func (c Calls) call(ctx context.Context, limit time.Duration, node, call string, do func(context.Context, agentv1.OsdServiceClient) error) error {
	return c.Pool.Call(ctx, limit, node, call, func(ctx context.Context, conn *grpc.ClientConn) error {
		return do(ctx, agentv1.NewOsdServiceClient(conn))
	})
}

// kinds are the states of the contract.
var kinds = map[agentv1.OsdState]osd.Kind{
	agentv1.OsdState_OSD_STATE_EMPTY: osd.Empty, agentv1.OsdState_OSD_STATE_UNFINISHED: osd.Unfinished,
	agentv1.OsdState_OSD_STATE_READY: osd.Ready, agentv1.OsdState_OSD_STATE_OTHER: osd.Other,
}

// device is the identity of the disk. What was seen on it counts only where it is to be written for the first time.
func (o OSD) device(digest bool) *agentv1.DeviceIdentity {
	d := &agentv1.DeviceIdentity{Path: o.Device.Path, Wwn: o.Device.WWN, Serial: o.Device.Serial, SizeBytes: o.Device.SizeBytes}
	if digest {
		d.Digest = o.Device.Digest
	}
	return d
}

func (o OSD) identity() *agentv1.OsdIdentity {
	out := &agentv1.OsdIdentity{ClusterUid: o.ClusterUID, Uuid: o.UUID, Fsid: o.FSID, Encrypted: o.Encrypted}
	if o.ID >= 0 {
		out.Id = new(int32(o.ID))
	}
	return out
}
