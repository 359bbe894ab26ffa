//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// cephOSD is an OSD as "ceph osd dump" shows it.
type cephOSD struct {
	ID     int `json:"osd"`
	UUID   string
	Up, In int
	State  []string
}

// cephMap is what "ceph osd dump" says, as far as the journeys look at it.
type cephMap struct {
	OSDs  []cephOSD
	Pools []struct {
		Name  string `json:"pool_name"`
		Flags string `json:"flags_names"`
	}
	HostFlags map[string][]string `json:"crush_node_flags"`
	// Blocklist has until when the clients at an address are blocked.
	Blocklist map[string]string
}

func mapOf(ctx context.Context, c *v1alpha1.Cluster) (m cephMap, err error) {
	err = askCeph(ctx, c, []question{{Prefix: "osd dump"}}, &m)
	return m, err
}

// byUUID finds an OSD; nil when Ceph does not know it.
func (m cephMap) byUUID(uuid string) *cephOSD {
	i := slices.IndexFunc(m.OSDs, func(o cephOSD) bool { return o.UUID == uuid })
	if i < 0 {
		return nil
	}
	return &m.OSDs[i]
}

// count is how many OSDs are up, and in.
func (m cephMap) count() (up, in int) {
	for _, o := range m.OSDs {
		up, in = up+o.Up, in+o.In
	}
	return up, in
}

// safety is in which of its lists "ceph osd safe-to-destroy" has an OSD, and the map of that time.
func safety(ctx context.Context, c *v1alpha1.Cluster, id int) (list string, m cephMap, err error) {
	var lists map[string][]int
	err = askCeph(ctx, c, []question{{Prefix: "osd dump"}, {Prefix: "osd safe-to-destroy", IDs: []string{strconv.Itoa(id)}}}, &m, &lists)
	if err != nil {
		return "", m, err
	}
	for name, ids := range lists {
		if slices.Contains(ids, id) {
			return name, m, nil
		}
	}
	return "", m, fmt.Errorf("osd.%d is in no list of %v", id, lists)
}

// recordOf finds the OSD of a disk on the record of a Member, by the kernel name of the disk.
func recordOf(ctx context.Context, c *v1alpha1.Cluster, d *disk) (v1alpha1.MemberOSD, error) {
	n, err := getNode(ctx, d.node)
	if err != nil {
		return v1alpha1.MemberOSD{}, err
	}
	m, err := memberOf(ctx, c.Name, d.node)
	if err != nil {
		return v1alpha1.MemberOSD{}, err
	}
	device := deviceOf(n, d.kernelName())
	if device == nil || m.Spec.Ceph == nil {
		return v1alpha1.MemberOSD{}, fmt.Errorf("disk %s: %+v, record %+v", d.device, device, m.Spec.Ceph)
	}
	for _, o := range m.Spec.Ceph.OSDs {
		if string(o.Path) == device.Path {
			return o, nil
		}
	}
	return v1alpha1.MemberOSD{}, fmt.Errorf("no OSD is on record for %s (%s): %v", d.device, strings.Join(refusals(device), ", "), m.Spec.Ceph.OSDs)
}

// waitServing waits until the OSD of a disk serves, and returns it.
func waitServing(t *testing.T, c *v1alpha1.Cluster, d *disk) cephOSD {
	t.Helper()
	var found cephOSD
	eventually(t, limitCeph, "the OSD of "+d.device+" on "+d.node+" serves", func(ctx context.Context) error {
		r, err := recordOf(ctx, c, d)
		if err != nil {
			return err
		}
		m, err := mapOf(ctx, c)
		if err != nil {
			return err
		}
		o := m.byUUID(r.UUID)
		if o == nil || o.Up != 1 || o.In != 1 {
			return fmt.Errorf("%+v", o)
		}
		found = *o
		return nil
	})
	return found
}

// waitCopies waits until every placement group has all of its copies where they belong.
func waitCopies(t *testing.T, c *v1alpha1.Cluster) {
	t.Helper()
	eventually(t, 6*time.Minute, "every placement group is clean", func(ctx context.Context) error {
		var s struct {
			PGMap struct {
				Total  int `json:"num_pgs"`
				States []struct {
					Name  string `json:"state_name"`
					Count int
				} `json:"pgs_by_state"`
			}
		}
		if err := askCeph(ctx, c, []question{{Prefix: "status"}}, &s); err != nil {
			return err
		}
		clean := 0
		for _, state := range s.PGMap.States {
			damaged := slices.ContainsFunc([]string{"inconsistent", "failed_repair", "snaptrim_error"}, func(word string) bool { return strings.Contains(state.Name, word) })
			if strings.HasPrefix(state.Name, "active+clean") && !damaged {
				clean += state.Count
			}
		}
		if clean == 0 || clean != s.PGMap.Total {
			return fmt.Errorf("%+v", s.PGMap)
		}
		return nil
	})
}

// waitDown waits until Ceph says that an OSD is down.
func waitDown(t *testing.T, c *v1alpha1.Cluster, o cephOSD) {
	t.Helper()
	eventually(t, 5*time.Minute, fmt.Sprintf("osd.%d is down", o.ID), func(ctx context.Context) error {
		m, err := mapOf(ctx, c)
		if err != nil {
			return err
		}
		if now := m.byUUID(o.UUID); now == nil || now.Up == 1 {
			return fmt.Errorf("%+v", now)
		}
		return nil
	})
}

// waitsOf are the sentences of a Cluster about what it waits for.
func waitsOf(c *v1alpha1.Cluster) string {
	if c.Status.Ceph == nil {
		return ""
	}
	return strings.Join(c.Status.Ceph.Waits, " ")
}

// TestCephFSDeadOSD goes through what happens to disks and hosts, with one Cluster, since its making takes ten minutes, and while a pod writes: a disk dies and is replaced, a disk is pulled and put back, a host is off
// during its maintenance, and a host leaves. Nothing that was written is lost.
func TestCephFSDeadOSD(t *testing.T) {
	needCeph(t)
	host := nodes[2]
	pulled, fresh := plug(t, host, newImage(t, "pulled", 2<<30), "scsi"), &disk{node: host, image: newImage(t, "fresh", 2<<30)}
	// It goes after the Cluster, which has an OSD on it by then. Its name is another one after the boot of its host.
	t.Cleanup(func() {
		if _, err := tryLab("disk", "remove", host, fresh.image); err != nil && fresh.device != "" {
			t.Error(err)
		}
	})
	c := newCephCluster(t, "dead", nodes...)
	c.Spec.Devices.Hotplug = true
	// With two copies one of three hosts may leave. The hour of autoReplace is longer than the journey: a person approves, and the Cluster says that it waits for the hour.
	c.Spec.Ceph.Mons, c.Spec.Ceph.MDS, c.Spec.Ceph.Replicas, c.Spec.Ceph.AutoReplace = 1, 1, 2, true
	c.Spec.Ceph.Config = maps.Clone(smallOptions)
	c.Spec.Ceph.Config["mon.mon_osd_down_out_interval"] = "60"
	runCeph(t, c)
	dies := waitServing(t, c, pulled)
	if m, err := memberOf(t.Context(), c.Name, host); err != nil || m.Spec.Ceph.Monitor != nil {
		t.Fatalf("the only monitor is on the host that is to be switched off: %+v, %v", m, err)
	}
	t.Run("Shared", func(t *testing.T) { shareVolume(t, c) })
	t.Run("SnapshotsAndClones", func(t *testing.T) { copiesGoTheirWays(t, c) })
	t.Run("Limits", func(t *testing.T) { volumeLimits(t, c) })
	w := keepWriting(t, c, nodes[0], nodes[1])

	t.Run("Metrics", func(t *testing.T) { metricsServed(t, c) })
	if t.Run("Dies", func(t *testing.T) { diskDies(t, c, w, pulled, dies) }) {
		t.Run("Replaced", func(t *testing.T) { diskReplaced(t, c, w, pulled, fresh, dies) })
	}
	t.Run("ComesBack", func(t *testing.T) { diskComesBack(t, c, w, fresh) })
	t.Run("Maintenance", func(t *testing.T) { hostRests(t, c, w, host) })
	if t.Run("HostLeaves", func(t *testing.T) { hostLeaves(t, c, w, host) }) {
		// The clean disk of the parts before becomes an OSD, and the two of the lab. That of the OSD that was given up is left alone.
		t.Run("HostComes", func(t *testing.T) { hostComes(t, c, w, host, 3) })
	}
	w.end(t)
}

// diskDies pulls the disk of an OSD out. Ceph marks the OSD out after its own interval, makes new copies, and says then that the OSD is safe to destroy.
func diskDies(t *testing.T, c *v1alpha1.Cluster, w *writer, pulled *disk, dies cephOSD) {
	pulled.unplug(t)
	waitDown(t, c, dies)
	w.check(t)
	said := ""
	eventually(t, 10*time.Minute, "the Cluster waits for the hour, and offers the replacement to a person", func(ctx context.Context) error {
		list, m, err := safety(ctx, c, dies.ID)
		if err != nil {
			return err
		}
		o := m.byUUID(dies.UUID)
		if o == nil {
			t.Fatalf("osd.%d was given up without an approval", dies.ID)
		}
		now, err := getCluster(ctx, c.Name)
		if err != nil {
			return err
		}
		if s := fmt.Sprintf("osd.%d is %v, in %d, and %s; %s", o.ID, o.State, o.In, list, waitsOf(now)); s != said {
			said = s
			t.Log(said)
		}
		offered := now.Status.Plan != nil && slices.ContainsFunc(now.Status.Plan.Steps, func(s v1alpha1.PlanStep) bool {
			return s.Action == v1alpha1.ActionReplaceOSD && s.Consent != ""
		})
		if !slices.Contains(o.State, "autoout") || list != "safe_to_destroy" || !offered || !strings.Contains(waitsOf(now), "missing for 1h0m0s without a break") {
			return fmt.Errorf("offered %t; %s", offered, said)
		}
		return nil
	})
}

// diskReplaced approves that a dead OSD is given up. Its disk, which comes back then, is left alone, and a clean one becomes an OSD.
func diskReplaced(t *testing.T, c *v1alpha1.Cluster, w *writer, pulled, fresh *disk, dies cephOSD) {
	now, err := getCluster(t.Context(), c.Name)
	if err != nil || now.Status.Plan == nil {
		t.Fatalf("no plan: %v", err)
	}
	if p := now.Status.Plan; p.Count != 1 || p.Steps[0].Action != v1alpha1.ActionReplaceOSD || !strings.Contains(p.Steps[0].Consent, fmt.Sprintf("osd.%d", dies.ID)) {
		t.Fatalf("a person is asked for something else than to give osd.%d up: %+v", dies.ID, p)
	}
	approve(t, c.Name, now.Status.Plan.Digest)
	eventually(t, 10*time.Minute, "the OSD is gone from Ceph and from the record", func(ctx context.Context) error {
		m, err := memberOf(ctx, c.Name, pulled.node)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(m.Spec.Ceph.OSDs, func(o v1alpha1.MemberOSD) bool { return o.UUID == dies.UUID }) {
			return fmt.Errorf("on record: %+v", m.Spec.Ceph.OSDs)
		}
		known, err := mapOf(ctx, c)
		if err == nil && known.byUUID(dies.UUID) != nil {
			err = fmt.Errorf("Ceph knows it: %+v", known.OSDs)
		}
		return err
	})
	w.check(t)

	diskLeftAlone(t, c, pulled, fresh, dies)
	w.check(t)
}

// diskLeftAlone plugs the disk of an OSD in that was given up, and a clean one. The first is left alone, and the other becomes an OSD.
func diskLeftAlone(t *testing.T, c *v1alpha1.Cluster, pulled, fresh *disk, dies cephOSD) {
	t.Helper()
	before := checksum(t, pulled.image)
	back := plug(t, pulled.node, pulled.image, "scsi")
	left := func(ctx context.Context) error {
		n, err := getNode(ctx, back.node)
		if err != nil {
			return err
		}
		if found := deviceOf(n, back.kernelName()); found == nil || found.Available || !slices.Contains(refusals(found), "Ceph") {
			return fmt.Errorf("%+v", found)
		}
		return nil
	}
	eventually(t, limitReady, "the disk that came back is refused", left)
	fresh.device = lastLine(lab(t, "disk", "add", fresh.node, fresh.image, "--bus", "scsi"))
	waitServing(t, c, fresh)
	waitCopies(t, c)
	if err := left(t.Context()); err != nil {
		t.Errorf("the disk that came back is not refused any more: %v", err)
	}
	if m, err := mapOf(t.Context(), c); err != nil || len(m.OSDs) != 7 || m.byUUID(dies.UUID) != nil || checksum(t, pulled.image) != before {
		t.Errorf("the disk that came back was taken, or written to: %+v, %v", m, err)
	}
}

// diskComesBack pulls the disk of an OSD, and puts it back as a person does who found a loose cable: the OSD serves again.
func diskComesBack(t *testing.T, c *v1alpha1.Cluster, w *writer, d *disk) {
	if d.device == "" {
		t.Skip("the part Replaced failed before it plugged the clean disk that this part pulls")
	}
	o := waitServing(t, c, d)
	d.unplug(t)
	waitDown(t, c, o)
	d.device = lastLine(lab(t, "disk", "add", d.node, d.image, "--bus", "scsi"))
	if now := waitServing(t, c, d); now.UUID != o.UUID || now.ID != o.ID {
		t.Errorf("the OSD was made anew: %+v, and %+v before", now, o)
	}
	waitCopies(t, c)
	w.check(t)
}

// hostRests drains a host in maintenance and switches it off, for longer than Ceph waits before it makes new copies. It makes none, no monitor is removed, and the host serves again afterwards.
func hostRests(t *testing.T, c *v1alpha1.Cluster, w *writer, host string) {
	monitors, err := monitorsOf(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	update(t, c.Name, func(c *v1alpha1.Cluster) { c.Spec.Maintenance = []v1alpha1.HostName{v1alpha1.HostName(host)} })
	eventually(t, 3*time.Minute, "Ceph keeps what is on the host in its place", func(ctx context.Context) error { return flagged(ctx, c, host, true) })
	t.Run("Drained", func(t *testing.T) { hostDrains(t, c, w, host) })
	before, err := mapOf(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	m, err := memberOf(t.Context(), c.Name, host)
	if err != nil {
		t.Fatal(err)
	}
	own := 0
	for _, r := range m.Spec.Ceph.OSDs {
		if o := before.byUUID(r.UUID); o != nil {
			own += o.Up
		}
	}
	lab(t, "node", "kill", host)
	t.Cleanup(func() { _, _ = tryLab("node", "start", host) }) // It runs already where the test got that far.
	up, in := before.count()
	eventually(t, 5*time.Minute, "the OSDs of the host are down", func(ctx context.Context) error { return osdsUp(ctx, c, up-own) })
	w.check(t)
	// Without the flag they would be marked out after a minute.
	time.Sleep(90 * time.Second)
	keptWhole(t, c, host, in)
	monitorsStay(t, c, monitors)
	lab(t, "node", "start", host)
	eventually(t, 8*time.Minute, "all OSDs are up", func(ctx context.Context) error { return osdsUp(ctx, c, up) })
	update(t, c.Name, func(c *v1alpha1.Cluster) { c.Spec.Maintenance = nil })
	eventually(t, 3*time.Minute, "the flag is gone", func(ctx context.Context) error { return flagged(ctx, c, host, false) })
	waitCopies(t, c)
	monitorsStay(t, c, monitors)
	w.check(t)
}

// flagged wants the flag noout on the OSDs of a host, or wants it gone.
func flagged(ctx context.Context, c *v1alpha1.Cluster, host string, want bool) error {
	m, err := mapOf(ctx, c)
	if err == nil && slices.Contains(m.HostFlags[host], "noout") != want {
		err = fmt.Errorf("flags %v", m.HostFlags)
	}
	return err
}

// osdsUp wants so many OSDs up.
func osdsUp(ctx context.Context, c *v1alpha1.Cluster, want int) error {
	m, err := mapOf(ctx, c)
	if up, _ := m.count(); err == nil && up != want {
		err = fmt.Errorf("%d are up, want %d", up, want)
	}
	return err
}

// keptWhole wants that a host in maintenance which is off keeps the flag, that no OSD was marked out, and that a metadata server serves on another host.
func keptWhole(t *testing.T, c *v1alpha1.Cluster, host string, in int) {
	t.Helper()
	eventually(t, 2*time.Minute, "the host that is off keeps its place", func(ctx context.Context) error {
		m, err := mapOf(ctx, c)
		if err != nil {
			return err
		}
		if _, now := m.count(); now != in || !slices.Contains(m.HostFlags[host], "noout") {
			return fmt.Errorf("%d OSDs are in, and %d before: %+v", now, in, m)
		}
		serving, err := metadataHost(ctx, c)
		if err == nil && serving == host {
			err = errors.New("the metadata server of the host that is off counts as the one that serves")
		}
		return err
	})
}

// monitorsStay wants the monitors on record that were, and all of them in the quorum.
func monitorsStay(t *testing.T, c *v1alpha1.Cluster, want map[string]string) {
	t.Helper()
	eventually(t, 3*time.Minute, "the monitors are those that were", func(ctx context.Context) error {
		now, err := monitorsOf(ctx, c)
		if err != nil {
			return err
		}
		h, err := healthOf(ctx, c)
		if err == nil && (!maps.Equal(now, want) || len(h.Quorum) != len(want)) {
			err = fmt.Errorf("on record are %v, and %v were; quorum %v", now, want, h.Quorum)
		}
		return err
	})
}
