package gluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
)

// Peer is a server of the cluster, as its store has it.
type Peer struct {
	// ID changes when a peer joins or leaves, unless GD2_PEER_ID is set in its environment. Name and addresses do not.
	ID   string
	Name string
	// PeerAddresses are host:port for the other peers, ClientAddresses those for clients.
	PeerAddresses   []string
	ClientAddresses []string
	// Online follows a lease of 30 seconds: it is late by as much after a crash.
	Online bool
	// Zone is the failure domain: the peer's ID where nobody gave one.
	Zone string
	// Metadata has what others wrote, without the keys of glusterd2.
	Metadata map[string]string
}

type peerAnswer struct {
	ID              string            `json:"id"`
	Name            string            `json:"name"`
	PeerAddresses   []string          `json:"peer-addresses"`
	ClientAddresses []string          `json:"client-addresses"`
	Online          *bool             `json:"online"`
	Metadata        map[string]string `json:"metadata"`
}

const zoneKey = "_zone"

func (p peerAnswer) peer() (Peer, error) {
	if uuid.Validate(p.ID) != nil || p.Online == nil || len(p.PeerAddresses) == 0 {
		return Peer{}, fmt.Errorf("a peer %q has no ID, no address, or no word on whether it is online", clean(p.ID))
	}
	out := Peer{
		ID: p.ID, Name: p.Name, PeerAddresses: p.PeerAddresses, ClientAddresses: p.ClientAddresses, Online: *p.Online,
		Zone: p.Metadata[zoneKey], Metadata: map[string]string{},
	}
	if strings.TrimSpace(out.Zone) == "" {
		out.Zone = p.ID
	}
	for k, v := range p.Metadata {
		if !strings.HasPrefix(k, "_") {
			out.Metadata[k] = v
		}
	}
	return out, nil
}

// Peers returns the peers of the server's cluster. The server is one of them, so an empty list is no answer.
func (s *Server) Peers(ctx context.Context) ([]Peer, error) {
	op := "list peers"
	var list []peerAnswer
	a, err := s.call(ctx, request{op: op, method: http.MethodGet, path: "/v1/peers", status: http.StatusOK, into: &list})
	if err != nil {
		return nil, err
	}
	out := make([]Peer, 0, len(list))
	ids := map[string]bool{}
	for _, one := range list {
		p, err := one.peer()
		if err == nil && ids[p.ID] {
			err = fmt.Errorf("peer %s is listed twice", p.ID)
		}
		if err != nil {
			return nil, s.unreadable(op, err)
		}
		ids[p.ID] = true
		out = append(out, p)
	}
	if !ids[a.from.Peer] {
		return nil, s.unreadable(op, fmt.Errorf("the list lacks the peer that answered, %s", a.from.Peer))
	}
	return out, nil
}

// PeerGone reports whether a peer is no longer of the cluster. It says so only if the server looked for the peer and found none, and lists peers
// without it, too: while its store is out of reach a server answers 404 for peers that exist.
func (s *Server) PeerGone(ctx context.Context, id string) (bool, error) {
	op := "look for peer " + id
	if err := validID(id); err != nil {
		return false, s.invalid(op, err)
	}
	var one peerAnswer
	_, err := s.call(ctx, request{op: op, method: http.MethodGet, path: "/v1/peers/" + id, status: http.StatusOK, into: &one, says: noPeer})
	if err == nil {
		if one.ID != id {
			return false, s.unreadable(op, fmt.Errorf("the answer is about peer %q", clean(one.ID)))
		}
		return false, nil
	}
	if KindOf(err) != Absent {
		return false, err
	}
	peers, err := s.Peers(ctx)
	if err != nil {
		return false, err
	}
	for _, p := range peers {
		if p.ID == id {
			return false, s.unreadable(op, errors.New("the server does not find the peer, and lists it"))
		}
	}
	return true, nil
}

var noPeer = map[answerKey]Kind{{http.StatusNotFound, "peer not found"}: Absent}

const downPeer = "peer is not alive"

// AddPeer has a server join that is at the first of the addresses (host:port of its peer port). The peer's ID is the one that is returned: it changes
// with the join. An error of the kind Exists says that an address is one of a peer already; look it up by address in Peers.
func (s *Server) AddPeer(ctx context.Context, addresses []string, zone string, metadata map[string]string) (Peer, error) {
	op := fmt.Sprintf("add peer %v", addresses)
	if len(addresses) == 0 {
		return Peer{}, s.invalid(op, errors.New("no address is given"))
	}
	if err := validMetadata(metadata); err != nil {
		return Peer{}, s.invalid(op, err)
	}
	body := struct {
		Addresses []string          `json:"addresses"`
		Zone      string            `json:"zone,omitempty"`
		Metadata  map[string]string `json:"metadata,omitempty"`
	}{addresses, zone, metadata}
	var one peerAnswer
	_, err := s.call(ctx, request{
		op: op, method: http.MethodPost, path: "/v1/peers", body: body, status: http.StatusCreated, into: &one,
		says: map[answerKey]Kind{
			{http.StatusConflict, "already processing another join/leave request"}:            Busy,
			{http.StatusInternalServerError, "peer is part of another cluster"}:               Refused,
			{http.StatusInternalServerError, "failed to send join cluster request"}:           Unknown,
			{http.StatusInternalServerError, "could not connect to host. " + whyNoConnection}: PeerDown,
		},
	})
	var e *Error
	if errors.As(err, &e) && e.Status == http.StatusConflict && len(e.Messages) > 0 && strings.HasPrefix(e.Messages[0], "Peer exists with given addresses") {
		e.Kind, e.Pending = Exists, false
	}
	if err != nil {
		return Peer{}, err
	}
	p, err := one.peer()
	if err != nil {
		return Peer{}, s.lost(op, err)
	}
	return p, nil
}

const whyNoConnection = "Make sure host address is valid, network connection is active and gd2 is up and running"

// EditPeer sets a peer's zone, unless it is empty, and adds metadata. Keys cannot be removed. It works on peers that are down.
func (s *Server) EditPeer(ctx context.Context, id, zone string, metadata map[string]string) error {
	op := "edit peer " + id
	if err := errors.Join(validID(id), validMetadata(metadata)); err != nil {
		return s.invalid(op, err)
	}
	body := struct {
		Zone     string            `json:"zone,omitempty"`
		Metadata map[string]string `json:"metadata,omitempty"`
	}{zone, metadata}
	var one peerAnswer
	_, err := s.call(ctx, request{op: op, method: http.MethodPost, path: "/v1/peers/" + id, body: body, status: http.StatusOK, into: &one})
	if err == nil && one.ID != id {
		err = s.lost(op, fmt.Errorf("the answer is about peer %q", clean(one.ID)))
	}
	return err
}

// RemovePeer removes a peer that is online and has no bricks. A server does not remove itself, so ask another one. An answer that was lost is looked
// up with PeerGone. The peer's devices stay in the store for ever.
func (s *Server) RemovePeer(ctx context.Context, id string) error {
	op := "remove peer " + id
	if err := validID(id); err != nil {
		return s.invalid(op, err)
	}
	_, err := s.call(ctx, request{
		op: op, method: http.MethodDelete, path: "/v1/peers/" + id, status: http.StatusNoContent,
		says: map[answerKey]Kind{
			{http.StatusNotFound, "peer not found"}:                                Absent,
			{http.StatusForbidden, "cannot delete peer, peer has bricks"}:          HasBricks,
			{http.StatusInternalServerError, downPeer}:                             PeerDown,
			{http.StatusConflict, "already processing another join/leave request"}: Busy,
		},
	})
	return err
}

// validID refuses what is no UUID as the server writes it: it looks IDs up as text, and answers 404 for upper case.
func validID(id string) error {
	u, err := uuid.Parse(id)
	if err != nil || u.String() != id {
		return fmt.Errorf("%q is not the ID of a peer or brick: it has to be a UUID in lower case", id)
	}
	return nil
}

// maxMetadata is the server's limit for keys and values together.
const maxMetadata = 4096

func validMetadata(m map[string]string) error {
	size := 0
	for k, v := range m {
		if k == "" || strings.HasPrefix(k, "_") {
			return fmt.Errorf("metadata key %q is glusterd2's own: choose one that does not begin with _", k)
		}
		size += len(k) + len(v)
	}
	if size > maxMetadata {
		return fmt.Errorf("metadata has %d bytes, the limit is %d", size, maxMetadata)
	}
	return nil
}

// invalid is a call that was not made.
func (s *Server) invalid(op string, err error) error {
	return &Error{Kind: Refused, Op: op, Address: s.base.Host, cause: err}
}

// unreadable is a question whose answer makes no sense.
func (s *Server) unreadable(op string, err error) error {
	return &Error{Kind: Unknown, Op: op, Address: s.base.Host, Status: http.StatusOK, cause: err}
}

// lost is a change whose answer makes no sense.
func (s *Server) lost(op string, err error) error {
	return &Error{Kind: Unknown, Op: op, Address: s.base.Host, Status: http.StatusOK, Pending: true, cause: err}
}
