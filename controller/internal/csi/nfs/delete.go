package nfs

import (
	"context"
	"errors"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/nfs"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// A call ends early enough for its answer to arrive, and begins another part of a removal only if there is time for it.
const (
	reserve  = 3 * time.Second
	partTime = 25 * time.Second
)

// DeleteVolume removes the directory of a volume, as its policy says. It refuses where it is not known which share the volume is on.
// The removal of a large directory takes several calls; each says how far it is.
func (b *Backend) DeleteVolume(ctx context.Context, handle string) error {
	id, err := parse(handle)
	if err != nil {
		return err
	}
	k, err := b.find(ctx, id)
	if err != nil {
		return err
	}
	share, err := k.share()
	if err != nil {
		return err
	}
	// Without a PersistentVolume the record on the share alone says what was agreed on.
	var agreed sharedvolume.Attributes
	if k.recorded != nil {
		agreed = *k.recorded
	}
	return b.remove(ctx, share, k, agreed)
}

// remove asks for one part of the removal after the other as long as there is time.
func (b *Backend) remove(ctx context.Context, share sharedvolume.Share, k known, agreed sharedvolume.Attributes) error {
	ctx, cancel := early(ctx)
	defer cancel()
	var last sharedvolume.Removal
	for {
		var r sharedvolume.Removal
		err := b.through(ctx, share, k.hint(), func(ctx context.Context, node string) (err error) {
			r, err = b.Agents.RemoveDirectory(ctx, node, share, k.id.Name, agreed.Directory, agreed.OnDelete)
			return err
		})
		switch {
		case err != nil && last.Removed > 0 && cut(ctx, err):
			return volume.Refuse(volume.Unfinished, "%s", nfs.Progress(k.id.Name, last))
		case err != nil:
			return err
		case r.Done:
			if outcome := nfs.Outcome(r); outcome != "" {
				b.Log.Info("Deleted a volume", "volume", k.id.String(), "directory", outcome)
			}
			return nil
		case !lasts(ctx, partTime):
			return volume.Refuse(volume.Unfinished, "%s", nfs.Progress(k.id.Name, r))
		}
		last = r
	}
}

// early returns a context that ends before the caller's does.
func early(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-reserve))
}

// lasts reports whether so much time is left.
func lasts(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() == nil && (!ok || time.Until(deadline) >= d)
}

// cut reports whether a call failed because its time was over.
func cut(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (isFault(err, decide.FaultUnavailable) || errors.Is(err, context.DeadlineExceeded))
}

// isFault reports whether an agent refused for that reason.
func isFault(err error, kind decide.FaultKind) bool {
	var f *decide.Fault
	return errors.As(err, &f) && f.Kind == kind
}
