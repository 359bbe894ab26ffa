package ceph

import (
	"context"
	"errors"
	"slices"
	"time"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/subvolume"
	"quarry.storage/quarry/controller/internal/decide/backend"
	decideceph "quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

const (
	// young is how long what Ceph said stands while something is under way, calm while nothing is. Steps are decided on nothing that is older than stale.
	young = 5 * time.Second
	calm  = 30 * time.Second
	stale = 2 * time.Minute
	// question bounds all commands of one question.
	question = 90 * time.Second
	// command bounds one command, and the start of the program that performs it: on a node that has much to do that takes a quarter of a minute.
	command = 40 * time.Second
	// relist is how long a list of the volumes stands for whoever compares them with PersistentVolumes. Only one that is not of this moment may be compared: a list anew with each question would never
	// become old enough while something is under way.
	relist = 20 * time.Second
	// resting bounds all that is asked only to let more OSDs go at once. Fences wait for the end of a question; a drain that gets no answer waits for the next one.
	resting = 10 * time.Second
)

// ask has Ceph asked, unless what it said is young or it is being asked, waits a moment for that, and puts what is known into an observation.
func (b *Backend) ask(ctx context.Context, c *v1alpha1.Cluster, members []*v1alpha1.Member, k *known, quiet bool, o *view.Observation) {
	monitors := false
	for _, d := range o.Workloads.Daemons {
		monitors = monitors || d.Kind == cephname.DaemonMonitor
	}
	done := b.begin(ctx, c, members, k, quiet, monitors, *o)
	if done != nil {
		patience := time.NewTimer(b.Patience)
		defer patience.Stop()
		select {
		case <-done:
		case <-patience.C:
		case <-ctx.Done():
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	o.Ceph, o.Asking, o.FailedOver = k.told, k.problem, k.failedOver
	o.Current = k.told != nil && k.problem == "" && k.seen == k.changes && b.Now().Sub(k.told.At) < stale
	if !o.Current && o.Asking == "" {
		o.Asking = view.BeingAsked
	}
	if !monitors {
		o.Asking = "No monitor is deployed."
	}
}

// begin starts a question if one is due, and returns what is closed when the one that is under way is over; nil when none is.
func (b *Backend) begin(ctx context.Context, c *v1alpha1.Cluster, members []*v1alpha1.Member, k *known, quiet, monitors bool, o view.Observation) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	age := b.Young
	// Before a Cluster was deleted nobody had to ask which volumes it has.
	if quiet && (c.DeletionTimestamp.IsZero() || k.asked.After(c.DeletionTimestamp.Time)) {
		age = calm
	}
	switch {
	case k.done != nil:
		return k.done
	case !monitors, k.seen == k.changes && !k.asked.IsZero() && b.Now().Sub(k.asked) < age:
		return nil
	}
	done := make(chan struct{})
	k.done, k.asked = done, b.Now()
	// The engine goes on with both objects, and writes to them, while Ceph is being asked.
	c = c.DeepCopy()
	changes, about := k.changes, topics{copied(members), view.Hosts(o), view.Outdated(o), view.AsksDashboard(o), k.told}
	go func() {
		// The look that began it may be over before.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), question)
		defer cancel()
		told, err := b.question(ctx, c, about)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.done, k.problem = nil, ""
		if told != nil && told.Quorum != nil {
			k.told, k.seen = told, changes
		} else if err != nil {
			k.problem = backend.Cut(err.Error(), 512)
		}
		close(done)
	}()
	return done
}

// topics are what Ceph is asked about besides what it is always asked: OSDs on record, hosts, OSDs whose Deployments are to be others, and whether the dashboard can be told who may use it. last is what it said last; nil
// when it said nothing yet.
type topics struct {
	members   []*v1alpha1.Member
	hosts     []decideceph.Host
	outdated  []int
	dashboard bool
	last      *view.Told
}

// question asks Ceph all that the decisions need. What could not be read is unknown in the answer.
func (b *Backend) question(ctx context.Context, c *v1alpha1.Cluster, about topics) (*view.Told, error) {
	client, err := b.client(c.FSID())
	if err != nil {
		return nil, err
	}
	told := &view.Told{At: b.Now()}
	told.Facts, err = client.Facts(ctx)
	if told.Quorum == nil {
		return told, err
	}
	if ids := append(stopping(about.members, told.Map), first(about.outdated, told.Map)...); len(ids) > 0 && told.Daemons != nil {
		// The whole is asked again with those OSDs: an answer about them alone could be of another moment.
		told.Facts, err = client.Facts(ctx, ids...)
	}
	overview, overviewErr := client.Overview(ctx)
	told.Health, told.Checks, told.Filesystem = overview.Health, overview.Checks, overview.Filesystem
	told.TotalBytes, told.AvailableBytes = overview.TotalBytes, overview.AvailableBytes
	blocked, blockedErr := b.blocked(ctx, client)
	told.Blocked = blocked
	err = errors.Join(err, overviewErr, blockedErr)
	if told.Filesystem == decideceph.Yes && told.Daemons != nil {
		err = errors.Join(err, b.group(ctx, c, client, told))
	}
	if about.dashboard && told.Daemons != nil {
		told.Commands = commands(ctx, client, *told.Daemons)
	}
	if told.Map != nil && told.Groups != nil {
		err = errors.Join(err, rest(ctx, client, about.hosts, told))
	}
	if told.Group == decideceph.Yes && c.DeletionTimestamp.IsZero() {
		err = errors.Join(err, b.present(ctx, client, about.last, told))
	}
	if err != nil {
		told.Problem = err.Error()
	}
	return told, err
}

// rest asks which host may have all of its OSDs stopped. It comes last: everything else is known if the manager hangs.
func rest(ctx context.Context, client *ceph.Client, hosts []decideceph.Host, told *view.Told) (err error) {
	ctx, cancel := context.WithTimeout(ctx, resting)
	defer cancel()
	told.Rest, err = client.Rest(ctx, *told.Map, decideceph.Resting(hosts, *told.Map)...)
	return err
}

// present lists the volumes, which PersistentVolumes are compared with, unless they were listed a moment ago. Nothing else waits for that either. A list that cannot be had anew stands until it is too old.
func (b *Backend) present(ctx context.Context, client *ceph.Client, last, told *view.Told) error {
	if last != nil && last.Volumes != nil {
		told.Volumes, told.Listed = last.Volumes, last.Listed
		if b.Now().Sub(last.Listed) < relist {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, resting)
	defer cancel()
	volumes, err := subvolume.Open(ctx, client)
	if err != nil {
		return err
	}
	at := b.Now()
	names, err := volumes.Names(ctx)
	if err != nil {
		return err
	}
	told.Volumes, told.Listed = &names, at
	return nil
}

// commands finds out whether the manager that is active knows the commands of the dashboard. One that does not answer is no problem of anything else.
func commands(ctx context.Context, client *ceph.Client, daemons []decideceph.Daemon) decideceph.Answer {
	if !slices.ContainsFunc(daemons, func(d decideceph.Daemon) bool { return d.Kind == cephname.DaemonManager && d.Active }) {
		return decideceph.Unknown
	}
	switch knows, err := client.KnowsDashboard(ctx); {
	case err != nil:
		return decideceph.Unknown
	case knows:
		return decideceph.Yes
	}
	return decideceph.No
}

// first is the first OSD of some that is up; none if none is. Only one gets another Deployment at a time, and Ceph need not be asked about the others.
func first(ids []int, m *decideceph.Map) []int {
	for _, id := range ids {
		if m != nil && slices.ContainsFunc(m.OSDs, func(o decideceph.OSD) bool { return o.ID == id && o.Up }) {
			return []int{id}
		}
	}
	return nil
}

// stopping are the OSDs that may be to be stopped: those of hosts that leave, and those that were given up and run again.
func stopping(members []*v1alpha1.Member, m *decideceph.Map) []int {
	if m == nil {
		return nil
	}
	var out []int
	for _, member := range members {
		if member.Spec.Ceph == nil {
			continue
		}
		for _, r := range member.Spec.Ceph.OSDs {
			if member.DeletionTimestamp.IsZero() && !r.Replaced {
				continue
			}
			for _, o := range m.OSDs {
				if o.UUID == r.UUID && o.Up {
					out = append(out, o.ID)
				}
			}
		}
	}
	return out
}

// group looks for the group of the volumes, and for volumes in it while the Cluster is being deleted. Without a metadata server that serves Ceph would wait for ever.
func (b *Backend) group(ctx context.Context, c *v1alpha1.Cluster, client *ceph.Client, told *view.Told) error {
	active := false
	for _, d := range *told.Daemons {
		active = active || d.Kind == cephname.DaemonMetadata && d.Active
	}
	if !active {
		return nil
	}
	volumes, err := subvolume.Open(ctx, client)
	if err != nil {
		return err
	}
	there, err := client.HasGroup(ctx)
	if err != nil {
		return err
	}
	told.Group = decideceph.No
	if there {
		told.Group = decideceph.Yes
	}
	if c.DeletionTimestamp.IsZero() {
		return nil
	}
	names := []string{}
	if there {
		if names, err = volumes.Names(ctx); err != nil {
			return err
		}
	}
	told.Subvolumes = &names
	return nil
}
