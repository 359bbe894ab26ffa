package gluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/google/uuid"
)

// Device is a disk that bricks are made on. A server can add one, and never removes one.
type Device struct {
	Peer    string
	Path    string
	Enabled bool
	// Free is what the server counts as free, in bytes. The space of a brick that was replaced is not given back.
	Free uint64
	// Total is its size, in bytes; 0 when the server does not tell. For a loop device it may be less than Free: the server swaps the two when it is added.
	Total uint64
}

type deviceAnswer struct {
	Device    string  `json:"device"`
	State     string  `json:"state"`
	FreeSize  *uint64 `json:"free-size"`
	TotalSize uint64  `json:"total-size"`
	PeerID    string  `json:"peer-id"`
}

const (
	deviceEnabled  = "enabled"
	deviceDisabled = "disabled"
)

func (d deviceAnswer) device() (Device, error) {
	if d.Device == "" || uuid.Validate(d.PeerID) != nil || d.FreeSize == nil || (d.State != deviceEnabled && d.State != deviceDisabled) {
		return Device{}, fmt.Errorf("a device %q has no peer, no free size, or a state that nobody knows: %q", clean(d.Device), clean(d.State))
	}
	return Device{Peer: d.PeerID, Path: d.Device, Enabled: d.State == deviceEnabled, Free: *d.FreeSize, Total: d.TotalSize}, nil
}

// Devices returns the devices that the store has of a peer. It has those of peers that left, too, and none of a peer that is not known: whether
// a peer exists is another question.
func (s *Server) Devices(ctx context.Context, peer string) ([]Device, error) {
	op := "list devices of peer " + peer
	if err := validID(peer); err != nil {
		return nil, s.invalid(op, err)
	}
	var list []deviceAnswer
	if _, err := s.call(ctx, request{op: op, method: http.MethodGet, path: "/v1/devices/" + peer, status: http.StatusOK, into: &list}); err != nil {
		return nil, err
	}
	out := make([]Device, 0, len(list))
	for _, one := range list {
		d, err := one.device()
		if err == nil && d.Peer != peer {
			err = fmt.Errorf("a device of peer %s is listed", d.Peer)
		}
		if err != nil {
			return nil, s.unreadable(op, err)
		}
		out = append(out, d)
	}
	return out, nil
}

// AddDevice has a peer make a volume group on a block device. An error of the kind Exists says that the store has the device already.
func (s *Server) AddDevice(ctx context.Context, peer, device string) error {
	op := fmt.Sprintf("add device %s of peer %s", device, peer)
	if err := errors.Join(validID(peer), validDevice(device)); err != nil {
		return s.invalid(op, err)
	}
	body := struct {
		Device string `json:"device"`
		// Provisioner is never loop: with it a path that is no directory ends the whole server.
		Provisioner string `json:"provisioner"`
	}{device, "lvm"}
	var one deviceAnswer
	_, err := s.call(ctx, request{
		op: op, method: http.MethodPost, path: "/v1/devices/" + peer, body: body, status: http.StatusCreated, into: &one,
		says: map[answerKey]Kind{
			{http.StatusBadRequest, "device already exists"}: Exists,
			{http.StatusNotFound, "peer not found"}:          Absent,
			// The server does not tell why. What was begun may be on the disk.
			{http.StatusInternalServerError, "transaction to prepare device failed"}: Failed,
		},
	})
	if err == nil && (one.Device != device || one.PeerID != peer) {
		err = s.lost(op, fmt.Errorf("the answer is about device %q of peer %q", clean(one.Device), clean(one.PeerID)))
	}
	return err
}

// EnableDevice sets whether new bricks may be made on a device. It works on peers that are down, and on those that left.
func (s *Server) EnableDevice(ctx context.Context, peer, device string, enabled bool) error {
	op := fmt.Sprintf("set state of device %s of peer %s", device, peer)
	if err := errors.Join(validID(peer), validDevice(device)); err != nil {
		return s.invalid(op, err)
	}
	state := deviceDisabled
	if enabled {
		state = deviceEnabled
	}
	body := struct {
		State string `json:"state"`
	}{state}
	_, err := s.call(ctx, request{
		op: op, method: http.MethodPost, path: "/v1/devices/" + peer + device, body: body, status: http.StatusOK,
		says: map[answerKey]Kind{{http.StatusInternalServerError, "device does not exist in the given peer"}: Absent},
	})
	return err
}

// validDevice refuses paths that a server would take for another device, or redirect: it compares them as text.
func validDevice(device string) error {
	if !strings.HasPrefix(device, "/") || device == "/" || path.Clean(device) != device {
		return fmt.Errorf("%q is not a clean, absolute path of a device", device)
	}
	return nil
}
