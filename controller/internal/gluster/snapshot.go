package gluster

import (
	"context"
	"fmt"
	"net/http"
)

// Snapshot is a snapshot of a volume. Its bricks are on the same devices as the volume's were when it was taken.
type Snapshot struct {
	Name string
	// Parent is the volume's name.
	Parent string
	Bricks []Brick
}

// Snapshots returns the snapshots of all volumes.
func (s *Server) Snapshots(ctx context.Context) ([]Snapshot, error) {
	op := "list snapshots"
	var list *[]struct {
		Parent string `json:"parentname"`
		Snaps  []struct {
			Info volumeAnswer `json:"snapinfo"`
		} `json:"snaps"`
	}
	if _, err := s.call(ctx, request{op: op, method: http.MethodGet, path: "/v1/snapshots", status: http.StatusOK, into: &list}); err != nil {
		return nil, err
	}
	if list == nil {
		return nil, s.unreadable(op, fmt.Errorf("the answer is no list"))
	}
	out := []Snapshot{}
	for _, of := range *list {
		if len(of.Snaps) == 0 {
			return nil, s.unreadable(op, fmt.Errorf("volume %q is listed without a snapshot", clean(of.Parent)))
		}
		for _, one := range of.Snaps {
			v, err := one.Info.volume()
			if err != nil {
				return nil, s.unreadable(op, err)
			}
			snap := Snapshot{Name: v.Name, Parent: of.Parent}
			for _, sub := range v.Subvolumes {
				snap.Bricks = append(snap.Bricks, sub.Bricks...)
			}
			out = append(out, snap)
		}
	}
	return out, nil
}
