package nfs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/host/mount"
	hostnfs "quarry.storage/quarry/agent/internal/host/nfs"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// Unmount takes away a mount of a volume. One that waits for its server is forced only when it is the volume's last on this node and the
// server is gone: what was not written yet is lost then, and nobody is left who could wait for it.
func (s *Source) Unmount(ctx context.Context, v csi.Volume, p mount.Point, last bool) error {
	err := s.unmount(ctx, v, p, false)
	if !errors.Is(err, hostnfs.ErrHangs) {
		return err
	}
	points, tableErr := s.cfg.Table.Points()
	if tableErr != nil {
		return errors.Join(err, tableErr)
	}
	if !shown(points, p) {
		// The kernel took the mount away, and still waits to write what was left in its cache.
		s.cfg.Log.Info("Unmounted a volume whose last writes wait for its server", "volume", v.Handle, "path", p.Path, "source", p.Source)
		return nil
	}
	if users := others(points, p); len(users) > 0 || !last {
		return fmt.Errorf("%w, and is not forced: it is not the last mount of the volume (%s)", err, strings.Join(users, ", "))
	}
	gone, probeErr := s.gone(ctx, p)
	switch {
	case probeErr != nil:
		return fmt.Errorf("%w, and is not forced: it is not known whether the server is gone: %s", err, probeErr.Error())
	case gone == nil:
		return fmt.Errorf("%w, and is not forced: the server %s answers", err, server(p))
	}
	err = s.unmount(ctx, v, p, true)
	if errors.Is(err, hostnfs.ErrNotBegun) {
		return err
	}
	// The kernel fails what waits for the server even if it keeps the mount.
	s.forced.Inc()
	log := s.cfg.Log.WithValues("volume", v.Handle, "path", p.Path, "source", p.Source, "reason", gone.Error())
	if err != nil {
		log = log.WithValues("error", err.Error())
	}
	log.Info("Forced the last mount of a volume: its server is gone, and no pod uses the volume. What was not written is lost")
	if errors.Is(err, hostnfs.ErrHangs) {
		if points, tableErr := s.cfg.Table.Points(); tableErr == nil && !shown(points, p) {
			return nil
		}
	}
	return err
}

func (s *Source) unmount(ctx context.Context, v csi.Volume, p mount.Point, force bool) error {
	dir, base, err := s.cfg.Places.Parent(p.Path)
	if err != nil {
		return fmt.Errorf("%w: %w", hostnfs.ErrNotBegun, err)
	}
	defer dir.Close()
	at := hostnfs.Mounted{Dir: dir, Name: base, What: "volume " + v.Handle + " at " + p.Path, Volume: v.Handle, Server: server(p)}
	return s.cfg.Shares.Unmount(ctx, at, force)
}

// shown reports whether a mount is in the table.
func shown(points []mount.Point, p mount.Point) bool {
	return slices.ContainsFunc(points, func(q mount.Point) bool { return q.Path == p.Path && q.Filesystem == p.Filesystem })
}

// others are the other places where the filesystem of a mount is seen. Volumes share none.
func others(points []mount.Point, p mount.Point) []string {
	var out []string
	for _, q := range points {
		if q.Filesystem == p.Filesystem && q.Path != p.Path {
			out = append(out, q.Path)
		}
	}
	return out
}

// gone is the reason why the server of a mount cannot be reached, and nil when it can. An error says that nobody knows.
func (s *Source) gone(ctx context.Context, p mount.Point) (reason *sharedvolume.Problem, err error) {
	var options []string
	for o := range strings.SplitSeq(p.Options, ",") {
		if key, _, _ := strings.Cut(o, "="); key == "vers" || key == "port" {
			options = append(options, o)
		}
	}
	err = s.cfg.Shares.Reaches(ctx, server(p), options)
	switch {
	case !errors.As(err, &reason):
		return nil, err
	case reason.Reason == sharedvolume.ReasonUnreachable:
		return reason, nil
	}
	// What refuses is there.
	return nil, nil
}

// server is the address that a mount is connected to, as the kernel shows it.
func server(p mount.Point) string {
	for o := range strings.SplitSeq(p.Options, ",") {
		if address, ok := strings.CutPrefix(o, "addr="); ok {
			return address
		}
	}
	return ""
}
