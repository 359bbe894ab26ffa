package nfs

import (
	"context"
	"errors"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/nfs"
	"quarry.storage/quarry/pkg/sharedvolume"
)

const (
	// compareTime is how long after a look another page of records is asked for: the next look goes on. pageTime bounds one page; an agent ends it after
	// five seconds. Both together keep no look waiting, so that a server that dies meanwhile is told of as soon as any other.
	compareTime = 3 * time.Second
	pageTime    = 7 * time.Second
)

// compare looks for the volumes that PersistentVolumes name, through the node that reached the share last.
func (b *Backend) compare(ctx context.Context, v *nfs.View, ask []nfs.Question, token string) *nfs.Compared {
	known := v.Compared()
	began := b.Now()
	for first := true; len(ask) > 0; first = false {
		asked := b.Now()
		if !first && asked.Sub(began) >= compareTime {
			return known
		}
		a := b.page(ctx, v.Preferred(), ask[0], token)
		now := b.Now()
		known = known.Add(a, now, now.Sub(asked))
		if token = a.Next; token == "" {
			ask = ask[1:]
		}
	}
	return known.End()
}

// page reads one page of records. A share that is another one, or has no records of the owner, has none of its volumes.
func (b *Backend) page(ctx context.Context, node string, q nfs.Question, token string) nfs.Answer {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	out := nfs.Answer{Question: q, After: token}
	var err error
	var fault *decide.Fault
	out.Records, out.Next, err = b.Agents.ListDirectories(ctx, node, q.Share, token, true)
	switch {
	case err == nil:
	case errors.As(err, &fault) && (fault.Reason == sharedvolume.ReasonOtherShare || fault.Reason == sharedvolume.ReasonNotPrepared):
		out.Refused = fault.Message
	default:
		out.Failed = err.Error()
	}
	return out
}
