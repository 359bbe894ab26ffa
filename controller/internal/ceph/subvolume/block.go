package subvolume

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"time"
)

// Block keeps all clients at an address from reading and writing for some time. What they had not written yet is lost to them. The time runs anew if the
// address is blocked already. Daemons at the address are clients, too: nothing but a node that is off may be blocked.
func (c *Client) Block(ctx context.Context, node netip.Addr, lasting time.Duration) error {
	_, err := c.ceph.Run(ctx, "osd", "blocklist", "add", node.Unmap().String(), strconv.Itoa(int(lasting.Seconds())))
	return err
}

// Unblock ends that. An address that is not blocked is no error.
func (c *Client) Unblock(ctx context.Context, node netip.Addr) error {
	_, err := c.ceph.Run(ctx, "osd", "blocklist", "rm", node.Unmap().String())
	return err
}

// Blocked returns the addresses all of whose clients are blocked now. Single clients that Ceph blocked itself are not among them.
func (c *Client) Blocked(ctx context.Context) ([]netip.Addr, error) {
	out, err := c.ceph.Run(ctx, "osd", "blocklist", "ls")
	if err != nil {
		return nil, err
	}
	// Two lists follow each other: of addresses, and of ranges.
	var list *[]struct {
		Address string `json:"addr"`
	}
	if err := json.NewDecoder(bytes.NewReader(out)).Decode(&list); err != nil {
		return nil, fmt.Errorf("ceph osd blocklist ls: %w", err)
	}
	if list == nil {
		return nil, fmt.Errorf("ceph osd blocklist ls prints no list")
	}
	var nodes []netip.Addr
	for _, b := range *list {
		whole, err := wholeNode(b.Address)
		if err != nil {
			return nil, err
		}
		if whole.IsValid() {
			nodes = append(nodes, whole)
		}
	}
	return nodes, nil
}

// wholeNode returns the address of an entry that is about all clients there; the zero address for one that is about one client.
func wholeNode(entry string) (netip.Addr, error) {
	host, nonce, ok := bytes.Cut([]byte(entry), []byte("/"))
	at, err := netip.ParseAddrPort(string(host))
	if !ok || err != nil {
		return netip.Addr{}, fmt.Errorf("ceph osd blocklist ls has the address %.60q", entry)
	}
	if at.Port() != 0 || string(nonce) != "0" {
		return netip.Addr{}, nil
	}
	return at.Addr().Unmap(), nil
}
