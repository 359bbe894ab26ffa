package cluster

import "time"

// State of a volume.
type State string

// States of a volume.
const (
	Created State = "Created"
	Started State = "Started"
	Stopped State = "Stopped"
)

// Volume is what the store has of a volume.
type Volume struct {
	ID              string            `json:"id"`
	Name            string            `json:"name"`
	Type            string            `json:"type"`
	Transport       string            `json:"transport"`
	DistributeCount int               `json:"distribute-count"`
	ReplicaCount    int               `json:"replica-count"`
	ArbiterCount    int               `json:"arbiter-count,omitempty"`
	DisperseCount   int               `json:"disperse-count,omitempty"`
	DataCount       int               `json:"disperse-data-count,omitempty"`
	RedundancyCount int               `json:"disperse-redundancy-count,omitempty"`
	Options         map[string]string `json:"options"`
	State           State             `json:"state"`
	Subvols         []Subvol          `json:"subvols"`
	Metadata        map[string]string `json:"metadata"`
	SnapList        []string          `json:"snap-list"`
	Capacity        uint64            `json:"capacity,omitempty"`

	Provisioner string `json:"-"`
	// Reserve is how much more than its bricks a thin pool has, for snapshots.
	Reserve float64 `json:"-"`
	// Pending are the entries that bricks have for others that lack them, by the brick's ID.
	Pending map[string][]File `json:"-"`
	// Unmarked are the entries that new bricks lack without anything being marked, by the new brick's ID.
	Unmarked map[string][]File `json:"-"`
	// SplitBrain counts entries that no brick is right about.
	SplitBrain int `json:"-"`
	// Files are what clients wrote.
	Files []File `json:"-"`
	// Healed is when what is pending will be healed. Zero means that healing did not begin.
	Healed time.Time `json:"-"`
	// HealRefused says that the self-heal daemons were asked once what they do not understand.
	HealRefused bool `json:"-"`
}

// File is an entry that is to be healed.
type File struct {
	Filename string `json:"Filename"`
	GfID     string `json:"GfID"`
}

// Subvol is a set of bricks.
type Subvol struct {
	Name            string   `json:"name"`
	Type            string   `json:"type"`
	Bricks          []*Brick `json:"bricks"`
	ReplicaCount    int      `json:"replica-count"`
	ArbiterCount    int      `json:"arbiter-count"`
	DisperseCount   int      `json:"disperse-count"`
	DataCount       int      `json:"disperse-data-count,omitempty"`
	RedundancyCount int      `json:"disperse-redundancy-count,omitempty"`

	ID string `json:"-"`
}

// Brick is a part of a volume on a peer.
type Brick struct {
	ID         string `json:"id"`
	Path       string `json:"path"`
	VolumeID   string `json:"volume-id"`
	VolumeName string `json:"volume-name"`
	PeerID     string `json:"peer-id"`
	Host       string `json:"host"`
	Type       string `json:"type"`

	// What glusterd2 made the brick of, if it did.
	Device string `json:"-"`
	Image  string `json:"-"`
	Mount  string `json:"-"`
	Size   uint64 `json:"-"`
	Total  uint64 `json:"-"`
	Opts   string `json:"-"`
	LV     string `json:"-"`
	TP     string `json:"-"`
}

// Bricks returns the bricks of a volume.
func (v *Volume) Bricks() []*Brick {
	var out []*Brick
	for _, s := range v.Subvols {
		out = append(out, s.Bricks...)
	}
	return out
}

// Peers returns the peers that have bricks of a volume, each once.
func (v *Volume) Peers() []string {
	var out []string
	seen := map[string]bool{}
	for _, b := range v.Bricks() {
		if !seen[b.PeerID] {
			seen[b.PeerID] = true
			out = append(out, b.PeerID)
		}
	}
	return out
}

// Snapshot is what the store has of a snapshot.
type Snapshot struct {
	Volume      Volume    `json:"snapinfo"`
	Parent      string    `json:"parentname"`
	Description string    `json:"description"`
	CreatedAt   time.Time `json:"created-at"`
}
