package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	storagev1 "k8s.io/api/storage/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/existence"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/option"
	"quarry.storage/quarry/controller/internal/decide/ceph/osdrecord"
	"quarry.storage/quarry/controller/internal/decide/class"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/filesystem"
	"quarry.storage/quarry/pkg/osd"
)

// options has Ceph told its options, those of the spec and Quarry's own, and which modules its managers run, once for each change of them.
func (v *View) options(p *plan) {
	want, w := v.wantedOptions(), v.seen.Workloads
	why := "What is reached of the managers' modules is not what the spec says."
	if changed := option.Differing(w.Options, want); len(changed) > 0 {
		why = "The options of Ceph changed: " + backend.Shorten(changed, 5)
	}
	if maps.Equal(want, w.Options) && v.metrics() == w.Metrics && (w.Dashboard.Manager == "" || wantsDashboard(v.seen.Cluster)) {
		if !v.refusedBefore() {
			return
		}
		why = "All managers have the module now that was refused."
	}
	raw, err := json.Marshal(want)
	if err != nil {
		p.wait("The options cannot be written: %v.", err)
		return
	}
	s := v.whole(v1alpha1.ActionConfigureCeph, "", why)
	s.Text = string(raw)
	p.step(s)
}

func (v *View) wantedOptions() map[string]string {
	out := option.Wanted(option.Of(v.seen.Cluster))
	if v.metrics() {
		out[cephname.Module+"."+cephname.ModuleMetrics] = "on"
	}
	if wantsDashboard(v.seen.Cluster) {
		out[dashboardModule] = "on"
	}
	return out
}

// refusedBefore reports whether Ceph refused a module that all managers have now: they run another image.
func (v *View) refusedBefore() bool {
	return slices.ContainsFunc(v.current().Modules, func(name string) bool { return v.seen.Workloads.Refused[cephname.Module+"."+name] != "" })
}

// metrics reports whether the spec wants Ceph's metrics.
func (v *View) metrics() bool {
	c := v.seen.Cluster.Spec.Ceph
	return c != nil && c.Metrics
}

// dashboardModule is the module of the dashboard in the record of the options, RefusedDashboard what is refused of the dashboard itself in that of what Ceph refuses.
const (
	dashboardModule  = cephname.Module + "." + cephname.ModuleDashboard
	RefusedDashboard = "dashboard"
)

// wantsDashboard reports whether the spec wants Ceph's dashboard.
func wantsDashboard(c *v1alpha1.Cluster) bool { return c.Spec.Ceph != nil && c.Spec.Ceph.Dashboard }

// AsksDashboard reports whether the manager is to be asked if it knows the commands of the dashboard: it is about to be told some.
func AsksDashboard(o Observation) bool {
	w := o.Workloads
	return w != nil && wantsDashboard(o.Cluster) && w.Options[dashboardModule] != "" && w.Refused[dashboardModule] == "" && w.Refused[RefusedDashboard] == "" && !w.Dashboard.Told
}

// dashboard has the dashboard told who may use it, once its module is on, and the Service select the manager that serves it. What it waits for holds nothing else up.
func (v *View) dashboard(p *plan, f ceph.Facts) {
	w := v.seen.Workloads
	told := wantsDashboard(v.seen.Cluster) && w.Dashboard.Told
	if f.Daemons == nil || !told && !AsksDashboard(v.seen) {
		return
	}
	i := slices.IndexFunc(*f.Daemons, func(d ceph.Daemon) bool { return d.Kind == cephname.DaemonManager && d.Active })
	switch {
	case i < 0:
	case !told && v.seen.Ceph.Commands != ceph.Yes:
		p.wait("The dashboard waits until manager %s knows its commands.", (*f.Daemons)[i].Name)
	case !told || w.Dashboard.Manager != (*f.Daemons)[i].Name:
		s := v.whole(v1alpha1.ActionServeDashboard, "", "The dashboard has no user yet, or another manager serves it now.")
		s.Text = (*f.Daemons)[i].Name
		p.step(s)
	}
}

// config is the configuration file as it is wanted.
func (v *View) config() string {
	_, listening := v.monitors()
	if len(listening) == 0 {
		listening = v.toldAt()
	}
	copies := v.replicas()
	return cephpod.Config(v.seen.Cluster.FSID(), listening, copies, ceph.MinSize(copies), v.shareHost())
}

// toldOf are the monitors that the spec names of a Ceph cluster that is taken up.
func (v *View) toldOf() []v1alpha1.CephTakeUpMonitor {
	c := v.seen.Cluster
	if !c.TakesUp() || c.Spec.Ceph == nil || c.Spec.Ceph.TakeUp == nil {
		return nil
	}
	return c.Spec.Ceph.TakeUp.Monitors
}

// toldAt are these monitors as others are told of them: their pods may run already.
func (v *View) toldAt() (out []cephpod.Monitor) {
	for _, m := range v.toldOf() {
		if at := v.seen.Addresses[string(m.Host)]; at != "" {
			out = append(out, cephpod.Monitor{Name: m.Name, Address: at})
		}
	}
	return out
}

// ignored tells of what the spec asks for and does not get: a Ceph cluster that is not taken up since there is one, monitors without a host, and what only volumes of Clusters of type lvm have.
func (v *View) ignored(p *plan, hosts []ceph.Host) {
	if s := v.seen.Cluster.Spec.Ceph; s != nil && s.TakeUp != nil && s.TakeUp.FSID != v.seen.Cluster.FSID() {
		p.note("spec.ceph.takeUp is not obeyed: the Cluster has the Ceph cluster %s already.", v.seen.Cluster.FSID())
	}
	if w := v.wantedMonitors(hosts); w.Target() < cmp.Or(w.Count, 3) {
		p.notes = append(p.notes, v.neighbours(hosts)...)
		if w.Target() < w.Count {
			p.note("spec.ceph.mons asks for %d monitors, each on a host of its own. With the hosts that stay the Cluster gets %d. List more hosts for the others.", w.Count, w.Target())
		}
	}
	// The API server fills in ext4 and the binding mode by itself.
	if c := v.seen.Cluster.Spec.StorageClass; c != nil && (len(c.MkfsOptions) > 0 || c.FSType != "" && c.FSType != filesystem.Default) {
		p.note("spec.storageClass.fsType and mkfsOptions are not obeyed: volumes of a Cluster of type cephfs are directories of one filesystem.")
	}
}

// moved tells of monitors that are not in the quorum, and whose hosts have other addresses than the ones that they were made for.
func (v *View) moved(p *plan) {
	var in []ceph.Monitor
	if t := v.seen.Ceph; t != nil && t.Quorum != nil && (v.seen.Current || v.seen.Asking == BeingAsked) {
		in = slices.DeleteFunc(slices.Clone(t.Quorum.Monitors), func(m ceph.Monitor) bool { return !m.In })
	}
	for _, n := range v.nodes() {
		m, at := record(v.member(n)).Monitor, v.seen.Addresses[n]
		if m == nil || at == "" || at == m.Address || slices.ContainsFunc(in, func(x ceph.Monitor) bool { return x.Name == m.Name }) {
			continue
		}
		p.wait("Host %s has the address %s, and its monitor %s was made for %s: a monitor keeps its address. Give the host that address back. Or, where the other monitors are a quorum and the other hosts have a place for each copy, take the host off the list: its monitor moves then, and its OSDs are emptied.",
			n, at, m.Name, m.Address)
	}
}

// fsType is the kernel's name of what nodes mount.
const fsType = "ceph"

// class is the StorageClass that the Cluster wants. An option that no node would mount with is refused before it is in every PersistentVolume.
func (v *View) class() class.Wish {
	c := v.seen.Cluster
	out := class.Wish{Binding: storagev1.VolumeBindingImmediate, Parameters: map[string]string{
		v1alpha1.ParameterCluster:                        string(c.UID),
		"csi.storage.k8s.io/node-stage-secret-name":      cephname.Client(c.Name),
		"csi.storage.k8s.io/node-stage-secret-namespace": cephname.Namespace,
	}}
	if sc := c.Spec.StorageClass; sc != nil {
		for _, o := range sc.MountOptions {
			out.MountOptions = append(out.MountOptions, string(o))
		}
	}
	if err := filesystem.CheckClassOptions(fsType, out.MountOptions); err != nil {
		out.Invalid = fmt.Sprintf("spec.storageClass.mountOptions: %v. The StorageClass stays as it is.", err)
	}
	return out
}

// prepared sees to the keys and the configuration, which come before all else. It reports whether they are there.
func (v *View) prepared(p *plan) bool {
	w, made := v.seen.Workloads, noted.Is(v.seen.Cluster, v1alpha1.AnnotationCephKeys)
	records, _ := v.monitors()
	// Whatever ran knows the keys that were, be the word of them lost or not.
	if (made || v.quorumSeen() || len(records)+len(w.Daemons) > 0) && !w.Keys {
		p.wait("The Secret %s in namespace %s is gone. The daemons know the keys that were in it, so none are made anew: restore it.", cephname.Keys(v.seen.Cluster.Name), cephname.Namespace)
		return false
	}
	if why := or(v.earlier(), v.tooOld()); why != "" {
		p.wait("%s", why)
		return false
	}
	// A Cluster with a monitor on record lost the word that its keys are: it is written again, if they are there.
	if !made && v.unmade() != "" && len(records) == 0 {
		p.wait("%s", v.unmade())
		return false
	}
	if v.seen.Cluster.TakesUp() && !w.Keys {
		p.wait("The Secret %s in namespace %s has to have the keys of the Ceph cluster that is taken up, and the label %s=%s: restore it. None are made: the daemons know those that were in it.",
			cephname.Keys(v.seen.Cluster.Name), cephname.Namespace, cephname.LabelFSID, v.seen.Cluster.FSID())
		return false
	}
	if want := v.config(); !made || w.Config != want {
		s := v.whole(v1alpha1.ActionPrepareCeph, "", "The daemons need their keys, and where the monitors are.")
		s.Text = want
		p.step(s)
	}
	return made
}

// candidates are the hosts on whose disks OSDs of the Cluster may be: those with a Member, and those that the spec wants, whether they are, or can be, members or not.
func (v *View) candidates() (out []existence.Host) {
	common := v.seen.Cluster.Common()
	names := v.nodes()
	for n, node := range v.seen.World.Nodes {
		if v.member(n) == nil && backend.Wants(common, node) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		m := v.member(n)
		leaves := m != nil && !m.DeletionTimestamp.IsZero() && !v.deleting()
		out = append(out, existence.Host{Name: n, Known: v.seen.World.Nodes[n].Exists, Up: v.seen.Nodes[n].Up(), Leaving: leaves})
	}
	return out
}

// signs are the disks that may carry OSDs of the Ceph cluster: the suspects, and those on record, which become OSDs only once the monitors were seen.
func (v *View) signs() (out []existence.Sign) {
	for _, u := range v.Suspects() {
		verdict, looked := v.seen.Suspected[u.Key()]
		out = append(out, existence.Sign{
			Node: u.Node, Path: u.Device.Path, Carries: carried(verdict, u.Record.UUID), Looked: looked, Blind: verdict.Blind,
			Unclear: verdict.Kind == osd.Unknown, Why: verdict.Message, Kept: v.kept(u),
		})
	}
	for _, n := range v.nodes() {
		if !v.seen.Nodes[n].Up() {
			// The host itself is the doubt.
			continue
		}
		m := v.member(n)
		for _, o := range record(m).OSDs {
			verdict, looked := v.seen.Verdicts[o.UUID]
			d, there := osdrecord.Device(v.seen.Nodes[n], o)
			s := existence.Sign{
				Node: n, Path: string(o.Path), Carries: carried(verdict, o.UUID), Looked: looked || !there, Blind: verdict.Blind,
				Unclear: !there || verdict.Kind == osd.Unknown, Why: verdict.Message, Recorded: true,
				Kept: slices.ContainsFunc(m.Spec.Retire, func(r v1alpha1.RetiredDevice) bool { return r.Path == o.Path || there && d.Retired(r) }),
			}
			out = append(out, s)
		}
	}
	return out
}

// existing says whether a Ceph cluster exists of which nothing is on record.
func (v *View) existing() existence.Finding {
	if noted.Formed(v.seen.Cluster) {
		return existence.Finding{}
	}
	return existence.Of(existence.Evidence{Named: v.names(), Signs: v.signs(), Hosts: v.candidates()})
}

// second says why monitors that were just seen for the first time are not taken for the Cluster's; empty if they are. They know of no OSD at all, and disks carry OSDs of the Ceph cluster, or may do so: they have made a second one.
func (v *View) second(f ceph.Facts) string {
	if f.Map == nil {
		return "The monitors answer, and Ceph does not say which OSDs it has: before that nobody knows whether they are the Cluster's."
	}
	if len(f.Map.OSDs) > 0 {
		return ""
	}
	e := existence.Of(existence.Evidence{Named: v.names(), Signs: v.signs(), Hosts: v.candidates()})
	switch {
	case e.Proof != "":
		return fmt.Sprintf("The monitors that answer know of no OSD, and %s: they have made a second Ceph cluster, which is not the Cluster's. Nothing is done to either. Restore the API server from a younger backup, or ask for help.", e.Proof)
	case e.Doubt != "":
		return "The monitors that answer know of no OSD, and may have made a second Ceph cluster: they are not taken for the Cluster's yet. " + e.Doubt
	}
	return ""
}

// unmade says why no monitor makes the Ceph cluster: it exists already, or may exist. It is empty if a monitor may make it.
func (v *View) unmade() string {
	e := v.existing()
	if e.Proof == "" {
		return e.Doubt
	}
	return fmt.Sprintf("No monitor is made that knows no other: the Ceph cluster %s exists already, since %s. Restore the API server from a younger backup, or name the Ceph cluster and the hosts of its monitors in spec.ceph.takeUp.", v.seen.Cluster.FSID(), e.Proof)
}
