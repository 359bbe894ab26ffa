package nfs

import (
	"context"
	"errors"
	"fmt"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/nfs"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// maxLeft bounds the records that are read: a deletion that so many hold up names a few of them.
const maxLeft = 1000

// left reads what a share that is about to be forgotten still has on record.
func (b *Backend) left(ctx context.Context, s sharedvolume.Share, v *nfs.View) *nfs.Left {
	out := &nfs.Left{At: b.Now(), Share: s, Problem: v.Away()}
	if out.Problem != "" {
		return out
	}
	out.Problem = "no agent answers"
	for _, node := range nfs.Order(b.Agents.Online(), []string{v.Preferred()}, v.Turn(), tries) {
		records, err := b.records(ctx, node, s)
		if err == nil {
			out.Node, out.Records, out.Problem = node, records, ""
			return out
		}
		out.Problem = err.Error()
	}
	return out
}

func (b *Backend) records(ctx context.Context, node string, s sharedvolume.Share) (out []sharedvolume.Directory, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for token := ""; len(out) < maxLeft; {
		page, next, err := b.Agents.ListDirectories(ctx, node, s, token, false)
		if err != nil {
			return nil, err
		}
		out = append(out, page...)
		if token = next; token == "" {
			break
		}
	}
	return out, nil
}

// Perform removes what is left of volumes that were never made. A step may wait for others, and its volume may have been made and be in use
// since the look: the agent, which has the record before it, refuses that one.
func (b *Backend) Perform(ctx context.Context, host string, steps backend.Steps) (done int, err error) {
	for step, err := range steps {
		if err != nil {
			return done, err
		}
		s, ok := step.(nfs.Step)
		if !ok || s.Via() != host {
			return done, fmt.Errorf("step %T %s via %q was given to host %s", step, step.Action(), step.Via(), host)
		}
		if err := b.Agents.AbandonDirectory(ctx, host, s.Share, s.Volume); err != nil {
			return done, &backend.StepError{Reason: v1alpha1.ReasonStepFailed, Passing: passing(err), Err: err}
		}
		done++
	}
	return done, nil
}

// passing reports whether an error may be over at the next look.
func passing(err error) bool {
	var f *decide.Fault
	return errors.As(err, &f) && (f.Kind == decide.FaultBusy || f.Kind == decide.FaultUnavailable)
}
