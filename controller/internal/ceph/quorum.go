package ceph

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide/ceph"
)

// quorumStatus is the answer to quorum_status.
type quorumStatus struct {
	QuorumNames []string `json:"quorum_names"`
	MonMap      struct {
		FSID          string `json:"fsid"`
		MinMonRelease int    `json:"min_mon_release"`
		Mons          []struct {
			Name        string `json:"name"`
			PublicAddrs struct {
				AddrVec []struct {
					Addr string `json:"addr"`
				} `json:"addrvec"`
			} `json:"public_addrs"`
		} `json:"mons"`
	} `json:"monmap"`
}

// quorum reads the map of the monitors. A monitor that is in no quorum does not answer this.
func (c *Client) quorum(ctx context.Context) (ceph.Quorum, error) {
	var s quorumStatus
	if err := c.ask(ctx, &s, "quorum_status"); err != nil {
		return ceph.Quorum{}, err
	}
	if err := c.check(s.MonMap.FSID); err != nil {
		return ceph.Quorum{}, err
	}
	q := ceph.Quorum{MinRelease: s.MonMap.MinMonRelease}
	for _, m := range s.MonMap.Mons {
		monitor := ceph.Monitor{Name: m.Name, In: slices.Contains(s.QuorumNames, m.Name)}
		if at := m.PublicAddrs.AddrVec; len(at) > 0 {
			monitor.Address = ip(at[0].Addr)
		}
		q.Monitors = append(q.Monitors, monitor)
	}
	if len(q.Monitors) == 0 || q.MinRelease == 0 || len(s.QuorumNames) <= len(q.Monitors)/2 {
		return ceph.Quorum{}, fmt.Errorf("quorum_status tells of %d of %d monitors, release %d", len(s.QuorumNames), len(q.Monitors), q.MinRelease)
	}
	return q, nil
}

// ip is the address without its port; empty for what is none.
func ip(at string) string {
	return strings.Trim(at[:max(0, strings.LastIndexByte(at, ':'))], "[]")
}

// groupStatus is what the answer to status has about placement groups.
type groupStatus struct {
	PGMap *struct {
		NumPGs      int `json:"num_pgs"`
		PGsByStates []struct {
			StateName string `json:"state_name"`
			Count     int    `json:"count"`
		} `json:"pgs_by_state"`
		DegradedObjects  int64 `json:"degraded_objects"`
		MisplacedObjects int64 `json:"misplaced_objects"`
		// Ceph tells of it only while there is something to tell.
		Recovering int64 `json:"recovering_objects_per_sec"`
	} `json:"pgmap"`
	MgrMap *struct {
		Available bool `json:"available"`
	} `json:"mgrmap"`
}

// groups reads the state of the placement groups. It comes from the manager: without one the monitors go on saying what the last one said.
func (c *Client) groups(ctx context.Context) (*ceph.Groups, error) {
	var s groupStatus
	if err := c.ask(ctx, &s, "status"); err != nil {
		return nil, err
	}
	if s.PGMap == nil || s.MgrMap == nil {
		return nil, fmt.Errorf("status has no pgmap, or no mgrmap")
	}
	if !s.MgrMap.Available {
		return nil, fmt.Errorf("placement groups: no manager is active: %w", ErrUnreachable)
	}
	g := ceph.Groups{Total: s.PGMap.NumPGs, Misplaced: s.PGMap.MisplacedObjects, Degraded: s.PGMap.DegradedObjects, Recovering: s.PGMap.Recovering}
	told := 0
	for _, state := range s.PGMap.PGsByStates {
		told += state.Count
		switch active, clean := states(state.StateName); {
		case !active:
			g.Inactive += state.Count
		case clean:
			g.Clean += state.Count
		}
		if undersized(state.StateName) {
			g.Undersized += state.Count
		}
		if short(state.StateName) {
			g.Short += state.Count
		}
	}
	if told != g.Total {
		return nil, fmt.Errorf("status tells of %d of %d placement groups", told, g.Total)
	}
	return &g, nil
}
