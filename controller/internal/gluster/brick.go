package gluster

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// BrickStatus is a brick with what its peer sees of it.
type BrickStatus struct {
	Brick
	// Online says that the brick's process runs.
	Online bool
	// Capacity and Used are of the brick's filesystem, in bytes: 0 if its peer did not answer.
	Capacity, Used uint64
}

// Bricks returns the bricks of a volume. The server waits for peers that do not answer, for 20 seconds.
func (s *Server) Bricks(ctx context.Context, volume string) ([]BrickStatus, error) {
	op := "read bricks of volume " + volume
	if err := validVolume(volume); err != nil {
		return nil, s.invalid(op, err)
	}
	var list []struct {
		Info   brickAnswer `json:"info"`
		Online *bool       `json:"online"`
		Size   struct {
			Capacity uint64 `json:"capacity"`
			Used     uint64 `json:"used"`
		} `json:"size"`
	}
	if _, err := s.call(ctx, request{op: op, method: http.MethodGet, path: "/v1/volumes/" + volume + "/bricks", status: http.StatusOK, into: &list, says: ofVolume}); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, s.unreadable(op, fmt.Errorf("the volume has no bricks"))
	}
	out := make([]BrickStatus, 0, len(list))
	ids := map[string]bool{}
	for _, one := range list {
		b, err := one.Info.brick()
		if err == nil && ids[b.ID] {
			err = fmt.Errorf("brick %s is listed twice", b.ID)
		}
		ids[b.ID] = true
		if err == nil && one.Online == nil {
			err = fmt.Errorf("the answer does not say whether brick %s is online", b.Path)
		}
		if err != nil {
			return nil, s.unreadable(op, err)
		}
		out = append(out, BrickStatus{Brick: b, Online: *one.Online, Capacity: one.Size.Capacity, Used: one.Size.Used})
	}
	return out, nil
}

// BrickHeal is what is not yet healed on a brick.
type BrickHeal struct {
	// Host and Path of the brick.
	Host, Path string
	// Known says that the brick answered, and that all counts are its own. Otherwise nothing is known, which is not zero.
	Known bool
	// Pending, SplitBrain and Healing count entries.
	Pending, SplitBrain, Healing uint64
}

// Heal returns what is not yet healed in a volume that is replicated and started, for each of its bricks. A brick of the volume that is missing here is not
// known. The call takes the volume's lock: it is Busy
// during other operations, and makes them wait.
func (s *Server) Heal(ctx context.Context, volume string) ([]BrickHeal, error) {
	op := "read what volume " + volume + " has to heal"
	if err := validVolume(volume); err != nil {
		return nil, s.invalid(op, err)
	}
	var list []struct {
		Name       string `json:"name"`
		Status     string `json:"status"`
		Total      *int64 `json:"total-entries"`
		Pending    *int64 `json:"entries-in-heal-pending"`
		SplitBrain *int64 `json:"entries-in-split-brain"`
		Healing    *int64 `json:"entries-possibly-healing"`
	}
	path := "/v1/volumes/" + volume + "/info-summary/heal-info"
	if _, err := s.call(ctx, request{op: op, method: http.MethodGet, path: path, status: http.StatusOK, into: &list, says: ofVolume}); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, s.unreadable(op, fmt.Errorf("the volume has no bricks"))
	}
	out := make([]BrickHeal, 0, len(list))
	names := map[string]bool{}
	for _, one := range list {
		host, path, ok := strings.Cut(one.Name, ":/")
		if !ok || names[one.Name] {
			return nil, s.unreadable(op, fmt.Errorf("%q is not the name of a brick, or is listed twice", clean(one.Name)))
		}
		names[one.Name] = true
		b := BrickHeal{Host: host, Path: "/" + path, Known: one.Status == "Connected"}
		for count, into := range map[*int64]*uint64{one.Pending: &b.Pending, one.SplitBrain: &b.SplitBrain, one.Healing: &b.Healing} {
			if count == nil || *count < 0 {
				b.Known = false
				continue
			}
			*into = uint64(*count)
		}
		// Entries that are in none of the three would be missed.
		if one.Total == nil || *one.Total < 0 || uint64(*one.Total) > b.Pending+b.SplitBrain+b.Healing {
			b.Known = false
		}
		out = append(out, b)
	}
	return out, nil
}

// StartHeal has the self-heal daemons of a volume look at all of its files. What is marked as to be healed they look for by themselves, every ten minutes; a heal
// without a type does no more than that, and a new brick may lack files that nothing marks.
func (s *Server) StartHeal(ctx context.Context, volume string) error {
	op := "start healing volume " + volume
	if err := validVolume(volume); err != nil {
		return s.invalid(op, err)
	}
	_, err := s.call(ctx, request{op: op, method: http.MethodPost, path: "/v1/volumes/" + volume + "/heal", query: url.Values{"type": {"full"}}, status: http.StatusOK, says: ofVolume})
	return err
}
