package volume

import (
	"path/filepath"

	"github.com/google/uuid"

	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/option"
)

// CreateRequest is what a volume is made with: bricks, or a size.
type CreateRequest struct {
	Name        string            `json:"name"`
	Transport   string            `json:"transport"`
	Subvols     []SubvolRequest   `json:"subvols"`
	Force       bool              `json:"force"`
	Metadata    map[string]string `json:"metadata"`
	Flags       map[string]bool   `json:"flags"`
	Options     map[string]string `json:"options"`
	Size        uint64            `json:"size"`
	Replica     int               `json:"replica"`
	Arbiter     int               `json:"arbiter"`
	Distribute  int               `json:"distribute"`
	Snapshot    bool              `json:"snapshot"`
	Reserve     float64           `json:"snapshot-reserve-factor"`
	Provisioner string            `json:"provisioner"`
	// Overlap lets subvolumes use the same zones.
	Overlap bool `json:"subvolume-zones-overlap"`
	Choice
	Levels
}

// Choice is where new bricks may be.
type Choice struct {
	LimitPeers   []string `json:"limit-peers"`
	LimitZones   []string `json:"limit-zones"`
	ExcludePeers []string `json:"exclude-peers"`
	ExcludeZones []string `json:"exclude-zones"`
}

// SubvolRequest is a subvolume that is to be made.
type SubvolRequest struct {
	Type       string         `json:"type"`
	Bricks     []BrickRequest `json:"bricks"`
	Replica    int            `json:"replica"`
	Arbiter    int            `json:"arbiter"`
	Disperse   int            `json:"disperse-count"`
	Data       int            `json:"disperse-data"`
	Redundancy int            `json:"disperse-redundancy"`
}

// BrickRequest is a brick that is to be made.
type BrickRequest struct {
	Type string `json:"type"`
	Peer string `json:"peerid"`
	Path string `json:"path"`

	made made
}

// made is what glusterd2 makes a brick of, where it chooses itself.
type made struct {
	device, image, mount, opts, lv, tp string
	size, total                        uint64
}

const minSize = 20 << 20

// check refuses what does not need a look at the cluster.
func (r *CreateRequest) check() *cluster.Failure {
	switch {
	case !validName.MatchString(r.Name):
		return cluster.Fail(400, "invalid volume name")
	case r.Transport != "" && r.Transport != "tcp" && r.Transport != "rdma":
		return cluster.Fail(400, "invalid transport. Supported values: tcp or rdma")
	case r.Size > 0 && r.Size < minSize:
		return cluster.Fail(400, "invalid Volume Size, Minimum size required is %d", minSize)
	case r.Size == 0 && len(r.Subvols) == 0:
		return cluster.Fail(400, noBricks)
	}
	for _, s := range r.Subvols {
		if len(s.Bricks) == 0 {
			return cluster.Fail(400, noBricks)
		}
	}
	if cluster.TooLarge(r.Metadata) {
		return cluster.Fail(400, tooLarge)
	}
	return checkFlags(r.Flags)
}

const (
	noBricks  = "brick list is empty"
	duplicate = "duplicate brick entry"
)

func checkFlags(flags map[string]bool) *cluster.Failure {
	for k := range flags {
		switch k {
		case "reuse-bricks", "allow-root-dir", "allow-mount-as-brick", "create-brick-dir":
		default:
			return cluster.Fail(400, "volume flag not supported %s", k)
		}
	}
	return nil
}

// distinct refuses bricks that are named twice.
func distinct(bricks []BrickRequest) *cluster.Failure {
	seen := map[string]bool{}
	for _, b := range bricks {
		key := b.Peer + filepath.Clean(b.Path)
		if seen[key] {
			return cluster.Fail(400, duplicate)
		}
		seen[key] = true
	}
	return nil
}

func (r *CreateRequest) bricks() []BrickRequest {
	var out []BrickRequest
	for _, s := range r.Subvols {
		out = append(out, s.Bricks...)
	}
	return out
}

// peersOf returns the peers of bricks, each once.
func peersOf(bricks []BrickRequest) ([]string, *cluster.Failure) {
	var out []string
	seen := map[string]bool{}
	for _, b := range bricks {
		if uuid.Validate(b.Peer) != nil {
			return nil, cluster.Fail(400, "failed to parse peer ID: %s", b.Peer)
		}
		if !seen[b.Peer] {
			seen[b.Peer] = true
			out = append(out, b.Peer)
		}
	}
	return out, nil
}

// Levels are the levels of options that a request allows.
type Levels struct {
	Advanced     bool `json:"allow-advanced-options"`
	Experimental bool `json:"allow-experimental-options"`
	Deprecated   bool `json:"allow-deprecated-options"`
}

func (l Levels) flags() option.Flags { return option.Flags(l) }
