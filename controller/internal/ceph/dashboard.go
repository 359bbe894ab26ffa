package ceph

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"quarry.storage/quarry/pkg/cephname"
)

// dashboardKey is where Ceph keeps the key of the dashboard's certificate. It writes the certificate first.
const dashboardKey = "mgr/dashboard/key"

// dashboardRole lets its user look, but for keys and options of Ceph, and change nothing but the own password.
const dashboardRole = "read-only"

// KnowsDashboard reports whether the active manager performs the commands of the dashboard. It does so a while after its module was switched on: it starts anew for it.
func (c *Client) KnowsDashboard(ctx context.Context) (bool, error) {
	_, err := c.run(ctx, "dashboard", "ac-user-show")
	if errors.Is(err, ErrRefused) || code(err) == syscall.EOPNOTSUPP {
		return false, nil
	}
	return err == nil, err
}

// ServeDashboard has the dashboard take a user, who may only look, with a password, and has Ceph make a certificate for it. A certificate that is there stays: it may be a
// person's. The roles of a user that is there stay as well. What Ceph refuses is ErrRefused. A manager that does not know the commands any more, as another one has just become active, is
// ErrUnreachable.
func (c *Client) ServeDashboard(ctx context.Context, user string, password []byte) error {
	if err := c.Verify(ctx); err != nil {
		return err
	}
	err := c.tellDashboard(ctx, user, password)
	if err == nil || errors.Is(err, ErrUnreachable) {
		return err
	}
	if knows, asking := c.KnowsDashboard(ctx); asking != nil || !knows {
		return fmt.Errorf("%w: the active manager does not know its dashboard: %s", ErrUnreachable, err.Error())
	}
	return err
}

func (c *Client) tellDashboard(ctx context.Context, user string, password []byte) error {
	if _, err := c.run(ctx, "config-key", "exists", dashboardKey); code(err) == syscall.ENOENT {
		if _, err := c.run(ctx, cephname.ModuleDashboard, "create-self-signed-cert"); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if _, err := c.feed(ctx, password, cephname.ModuleDashboard, "ac-user-create", user, dashboardRole); err != nil {
		return err
	}
	// A user that is there already keeps its password at that.
	_, err := c.feed(ctx, password, cephname.ModuleDashboard, "ac-user-set-password", user)
	return err
}

// code returns the errno that a command ended with; 0 if it is not known that it ended.
func code(err error) syscall.Errno {
	if e, is := errors.AsType[*Error](err); is {
		return syscall.Errno(e.ExitCode)
	}
	return 0
}
