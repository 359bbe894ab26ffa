package gluster

import (
	"context"
	"fmt"
	"net/http"
	"regexp"

	"github.com/google/uuid"
)

// Volume is a volume of the cluster.
type Volume struct {
	ID   string
	Name string
	// Type is Distribute, Replicate, Disperse, Distributed-Replicate or Distributed-Disperse.
	Type string
	// State is Created, Started or Stopped.
	State string
	// Subvolumes have the bricks. Those of one subvolume hold the same data.
	Subvolumes []Subvolume
	Options    map[string]string
	// Snapshots are the names of the volume's snapshots.
	Snapshots []string
}

// Subvolume is a set of bricks. A subvolume of subvolumes has their bricks.
type Subvolume struct {
	Name   string
	Type   string
	Bricks []Brick
}

// Brick is a part of a volume on one peer.
type Brick struct {
	ID   string
	Peer string
	Path string
	// Host is the address of the peer that clients are told, without a port.
	Host string
	// Arbiter says that the brick has names and no content.
	Arbiter bool
}

type volumeAnswer struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Type     string            `json:"type"`
	State    string            `json:"state"`
	Subvols  []subvolAnswer    `json:"subvols"`
	Options  map[string]string `json:"options"`
	SnapList []string          `json:"snap-list"`
}

type subvolAnswer struct {
	Name    string         `json:"name"`
	Type    string         `json:"type"`
	Bricks  []brickAnswer  `json:"bricks"`
	Subvols []subvolAnswer `json:"subvols"`
}

type brickAnswer struct {
	ID     string `json:"id"`
	Path   string `json:"path"`
	PeerID string `json:"peer-id"`
	Host   string `json:"host"`
	Type   string `json:"type"`
}

var states = map[string]bool{"Created": true, "Started": true, "Stopped": true}

func (v volumeAnswer) volume() (Volume, error) {
	if uuid.Validate(v.ID) != nil || !volumeName.MatchString(v.Name) || !states[v.State] || len(v.Subvols) == 0 {
		return Volume{}, fmt.Errorf("volume %q has no ID, no subvolumes, or a state that nobody knows: %q", clean(v.Name), clean(v.State))
	}
	out := Volume{
		ID: v.ID, Name: v.Name, Type: v.Type, State: v.State, Options: v.Options, Snapshots: v.SnapList,
	}
	for _, s := range v.Subvols {
		bricks, err := s.bricks()
		if err != nil {
			return Volume{}, fmt.Errorf("volume %q: %w", v.Name, err)
		}
		out.Subvolumes = append(out.Subvolumes, Subvolume{Name: s.Name, Type: s.Type, Bricks: bricks})
	}
	return out, nil
}

// bricks returns the bricks of a subvolume, and of those in it.
func (s subvolAnswer) bricks() ([]Brick, error) {
	var out []Brick
	for _, b := range s.Bricks {
		brick, err := b.brick()
		if err != nil {
			return nil, err
		}
		out = append(out, brick)
	}
	for _, below := range s.Subvols {
		bricks, err := below.bricks()
		if err != nil {
			return nil, err
		}
		out = append(out, bricks...)
	}
	// A subvolume without bricks would make its volume look as if it were nowhere.
	if len(out) == 0 {
		return nil, fmt.Errorf("subvolume %q has no bricks", clean(s.Name))
	}
	return out, nil
}

func (b brickAnswer) brick() (Brick, error) {
	if uuid.Validate(b.ID) != nil || uuid.Validate(b.PeerID) != nil || b.Path == "" {
		return Brick{}, fmt.Errorf("a brick %q has no ID, no path or no peer", clean(b.Path))
	}
	return Brick{ID: b.ID, Peer: b.PeerID, Path: b.Path, Host: b.Host, Arbiter: b.Type == "Arbiter"}, nil
}

// Volumes returns the volumes of the cluster. With the store out of reach the server never answers, so the call ends by its timeout.
func (s *Server) Volumes(ctx context.Context) ([]Volume, error) {
	op := "list volumes"
	var list *[]volumeAnswer
	if _, err := s.call(ctx, request{op: op, method: http.MethodGet, path: "/v1/volumes", status: http.StatusOK, into: &list}); err != nil {
		return nil, err
	}
	// The server writes an empty list as [], never as null.
	if list == nil {
		return nil, s.unreadable(op, fmt.Errorf("the answer is no list"))
	}
	out := make([]Volume, 0, len(*list))
	names := map[string]bool{}
	for _, one := range *list {
		v, err := one.volume()
		if err == nil && names[v.Name] {
			err = fmt.Errorf("volume %s is listed twice", v.Name)
		}
		if err != nil {
			return nil, s.unreadable(op, err)
		}
		names[v.Name] = true
		out = append(out, v)
	}
	return out, nil
}

// Volume returns one volume. An error of the kind Absent says that the server looked and found none.
func (s *Server) Volume(ctx context.Context, name string) (Volume, error) {
	op := "read volume " + name
	if err := validVolume(name); err != nil {
		return Volume{}, s.invalid(op, err)
	}
	var one volumeAnswer
	if _, err := s.call(ctx, request{op: op, method: http.MethodGet, path: "/v1/volumes/" + name, status: http.StatusOK, into: &one, says: ofVolume}); err != nil {
		return Volume{}, err
	}
	v, err := one.volume()
	if err == nil && v.Name != name {
		err = fmt.Errorf("the answer is about volume %q", v.Name)
	}
	if err != nil {
		return Volume{}, s.unreadable(op, err)
	}
	return v, nil
}

var (
	volumeName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	ofVolume   = map[answerKey]Kind{
		{http.StatusNotFound, "volume not found"}:                                    Absent,
		{http.StatusInternalServerError, "probably some of the nodes are down"}:      PeerDown,
		{http.StatusInternalServerError, "No volume groups are available"}:           NoPlace,
		{http.StatusInternalServerError, "peer id of new brick could not be parsed"}: NoPlace,
	}
)

func validVolume(name string) error {
	if !volumeName.MatchString(name) {
		return fmt.Errorf("%q is not the name of a volume", name)
	}
	return nil
}
