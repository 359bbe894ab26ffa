// Package san does the controller's part on an iSCSI target with one agent: it logs in, registers, makes the group of one LUN, and changes it. There is
// nobody else: what a controller has on record, and waits for, is left out.
package san

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	"quarry.storage/quarry/pkg/sharedlun"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const (
	// nodeKey is what the node registers, and firstEpoch what it changes the group by: a controller would grant both.
	nodeKey    = 0xbe4c000000000001
	firstEpoch = 1
	// callTimeout bounds one call, lunTimeout how long the LUNs of a session may take to have devices.
	callTimeout = sharedlun.DeviceTimeout
	lunTimeout  = 30 * time.Second
	lunPause    = 300 * time.Millisecond
)

// Target is what an agent logs in to. Everything on its LUNs is lost.
type Target struct {
	IQN string
	// Portals are ADDRESS:PORT.
	Portals []string
	// Luns is how many there are.
	Luns int
}

// Config says who works on what.
type Config struct {
	// Conn leads to the agent, and Node is the name that it was started with.
	Conn *grpc.ClientConn
	Node string
	// OwnerUID stands for the Iscsi that owns the group.
	OwnerUID string
	Target   Target
}

// Client works on the target through one agent. Its calls follow each other.
type Client struct {
	cfg    Config
	target *agentv1.Target
	luns   []*agentv1.Lun
	// group is as the last change left it.
	group      *agentv1.SharedGroup
	registered bool
}

// New makes a Client that has done nothing yet.
func New(cfg Config) *Client {
	return &Client{cfg: cfg, target: &agentv1.Target{Iqn: cfg.Target.IQN, Portals: cfg.Target.Portals}}
}

// Devices are those of the LUNs, by number, once the client is logged in.
func (c *Client) Devices() []string {
	var out []string
	for _, l := range c.luns {
		out = append(out, "/dev/"+l.GetDevice())
	}
	return out
}

// Login makes the sessions, and waits until all LUNs have their devices.
func (c *Client) Login(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	iscsi := agentv1.NewIscsiServiceClient(c.cfg.Conn)
	resp, err := iscsi.Login(ctx, &agentv1.LoginRequest{Target: c.target})
	if err != nil {
		return fmt.Errorf("log in to %s: %w", c.target.GetIqn(), err)
	}
	luns := resp.GetLuns()
	for end := time.Now().Add(lunTimeout); !c.allThere(luns); time.Sleep(lunPause) {
		if time.Now().After(end) {
			return fmt.Errorf("target %s shows no %d LUNs with devices: %v", c.target.GetIqn(), c.cfg.Target.Luns, luns)
		}
		seen, err := iscsi.GetTarget(ctx, &agentv1.GetTargetRequest{Target: c.target})
		if err != nil {
			return fmt.Errorf("look at %s: %w", c.target.GetIqn(), err)
		}
		luns = seen.GetLuns()
	}
	c.luns = luns
	return nil
}

// allThere reports whether every LUN of the target is seen with its identity and a device.
func (c *Client) allThere(luns []*agentv1.Lun) bool {
	return len(luns) == c.cfg.Target.Luns && !slices.ContainsFunc(luns, func(l *agentv1.Lun) bool {
		return l.GetDevice() == "" || l.GetIdentity().GetWwid() == "" || l.GetIdentity().GetSizeBytes() == 0
	})
}

// Register has the node be the only one that may write to the first LUN.
func (c *Client) Register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	initiator, err := agentv1.NewIscsiServiceClient(c.cfg.Conn).GetInitiator(ctx, &agentv1.GetInitiatorRequest{})
	if err != nil {
		return fmt.Errorf("initiator: %w", err)
	}
	_, err = agentv1.NewSharedLunServiceClient(c.cfg.Conn).Register(ctx, &agentv1.RegisterRequest{
		Lun: c.lun(), Key: nodeKey, BootId: initiator.GetBootId(), InitiatorName: initiator.GetName(), Reserve: true,
	})
	if err != nil {
		return fmt.Errorf("register on LUN %s: %w", c.lun().GetWwid(), err)
	}
	c.registered = true
	return nil
}

// lun is the first one, on which the group is.
func (c *Client) lun() *agentv1.LunIdentity { return c.luns[0].GetIdentity() }

func (c *Client) groups() agentv1.SharedGroupServiceClient {
	return agentv1.NewSharedGroupServiceClient(c.cfg.Conn)
}

func (c *Client) ref() *agentv1.SharedGroupRef {
	return &agentv1.SharedGroupRef{Lun: c.lun(), OwnerUid: c.cfg.OwnerUID, Uuid: c.group.GetUuid()}
}

func (c *Client) credential() *agentv1.Credential { return &agentv1.Credential{Key: nodeKey} }

func (c *Client) mandate() *agentv1.Mandate {
	return &agentv1.Mandate{Epoch: firstEpoch, Credential: c.credential(), TimeoutMilliseconds: sharedlun.ChangeTimeout.Milliseconds()}
}

// MakeGroup makes the group on the first LUN.
func (c *Client) MakeGroup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.groups().CreateSharedGroup(ctx, &agentv1.CreateSharedGroupRequest{
		Group: c.ref(), Mandate: c.mandate(), Name: sharedlun.GroupName(c.cfg.OwnerUID),
	})
	if err != nil {
		return fmt.Errorf("make the group on LUN %s: %w", c.lun().GetWwid(), err)
	}
	c.group = resp.GetGroup()
	return nil
}

// Leave takes away what the agent made on the target, as far as it came.
func (c *Client) Leave(ctx context.Context) error {
	var errs []error
	step := func(what string, call func(context.Context) error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if err := call(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	if c.group != nil {
		errs = append(errs, c.removeAll(ctx))
		step("remove the group", func(ctx context.Context) error {
			_, err := c.groups().RemoveSharedGroup(ctx, &agentv1.RemoveSharedGroupRequest{Group: c.ref(), Mandate: c.mandate()})
			return err
		})
	}
	if c.registered {
		step("take the key off", func(ctx context.Context) error {
			_, err := agentv1.NewSharedLunServiceClient(c.cfg.Conn).Unregister(ctx, &agentv1.UnregisterRequest{Lun: c.lun(), Key: nodeKey, Last: true})
			return err
		})
	}
	step("log out", func(ctx context.Context) error {
		_, err := agentv1.NewIscsiServiceClient(c.cfg.Conn).Logout(ctx, &agentv1.LogoutRequest{Target: c.target})
		return err
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("leave target %s: %w", c.target.GetIqn(), err)
	}
	return nil
}
