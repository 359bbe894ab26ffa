package subvolume

import (
	"context"
	"fmt"

	"quarry.storage/quarry/pkg/cephname"
)

// Room returns how many bytes can be written to volumes yet, the copies that Ceph keeps taken into account. It fails where the pool of the volumes is not told of.
func (c *Client) Room(ctx context.Context) (bytes int64, err error) {
	var d struct {
		Pools []struct {
			Name  string `json:"name"`
			Stats struct {
				MaxAvail *int64 `json:"max_avail"`
			} `json:"stats"`
		} `json:"pools"`
	}
	if err := c.ceph.Ask(ctx, &d, "df"); err != nil {
		return 0, err
	}
	for _, p := range d.Pools {
		if p.Name == cephname.PoolData && p.Stats.MaxAvail != nil {
			return max(0, *p.Stats.MaxAvail), nil
		}
	}
	return 0, fmt.Errorf("df does not tell of pool %s", cephname.PoolData)
}
