package observe

import (
	"context"
	"fmt"
	"path/filepath"

	"quarry.storage/quarry/agent/internal/doctor"
	"quarry.storage/quarry/pkg/sharedlun"
)

// initiator looks at what makes sessions, and at what joins their paths.
func (c Config) initiator(ctx context.Context, f *doctor.Facts) {
	of, err := c.Initiator.Initiator(ctx)
	f.Initiator = doctor.Initiator{Name: of.Name, OfHost: of.OfHost, HostTool: found(filepath.Join(c.Proc, "1/root"), "iscsiadm")}
	switch {
	case err != nil:
		f.Initiator.Reason, f.Initiator.Problem = sharedlun.ReasonNoTools, err.Error()
	case of.Problem != nil:
		f.Initiator.Reason, f.Initiator.Problem = of.Problem.Reason, of.Problem.Message
	}
	if f.Multipath.Runs = of.Multipath; !of.Multipath {
		return
	}
	conf, err := c.Initiator.PathConfig(ctx)
	f.Multipath.Unread = said(err)
	f.Multipath.FindMultipaths, f.Multipath.Overrides, f.Multipath.Defaults = conf.FindMultipaths, conf.Overrides, conf.Defaults
	for _, d := range conf.Devices {
		if d.NoPathRetry == "queue" {
			f.Multipath.Queueing = append(f.Multipath.Queueing, fmt.Sprintf("%s %s", d.Vendor, d.Product))
		}
	}
}

// luns asks the target of each LUN that is there about its reservations, over one path that works. Of a LUN without one nothing is said: its Iscsi does.
func (c Config) luns(ctx context.Context, f *doctor.Facts) {
	sessions, err := c.Initiator.Sessions("")
	if err != nil {
		f.LunsUnread = err.Error()
		return
	}
	luns, err := c.Initiator.Luns(sessions)
	if err != nil {
		f.LunsUnread = err.Error()
		return
	}
	for _, l := range luns {
		for _, p := range l.Paths {
			if !p.Up {
				continue
			}
			r, err := c.Reservations.Read(ctx, filepath.Join(c.Dev, p.Device))
			f.Luns = append(f.Luns, doctor.Lun{Device: p.Device, Target: p.Target, Reservations: doctor.Answer{Yes: r.Supported, Unread: said(err)}})
			break
		}
	}
}
