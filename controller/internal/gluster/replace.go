package gluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
)

// Replacement is a brick that is to be replaced by a new one.
type Replacement struct {
	Volume string
	// Brick is its ID, Peer owns it, and Path is where it is. All three have to be those of one brick: its successor may have the same path.
	Brick, Peer, Path string
	// ExcludePeers are not given the new brick. The zones of all bricks of the volume are excluded by the server.
	ExcludePeers []string
}

// ReplaceBrick replaces a brick by a new and empty one, which the server chooses. Only the peer that owns the brick can: any other takes the brick's
// size for 0, fails, and leaves a stray image behind. So the server has to be that peer, and says so before it is asked. Success does not say
// that the data is there: see Heal. An answer that was lost is looked up with Volume before the call is made again.
func (s *Server) ReplaceBrick(ctx context.Context, r Replacement) error {
	op := fmt.Sprintf("replace brick %s of volume %s on peer %s", r.Path, r.Volume, r.Peer)
	if err := errors.Join(validVolume(r.Volume), validID(r.Peer), validID(r.Brick)); err != nil {
		return s.invalid(op, err)
	}
	if !strings.HasPrefix(r.Path, "/") || path.Clean(r.Path) != r.Path {
		return s.invalid(op, errors.New("the path of the brick is not a clean, absolute one"))
	}
	who, err := s.Identify(ctx)
	if err != nil {
		return err
	}
	if who.Peer != r.Peer {
		return s.invalid(op, fmt.Errorf("the server is peer %s, and only the brick's owner can replace it", who.Peer))
	}
	// A brick that is not in the volume is not refused by the server: it begins, and fails half-way.
	v, err := s.Volume(ctx, r.Volume)
	if err != nil {
		return err
	}
	if !v.has(Brick{ID: r.Brick, Peer: r.Peer, Path: r.Path}) {
		return &Error{Kind: Absent, Op: op, Address: s.base.Host, cause: errors.New("the volume has no such brick")}
	}
	body := struct {
		SrcPeerID    string   `json:"src-peerid"`
		SrcBrickPath string   `json:"src-brickpath"`
		ExcludePeers []string `json:"exclude-peers,omitempty"`
	}{r.Peer, r.Path, r.ExcludePeers}
	// The answer has the brick that was replaced, still.
	var one volumeAnswer
	_, err = s.call(ctx, request{
		op: op, method: http.MethodPost, path: "/v1/volumes/" + r.Volume + "/replacebrick", body: body, status: http.StatusOK, into: &one, says: ofVolume,
	})
	return s.about(op, r.Volume, one, err)
}

// about returns an error for a change whose answer is about another volume.
func (s *Server) about(op, name string, one volumeAnswer, err error) error {
	if err == nil && one.Name != name {
		return s.lost(op, fmt.Errorf("the answer is about volume %q", clean(one.Name)))
	}
	return err
}

// has reports whether a brick is in the volume, on that peer and at that path.
func (v Volume) has(brick Brick) bool {
	for _, s := range v.Subvolumes {
		for _, b := range s.Bricks {
			if b.ID == brick.ID && b.Peer == brick.Peer && b.Path == brick.Path {
				return true
			}
		}
	}
	return false
}
