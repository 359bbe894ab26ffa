package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"quarry.storage/quarry/agent/internal/host/nfs/share"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// Site is a share that can be mounted anew.
type Site interface {
	// Open mounts the share for one request. No cache of an earlier one shows what is not there any more: kernels with delegations of
	// directories believe theirs, whatever the mount options say.
	Open() (*share.Share, error)
}

// Opener mounts a share and says at which address.
type Opener func(Mount) (Site, string, error)

// Serve reads which share to mount, says whether that went well, and then answers requests, several at a time, until its input ends.
func Serve(in io.Reader, out io.Writer, open Opener) error {
	requests, answers := json.NewDecoder(in), &answers{to: json.NewEncoder(out)}
	var m Mount
	if err := requests.Decode(&m); err != nil {
		return fmt.Errorf("read which share: %w", err)
	}
	site, address, err := open(m)
	if err := answers.send(Hello{Address: address, Failure: failure(err)}); err != nil {
		return err
	}
	if err != nil {
		return nil
	}
	for {
		var r Request
		if err := requests.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		go func() {
			// Whoever does not read answers any more has closed the other end too.
			_ = answers.send(Perform(site, r))
		}()
	}
}

// answers writes one answer at a time.
type answers struct {
	mu sync.Mutex
	to *json.Encoder
}

func (a *answers) send(v any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.to.Encode(v)
}

// Perform does what a request asks for.
func Perform(site Site, r Request) Response {
	out := Response{ID: r.ID}
	s, err := site.Open()
	if err == nil {
		err = perform(s, r, &out)
		s.Close()
	}
	out.Failure = failure(err)
	return out
}

func perform(s *share.Share, r Request, out *Response) (err error) {
	switch r.Operation {
	case Look:
		out.ShareID, err = s.Identify(r.Target)
		out.Usage, err = usage(s, err)
	case Prepare:
		if out.ShareID, err = s.Prepare(r.Target); err == nil {
			err = s.Probe()
		}
		out.Usage, err = usage(s, err)
	case Ensure:
		out.Directory, err = s.Ensure(r.Target, sharedvolume.Wish{Name: r.Volume, Directory: r.Directory, OnDelete: r.OnDelete, Bytes: r.Bytes})
	case Remove:
		out.Removal, err = s.Remove(r.Target, r.Volume, r.Directory, r.OnDelete, time.Now().Add(r.Budget))
	case Abandon:
		err = s.Abandon(r.Target, r.Volume)
	case List:
		var until time.Time
		if r.Budget > 0 {
			until = time.Now().Add(r.Budget)
		}
		out.List, out.Next, err = s.List(r.Target, r.After, r.Limit, until)
	default:
		err = fmt.Errorf("no operation %q", r.Operation)
	}
	return err
}

// usage tells how full a share is, even one that cannot be used for another reason.
func usage(s *share.Share, err error) (sharedvolume.Usage, error) {
	u, usageErr := s.Usage()
	if err != nil {
		return u, err
	}
	return u, usageErr
}
