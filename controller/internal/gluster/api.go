package gluster

import "context"

// API is what a controller needs of one glusterd2. Server is the one that asks; tests of what is above it bring their own.
type API interface {
	Address() string
	Identify(ctx context.Context) (Identity, error)

	Peers(ctx context.Context) ([]Peer, error)
	PeerGone(ctx context.Context, id string) (bool, error)
	AddPeer(ctx context.Context, addresses []string, zone string, metadata map[string]string) (Peer, error)
	EditPeer(ctx context.Context, id, zone string, metadata map[string]string) error
	RemovePeer(ctx context.Context, id string) error

	Devices(ctx context.Context, peer string) ([]Device, error)
	AddDevice(ctx context.Context, peer, device string) error
	EnableDevice(ctx context.Context, peer, device string, enabled bool) error

	Volumes(ctx context.Context) ([]Volume, error)
	Volume(ctx context.Context, name string) (Volume, error)
	Bricks(ctx context.Context, volume string) ([]BrickStatus, error)
	Heal(ctx context.Context, volume string) ([]BrickHeal, error)
	StartHeal(ctx context.Context, volume string) error
	ReplaceBrick(ctx context.Context, r Replacement) error
	Snapshots(ctx context.Context) ([]Snapshot, error)

	ClusterOptions(ctx context.Context) (map[string]ClusterOption, error)
	SetClusterOptions(ctx context.Context, options map[string]string) error
	VolumeOption(ctx context.Context, volume, option string) (string, error)
	SetVolumeOptions(ctx context.Context, volume string, options map[string]string) error
}

var _ API = (*Server)(nil)
