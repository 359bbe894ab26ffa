package cephtest

import (
	"slices"
	"strings"
)

// notSupported is EOPNOTSUPP.
const notSupported = 95

// Dashboard is what is kept of the dashboard, whether its module is on or not.
type Dashboard struct {
	// Certificate is made, or somebody brought one.
	Certificate bool
	// Users by name.
	Users map[string]DashboardUser
	// Weak has every password refused, as a rule for passwords can.
	Weak bool
}

// DashboardUser is a user of the dashboard.
type DashboardUser struct{ Password, Role string }

// modules are those that a manager has unless the model lacks them.
func (c *Cluster) modules() []string {
	return slices.DeleteFunc([]string{"dashboard", "prometheus"}, func(m string) bool { return slices.Contains(c.Lacks, m) })
}

// module switches a module on or off.
func (c *Cluster) module(on bool) act {
	return func(args []string) (any, int, string) {
		if on && !slices.Contains(c.modules(), args[0]) {
			return nil, enoent, "Error ENOENT: all mgr daemons do not support module '" + args[0] + "', pass --force to force enablement"
		}
		if c.Modules == nil {
			c.Modules = map[string]bool{}
		}
		c.Modules[args[0]] = on
		return nil, 0, ""
	}
}

// services are where the modules of the active manager serve something.
func (c *Cluster) services() object {
	out := object{}
	if c.Modules["dashboard"] && c.Dashboard.Certificate && len(c.Managers) > 0 {
		out["dashboard"] = "https://10.99.0.1:8443/"
	}
	return out
}

// onDashboard performs a command of the dashboard, which only a manager knows whose module is on.
func (c *Cluster) onDashboard(do act) act {
	return func(args []string) (any, int, string) {
		if !c.Modules["dashboard"] || c.Starting {
			asked := strings.Join(c.calls[len(c.calls)-1][:2], " ")
			return nil, notSupported, "Error ENOTSUP: Module 'dashboard' is not enabled (required by command '" + asked + "'): use `ceph mgr module enable dashboard` to enable it"
		}
		return do(args)
	}
}

// showUsers names the users.
func (c *Cluster) showUsers([]string) (any, int, string) {
	names := []string{}
	for name := range c.Dashboard.Users {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, 0, ""
}

func (c *Cluster) certificate([]string) (any, int, string) {
	c.Dashboard.Certificate = true
	return nil, 0, "Self-signed certificate created"
}

// password is what a command reads; the second result is what is said about one that is not taken.
func (c *Cluster) password() (string, string) {
	given := strings.TrimRight(string(c.input), "\r\n")
	switch {
	case given == "":
		return "", "Error EINVAL: Input file not specified: Please specify the file containing password/secret with \"-i\" option"
	case len(given) < 8 || c.Dashboard.Weak:
		return "", "Error EINVAL: Password is too weak."
	}
	return given, ""
}

// createUser leaves a user that is there as it is.
func (c *Cluster) createUser(args []string) (any, int, string) {
	password, refused := c.password()
	if refused != "" {
		return nil, einval, refused
	}
	if len(args) != 2 || !slices.Contains([]string{"administrator", "read-only"}, args[1]) {
		return nil, enoent, "Error ENOENT: Role '" + strings.Join(args[min(1, len(args)):], " ") + "' does not exist"
	}
	if _, there := c.Dashboard.Users[args[0]]; there {
		return nil, 0, ""
	}
	if c.Dashboard.Users == nil {
		c.Dashboard.Users = map[string]DashboardUser{}
	}
	c.Dashboard.Users[args[0]] = DashboardUser{password, args[1]}
	return object{"username": args[0], "roles": []string{args[1]}}, 0, ""
}

func (c *Cluster) setPassword(args []string) (any, int, string) {
	u, there := c.Dashboard.Users[args[0]]
	if !there {
		return nil, enoent, "Error ENOENT: User '" + args[0] + "' does not exist"
	}
	password, refused := c.password()
	if refused != "" {
		return nil, einval, refused
	}
	u.Password = password
	c.Dashboard.Users[args[0]] = u
	return object{"username": args[0], "roles": []string{u.Role}}, 0, ""
}

// keyExists knows the key of the dashboard's certificate alone.
func (c *Cluster) keyExists(args []string) (any, int, string) {
	if !slices.Equal(args, []string{"mgr/dashboard/key"}) || !c.Dashboard.Certificate {
		return nil, enoent, "Error ENOENT: key '" + strings.Join(args, " ") + "' doesn't exist"
	}
	return nil, 0, "key '" + args[0] + "' exists"
}

// secret fails the test if a command has a password among its words, or reads something that it does not use.
func (c *Cluster) secret(args []string, input []byte) {
	line := strings.Join(args, " ")
	reads := strings.HasPrefix(line, "dashboard ac-user-create ") || strings.HasPrefix(line, "dashboard ac-user-set-password ")
	if reads != (len(input) > 0) {
		c.t.Errorf("ceph %s: it reads %d bytes", line, len(input))
	}
	for _, u := range c.Dashboard.Users {
		if strings.Contains(line, u.Password) {
			c.t.Errorf("a password is among the words of a command")
		}
	}
}
