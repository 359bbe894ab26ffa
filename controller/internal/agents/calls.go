package agents

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/controller/internal/decide"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// callTimeout bounds a call that changes disks. A call that was cut off is repeated, and goes on where it was.
const callTimeout = 2 * time.Minute

// moveTimeout bounds a call that moves extents: an agent that has had its turn of 20 s ends the slice that it has begun, which takes three minutes at
// most, and then takes it back.
const moveTimeout = 4 * time.Minute

// repairTimeout bounds a call that repairs the metadata of a thin pool, which an agent ends after ten minutes.
const repairTimeout = 11 * time.Minute

// requestIDKey is the metadata that carries the id of a reconcile to the agent's log.
const requestIDKey = "x-request-id"

// askTimeout bounds a call that only looks at devices.
const askTimeout = 15 * time.Second

// Ask returns what is known about a node, with its devices as its agent sees them at this moment. A report of a watch may be older, even if the connection is kept alive.
func (p *Pool) Ask(ctx context.Context, node string) (decide.Node, error) {
	const call = "ListDevices"
	var r *agentv1.ListDevicesResponse
	err := p.callWithin(ctx, askTimeout, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewDeviceServiceClient(conn).ListDevices(ctx, &agentv1.ListDevicesRequest{}, grpc.MaxCallRecvMsgSize(p.cfg.MaxReportBytes))
		return err
	})
	if err != nil {
		return decide.Node{}, faultOf(node, call, err)
	}
	n := p.Node(node)
	n.Devices = devicesOf(r.GetDevices(), time.Now(), r.GetUptimeMillis())
	return p.sightings.mark(n), nil
}

// inspectTimeout bounds the look at one device, which may hang, and the search of all processes for its users.
const inspectTimeout = 30 * time.Second

// Inspect returns a device as its agent sees it at this moment, through an exclusive open, with whoever uses it. The agent refuses to say anything of another device than the one that was seen
// before.
func (p *Pool) Inspect(ctx context.Context, node string, d decide.Device) (decide.Device, error) {
	const call = "InspectDevice"
	if err := p.Unshared(node, call, d); err != nil {
		return decide.Device{}, err
	}
	var r *agentv1.InspectDeviceResponse
	err := p.callWithin(ctx, inspectTimeout, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewDeviceServiceClient(conn).InspectDevice(ctx, &agentv1.InspectDeviceRequest{Device: identityOf(d)})
		return err
	})
	if err != nil {
		return decide.Device{}, faultOf(node, call, err)
	}
	if r.GetDevice().GetPath() != d.Path {
		return decide.Device{}, fmt.Errorf("%s on node %s tells of device %q, not of %s", call, node, r.GetDevice().GetPath(), d.Path)
	}
	now := devicesOf([]*agentv1.Device{r.GetDevice()}, time.Now(), r.GetUptimeMillis())[0]
	return p.sightings.mark(decide.Node{Name: node, Devices: []decide.Device{now}}).Devices[0], nil
}

// WipeDevice makes a device clean and returns it as it is then.
func (p *Pool) WipeDevice(ctx context.Context, node string, d decide.Device) (decide.Device, error) {
	const call = "WipeDevice"
	if err := p.Unshared(node, call, d); err != nil {
		return decide.Device{}, err
	}
	var r *agentv1.WipeDeviceResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewDeviceServiceClient(conn).WipeDevice(ctx, &agentv1.WipeDeviceRequest{Device: identityOf(d)})
		return err
	})
	if err != nil {
		return decide.Device{}, faultOf(node, call, err)
	}
	clean := deviceOf(r.GetDevice())
	p.merge(node, func(n *decide.Node) {
		devices := slices.Clone(n.Devices)
		for i := range devices {
			if devices[i].Path == clean.Path {
				devices[i] = clean
			}
		}
		n.Devices = devices
	})
	return clean, nil
}

// EnsureVolumeGroup makes a group of the owner hold at least the given devices.
func (p *Pool) EnsureVolumeGroup(ctx context.Context, node string, group decide.GroupRef, devices []decide.Device) error {
	const call = "EnsureVolumeGroup"
	if err := p.Unshared(node, call, devices...); err != nil {
		return err
	}
	var r *agentv1.EnsureVolumeGroupResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewVolumeGroupServiceClient(conn).EnsureVolumeGroup(ctx, &agentv1.EnsureVolumeGroupRequest{
			Name: group.Name, OwnerUid: group.Owner, GroupUuid: group.UUID, Devices: identities(devices, identityOf),
		})
		return err
	})
	if err != nil {
		return faultOf(node, call, err)
	}
	p.mergeGroup(node, groupOf(r.GetGroup()))
	return nil
}

// ReduceVolumeGroup takes devices out of a group of the owner.
func (p *Pool) ReduceVolumeGroup(ctx context.Context, node string, group decide.GroupRef, devices []decide.Device) error {
	const call = "ReduceVolumeGroup"
	var r *agentv1.ReduceVolumeGroupResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewVolumeGroupServiceClient(conn).ReduceVolumeGroup(ctx, &agentv1.ReduceVolumeGroupRequest{
			Name: group.Name, OwnerUid: group.Owner, GroupUuid: group.UUID, Devices: identities(devices, recordOf),
		})
		return err
	})
	if err != nil {
		return faultOf(node, call, err)
	}
	p.mergeGroup(node, groupOf(r.GetGroup()))
	return nil
}

// ForgetMissingDevice makes a group of the owner forget the physical volumes that are missing, and lose the volumes that had a part on them.
func (p *Pool) ForgetMissingDevice(ctx context.Context, node string, group decide.GroupRef, missing, volumes []string) error {
	const call = "ForgetMissingDevice"
	var r *agentv1.ForgetMissingDeviceResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewVolumeGroupServiceClient(conn).ForgetMissingDevice(ctx, &agentv1.ForgetMissingDeviceRequest{
			Name: group.Name, OwnerUid: group.Owner, GroupUuid: group.UUID, PhysicalVolumes: missing, LogicalVolumes: volumes,
		})
		return err
	})
	if err != nil {
		return faultOf(node, call, err)
	}
	p.mergeGroup(node, groupOf(r.GetGroup()))
	return nil
}

// MoveExtents moves extents off a device of a group of the owner, as long as the agent takes its turn. The group tells what is left.
func (p *Pool) MoveExtents(ctx context.Context, node string, group decide.GroupRef, device decide.Device, avoid []string) error {
	const call = "MoveExtents"
	if err := p.Unshared(node, call, append(p.ofGroup(node, group.Name, group.Owner), device)...); err != nil {
		return err
	}
	var r *agentv1.MoveExtentsResponse
	err := p.callWithin(ctx, moveTimeout, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewVolumeGroupServiceClient(conn).MoveExtents(ctx, &agentv1.MoveExtentsRequest{
			Name: group.Name, OwnerUid: group.Owner, GroupUuid: group.UUID, Device: recordOf(device), Avoid: avoid,
		})
		return err
	})
	if err != nil {
		return faultOf(node, call, err)
	}
	p.mergeGroup(node, groupOf(r.GetGroup()))
	return nil
}

// RemoveVolumeGroup removes an empty group of the owner and gives its devices back.
func (p *Pool) RemoveVolumeGroup(ctx context.Context, node string, group decide.GroupRef, devices []decide.Device) error {
	const call = "RemoveVolumeGroup"
	var r *agentv1.RemoveVolumeGroupResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewVolumeGroupServiceClient(conn).RemoveVolumeGroup(ctx, &agentv1.RemoveVolumeGroupRequest{
			Name: group.Name, OwnerUid: group.Owner, GroupUuid: group.UUID, Devices: identities(devices, recordOf),
		})
		return err
	})
	if err != nil {
		return faultOf(node, call, err)
	}
	for _, n := range r.GetNotes() {
		p.cfg.Log.Info("Removed a volume group, but not all of it", "node", node, "volumeGroup", group.Name, "note", n)
	}
	p.merge(node, func(n *decide.Node) {
		n.Groups = slices.DeleteFunc(slices.Clone(n.Groups), func(g decide.Group) bool {
			return g.Name == group.Name && g.OwnerUID == group.Owner && (group.UUID == "" || g.UUID == group.UUID)
		})
	})
	return nil
}

// StampVolumeGroup makes a group of the owner that names no node that of the node.
func (p *Pool) StampVolumeGroup(ctx context.Context, node, group, owner, uuid string) error {
	const call = "StampVolumeGroup"
	var r *agentv1.StampVolumeGroupResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewVolumeGroupServiceClient(conn).StampVolumeGroup(ctx, &agentv1.StampVolumeGroupRequest{
			Name: group, OwnerUid: owner, Uuid: uuid,
		})
		return err
	})
	if err != nil {
		return faultOf(node, call, err)
	}
	p.mergeGroup(node, groupOf(r.GetGroup()))
	return nil
}

// ImportVolumeGroup makes a group of the owner that carries the system ID of another node that of the node.
func (p *Pool) ImportVolumeGroup(ctx context.Context, node, group, owner, uuid, from string) error {
	return p.importGroup(ctx, node, &agentv1.ImportVolumeGroupRequest{Name: group, OwnerUid: owner, Uuid: uuid, FromSystemId: from})
}

// TakeOverVolumeGroup makes a group of the node, which carries a system ID, that of another owner than before. Older agents refuse it.
func (p *Pool) TakeOverVolumeGroup(ctx context.Context, node string, group decide.GroupRef, systemID, fromOwner string) error {
	return p.importGroup(ctx, node, &agentv1.ImportVolumeGroupRequest{
		Name: group.Name, OwnerUid: group.Owner, Uuid: group.UUID, FromSystemId: systemID, FromOwnerUid: fromOwner,
	})
}

func (p *Pool) importGroup(ctx context.Context, node string, req *agentv1.ImportVolumeGroupRequest) error {
	const call = "ImportVolumeGroup"
	meant := func(g decide.Group) bool { return g.UUID == req.GetUuid() }
	if err := p.Unshared(node, call, p.members(node, meant)...); err != nil {
		return err
	}
	var r *agentv1.ImportVolumeGroupResponse
	err := p.call(ctx, node, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		r, err = agentv1.NewVolumeGroupServiceClient(conn).ImportVolumeGroup(ctx, req)
		return err
	})
	if err != nil {
		return faultOf(node, call, err)
	}
	p.merge(node, func(n *decide.Node) { n.OtherNodes = slices.DeleteFunc(slices.Clone(n.OtherNodes), meant) })
	p.mergeGroup(node, groupOf(r.GetGroup()))
	return nil
}

// Call makes one call of a service that a package below this one knows, on the connection of a node. The error is a fault with the name of the call.
func (p *Pool) Call(ctx context.Context, limit time.Duration, node, call string, do func(context.Context, *grpc.ClientConn) error) error {
	return faultOf(node, call, p.callWithin(ctx, limit, node, do))
}

// call makes one call on the connection of a node.
func (p *Pool) call(ctx context.Context, node string, do func(context.Context, *grpc.ClientConn) error) error {
	return p.callWithin(ctx, callTimeout, node, do)
}

func (p *Pool) callWithin(ctx context.Context, limit time.Duration, node string, do func(context.Context, *grpc.ClientConn) error) error {
	p.mu.Lock()
	l := p.links[node]
	p.mu.Unlock()
	var conn *grpc.ClientConn
	if l != nil {
		l.mu.Lock()
		conn = l.conn
		l.mu.Unlock()
	}
	if conn == nil {
		return status.Error(codes.Unavailable, noAgent)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if id := p.cfg.RequestID(ctx); id != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, requestIDKey, id)
	}
	return do(ctx, conn)
}

// merge changes the last report by what a call returned, so that it is known before the watch tells it.
func (p *Pool) merge(node string, change func(n *decide.Node)) {
	p.mu.Lock()
	l := p.links[node]
	p.mu.Unlock()
	if l == nil {
		return
	}
	p.publish(append(l.update(change), node)...)
}

// mergeGroup puts a group into the report, in place of what it was. Another group of its name stays: both are on the node.
func (p *Pool) mergeGroup(node string, g decide.Group) {
	p.merge(node, func(n *decide.Node) {
		groups := slices.DeleteFunc(slices.Clone(n.Groups), func(o decide.Group) bool { return o.UUID == g.UUID })
		groups = append(groups, g)
		slices.SortStableFunc(groups, func(a, b decide.Group) int { return strings.Compare(a.Name, b.Name) })
		n.Groups = groups
	})
}
