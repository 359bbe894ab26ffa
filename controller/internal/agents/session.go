package agents

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"quarry.storage/quarry/controller/internal/decide"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// introduceTimeout bounds the first call of a session.
const introduceTimeout = 10 * time.Second

// A watch is read paceReports times in paceWindow at most: a node that reports without end keeps no more of the controller busy than that. Agents
// wait a quarter of a second between two reports, so a sound one never meets the limit. One that does is read later, and then tells its newest
// view.
const (
	paceReports = 100
	paceWindow  = 10 * time.Second
)

// pace bounds how often a watch is read.
type pace struct {
	began time.Time
	read  int
}

// next notes that a report was read, and returns how long to wait before the next one.
func (p *pace) next(now time.Time) time.Duration {
	if now.Sub(p.began) >= paceWindow {
		p.began, p.read = now, 0
	}
	p.read++
	if p.read < paceReports {
		return 0
	}
	return p.began.Add(paceWindow).Sub(now)
}

// wait waits until the next report may be read, or the context ends.
func (p *pace) wait(ctx context.Context) {
	pause := p.next(time.Now())
	if pause <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// session asks the agent who it is and keeps both watches up. It returns whether the agent said that, and the error that ended it.
func (l *link) session(ctx context.Context, conn *grpc.ClientConn) (spoke bool, err error) {
	if err := l.introduce(ctx, agentv1.NewNodeServiceClient(conn)); err != nil {
		return false, err
	}
	g, ctx := errgroup.WithContext(ctx)
	if !l.pool.cfg.GroupsOnly {
		g.Go(func() error { return l.watchDevices(ctx, agentv1.NewDeviceServiceClient(conn)) })
	}
	g.Go(func() error { return l.watchGroups(ctx, agentv1.NewVolumeGroupServiceClient(conn)) })
	return true, g.Wait()
}

func (l *link) introduce(ctx context.Context, c agentv1.NodeServiceClient) error {
	callCtx, cancel := context.WithTimeout(ctx, introduceTimeout)
	defer cancel()
	r, err := c.GetNode(callCtx, &agentv1.GetNodeRequest{})
	if err != nil {
		return err
	}
	if r.GetNodeName() != l.name {
		return fmt.Errorf("the agent says that it runs on node %q", r.GetNodeName())
	}
	l.report(ctx, func(n *decide.Node) {
		n.AgentVersion, n.KernelRelease = r.GetAgentVersion(), r.GetKernelRelease()
		n.LVMVersion, n.BootID = r.GetLvmVersion(), r.GetBootId()
		l.cannotRun = r.GetLvmError()
		n.LVMError = l.lvmError()
	})
	return nil
}

// lvmError says why the groups are not known as they are now. The failed report of an earlier session counts until a new one comes. The
// caller holds the lock.
func (l *link) lvmError() string {
	if l.cannotRun == "" && l.cannotReport != "" {
		return "it could not report the volume groups: " + l.cannotReport
	}
	return l.cannotRun
}

func (l *link) watchDevices(ctx context.Context, c agentv1.DeviceServiceClient) error {
	s, err := c.WatchDevices(ctx, &agentv1.WatchDevicesRequest{}, grpc.MaxCallRecvMsgSize(l.pool.cfg.MaxReportBytes))
	if err != nil {
		return err
	}
	for pace := (pace{}); ; pace.wait(ctx) {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		devices := devicesOf(r.GetDevices(), time.Now(), r.GetUptimeMillis())
		l.report(ctx, func(n *decide.Node) {
			n.Devices = devices
			l.haveDevices, l.heard = true, true
		})
	}
}

func (l *link) watchGroups(ctx context.Context, c agentv1.VolumeGroupServiceClient) error {
	s, err := c.WatchVolumeGroups(ctx, &agentv1.WatchVolumeGroupsRequest{}, grpc.MaxCallRecvMsgSize(l.pool.cfg.MaxReportBytes))
	if err != nil {
		return err
	}
	for pace := (pace{}); ; pace.wait(ctx) {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		l.report(ctx, func(n *decide.Node) { l.take(n, r) })
	}
}

// take takes in what was reported of the groups. The caller holds the lock.
func (l *link) take(n *decide.Node, r *agentv1.WatchVolumeGroupsResponse) {
	groups, unknown := groupsOf(otherNodes(r.GetGroups(), false)), unknownOf(r.GetUnknown())
	n.Hiding, l.cannotReport = r.GetHidingDevices(), r.GetError()
	if len(unknown) > 0 {
		// It is said of each group whether it is known.
		l.cannotReport = ""
	}
	n.LVMError = l.lvmError()
	if l.cannotReport == "" {
		// What was reported last stays while LVM fails: nobody knows better.
		n.Groups, n.Unknown = withLast(groups, unknown, n.Groups), unknown
		n.OtherNodes = groupsOf(otherNodes(r.GetGroups(), true))
	}
	l.haveGroups = true
}

// withLast adds what was reported last of the groups that are unknown now.
func withLast(groups []decide.Group, unknown []decide.UnknownGroup, last []decide.Group) []decide.Group {
	for _, g := range last {
		lost := slices.ContainsFunc(unknown, func(u decide.UnknownGroup) bool { return u.UUID == g.UUID })
		// Where the metadata of a group cannot be read, it may be any that was seen before and is not seen now.
		lost = lost || slices.ContainsFunc(unknown, func(u decide.UnknownGroup) bool { return u.UUID == "" })
		if seen := slices.ContainsFunc(groups, func(now decide.Group) bool { return now.UUID == g.UUID }); lost && !seen {
			g.Unknown = true
			groups = append(groups, g)
		}
	}
	slices.SortStableFunc(groups, func(a, b decide.Group) int { return strings.Compare(a.Name, b.Name) })
	return groups
}
