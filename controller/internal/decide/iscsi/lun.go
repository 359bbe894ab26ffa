package iscsi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// lunOn returns the LUN of the storage as a host sees it, or why there is none that can be used.
func (v *View) lunOn(host string) (sharedlun.Lun, backend.Finding) {
	h := v.seen.Hosts[host]
	if f := h.unseen(); !f.IsZero() {
		return sharedlun.Lun{}, f
	}
	l, f := v.choose(h.Seen.Luns)
	if !f.IsZero() {
		return l, f
	}
	if h.OtherLun != "" {
		return l, bad(v1alpha1.ReasonOtherLun, h.OtherLun+
			": devices of volumes that stand on it return errors, so that nothing is written there. Give the recorded LUN its number back on the target, then end the pods that use these volumes")
	}
	switch err := l.Check(); {
	case err != nil:
		return l, bad(v1alpha1.ReasonLunUnusable, err.Error())
	case l.ReadOnly:
		return l, bad(v1alpha1.ReasonLunUnusable, fmt.Sprintf("LUN %d of the target is read-only: allow this initiator to write", l.Number))
	case l.Device == "":
		return l, bad(sharedlun.ReasonMultipathMissing, fmt.Sprintf(
			"%d paths lead to LUN %d, and no multipath map joins them yet: is multipathd running on the node?", len(l.Paths), l.Number))
	}
	return l, backend.Finding{}
}

// unseen says why no LUN can be looked at on a host; zero when sessions show them.
func (h Host) unseen() backend.Finding {
	switch {
	case !h.Up():
		return h.away()
	case h.Initiator.Problem != nil:
		return bad(h.Initiator.Problem.Reason, h.Initiator.Problem.Message)
	case h.Reads():
		return backend.Finding{}
	case h.LoggedIn():
		return bad(sharedlun.ReasonTargetUnreachable, "no session with the target is up: "+strings.Join(h.lost(), "; "))
	}
	return backend.Finding{Kind: backend.Busy, Reason: v1alpha1.ReasonPreparing, Message: "is not logged in to the target yet"}
}

// away says why the agent of a host told nothing.
func (h Host) away() backend.Finding {
	if h.Agent == decide.AgentMissing {
		return bad(v1alpha1.ReasonAgentMissing, backend.Sentence(h.Problem, "no agent runs on this node"))
	}
	return bad(v1alpha1.ReasonAgentUnreachable, cmp.Or(h.Failed, h.Problem, "the agent was not asked yet"))
}

// lost names the portals whose sessions are not up.
func (h Host) lost() []string {
	var out []string
	for _, s := range h.Seen.Sessions {
		if s.State != sharedlun.SessionUp {
			out = append(out, strings.TrimSuffix("portal "+s.Portal+": "+backend.Sentence(s.Message, "no session"), "."))
		}
	}
	return out
}

// choose returns the one of several LUNs that is the storage's.
func (v *View) choose(luns []sharedlun.Lun) (sharedlun.Lun, backend.Finding) {
	if v.rec.Lun == nil {
		switch len(luns) {
		case 1:
			return luns[0], backend.Finding{}
		case 0:
			return sharedlun.Lun{}, bad(v1alpha1.ReasonNoLun, "the target shows no LUN to this initiator: map one to it on the target")
		}
		var shown []string
		for _, l := range luns {
			shown = append(shown, fmt.Sprintf("%d (%s)", l.Number, l.WWID))
		}
		return sharedlun.Lun{}, bad(v1alpha1.ReasonSeveralLuns, fmt.Sprintf(
			"the target shows %d LUNs to this initiator, an Iscsi uses exactly one: %s", len(luns), backend.Shorten(shown, maxNamed)))
	}
	i := slices.IndexFunc(luns, func(l sharedlun.Lun) bool { return l.WWID == v.rec.Lun.WWID && l.Serial == v.rec.Lun.Serial })
	if i >= 0 {
		if err := v.rec.Lun.Same(luns[i].Identity); err != nil {
			return luns[i], bad(v1alpha1.ReasonOtherLun, err.Error())
		}
		return luns[i], backend.Finding{}
	}
	if len(luns) == 0 {
		return sharedlun.Lun{}, bad(v1alpha1.ReasonNoLun, fmt.Sprintf(
			"the target shows no LUN to this initiator, LUN %s is on record: map it to the initiator on the target", v.rec.Lun.WWID))
	}
	return luns[0], bad(v1alpha1.ReasonOtherLun, fmt.Sprintf(
		"LUN %s with serial number %s is on record, the target shows %s with serial number %s: nothing is done with that",
		v.rec.Lun.WWID, v.rec.Lun.Serial, luns[0].WWID, luns[0].Serial))
}

// used says who uses the LUN on a node, or that this is not known of one that sees it; zero when nobody does.
func (v *View) used() backend.Finding {
	for _, name := range v.names() {
		l, f := v.lunOn(name)
		switch {
		case !f.IsZero():
		case len(l.Users) > 0:
			return bad(v1alpha1.ReasonLunInUse, fmt.Sprintf("the LUN is in use on node %s by %s: nobody gets a key before that ends", name, backend.Shorten(l.Users, maxNamed)))
		case l.UsersError != "":
			return bad(v1alpha1.ReasonLunInUse, fmt.Sprintf("it cannot be found out on node %s who uses the LUN: %s", name, l.UsersError))
		}
	}
	return backend.Finding{}
}

// sight is a LUN, with the nodes that see it.
type sight struct {
	lun   sharedlun.Identity
	nodes []string
}

// sights are the LUNs that nodes see of which each could be the storage's, in the order of the first nodes that see them.
func (v *View) sights() []sight {
	var out []sight
	for _, name := range v.names() {
		l, f := v.lunOn(name)
		if !f.IsZero() {
			continue
		}
		i := slices.IndexFunc(out, func(s sight) bool { return s.lun.WWID == l.WWID && s.lun.Serial == l.Serial })
		if i < 0 {
			out = append(out, sight{lun: l.Identity})
			i = len(out) - 1
		}
		out[i].nodes = append(out[i].nodes, name)
	}
	return out
}

// differ refuses to choose between LUNs: as long as none is on record, nobody knows which of several is meant.
func (v *View) differ() backend.Finding {
	if v.rec.Lun != nil {
		return backend.Finding{}
	}
	seen := v.sights()
	if len(seen) < 2 {
		return backend.Finding{}
	}
	var lines []string
	for _, s := range seen {
		lines = append(lines, fmt.Sprintf("LUN %s with serial number %s is seen by %s", s.lun.WWID, s.lun.Serial, backend.Shorten(s.nodes, maxNamed)))
	}
	return bad(v1alpha1.ReasonOtherLun, "the initiators see different LUNs, and all have to see one and the same: "+strings.Join(lines[:min(len(lines), maxNamed)], "; "))
}

// unsighted names the initiators that show no LUN yet, before one is on record: one that sees another LUN could not be told from the others afterwards. Those under
// maintenance are not waited for. Once there is a group, it tells which LUN is meant.
func (v *View) unsighted() []string {
	if v.rec.Lun != nil || v.rec.group != "" {
		return nil
	}
	var out []string
	for _, initiator := range v.seen.Iscsi.Spec.Initiators {
		name := string(initiator)
		if _, f := v.lunOn(name); !f.IsZero() && !v.maintained(name) {
			out = append(out, name+" ("+strings.TrimSuffix(f.Message, ".")+")")
		}
	}
	slices.Sort(out)
	return out
}

// maintained reports whether a node is under maintenance.
func (v *View) maintained(node string) bool {
	m := v.members[node]
	return slices.Contains(v.seen.Iscsi.Spec.Maintenance, v1alpha1.HostName(node)) || m != nil && m.Spec.Maintenance || v.seen.World.Nodes[node].Maintenance
}

// upPaths are the paths of a LUN that are up, ordered. A session that was made anew is another path, even if its device has the same name.
func upPaths(l sharedlun.Lun) []string {
	var up []string
	for _, p := range l.Paths {
		if p.Up {
			up = append(up, fmt.Sprintf("%s=%s/%d", p.Portal, p.Device, p.Session))
		}
	}
	slices.Sort(up)
	return up
}

// paths tells the paths of a LUN that are up, always in one order.
func paths(l sharedlun.Lun) string { return strings.Join(upPaths(l), ",") }

// covers reports whether a key was registered on every path that is up.
func covers(registered string, l sharedlun.Lun) bool {
	have := strings.Split(registered, ",")
	return !slices.ContainsFunc(upPaths(l), func(p string) bool { return !slices.Contains(have, p) })
}

// login returns the step that makes missing sessions, or takes other credentials into use.
func (h host) login() (Step, bool) {
	chap, used := h.view.seen.Chap, h.usedChap()
	renew := h.otherChap(used)
	missing := h.sessions(sharedlun.SessionNone) > 0 || !h.LoggedIn()
	if h.guarded() {
		missing, renew = false, false
	}
	if missing && h.sessions(sharedlun.SessionUp) > 0 && h.view.seen.Now.Sub(h.LoginAt) < loginEvery {
		missing = false
	}
	if chap.Problem != "" || !missing && !renew && used != "" {
		return Step{}, false
	}
	s := h.step(v1alpha1.ActionLogin, "Sessions with the target are missing.")
	s.Target, s.Renew, s.Chap = h.view.target, renew && h.LoggedIn(), chap.Version
	s.Again = h.regains(s)
	if l, f := h.view.lunOn(h.m.Node); f.IsZero() && !renew {
		s.Paths = paths(l)
	}
	if renew {
		s.Why = "The credentials for the target were changed."
	}
	return s, true
}

// usedChap returns the version of the credentials that the node logged in with; empty when it is not known to have done so.
func (h host) usedChap() string {
	used := ""
	if h.m.Object != nil {
		used = h.m.Object.Annotations[v1alpha1.AnnotationChap]
	}
	if used == "" && h.LoggedIn() {
		used = h.LoginChap
	}
	return used
}

// regains reports whether a login only brings sessions back that a member had. Other credentials are a change.
func (h host) regains(s Step) bool { return h.serves() && !s.Renew }

// guarded reports whether the node gets no new session: its path would carry I/O of what is mapped before it has a key, which a target that keeps keys per path
// refuses, and multipathd does not try on another one. The only session of a node is not made anew either while it is in use, keys or not: it would keep the credentials that it was made with, and be
// taken for one that has the new ones.
func (h host) guarded() bool {
	r := h.view.seen.Reading
	mapped := len(h.Mappings) > 0 || h.view.rec.group != "" && !h.Mapped
	return h.LoggedIn() && mapped && (!r.Known || r.Keys.Held() || h.onePortal())
}

// onePortal reports whether the storage has one portal.
func (h host) onePortal() bool { return len(h.view.target.Portals) == 1 }

// pathsMissing says that a node that serves volumes does so with fewer paths than it should have, or with old credentials. Steps of a login mend that.
func (h host) pathsMissing(steps []backend.Step) backend.Finding {
	switch {
	case h.guarded() && h.lacksLogin() && h.onePortal():
		return backend.Finding{Message: "The member serves its volumes through the only session that it has, which is to get other credentials, or to lead to another portal. It is not made anew while volumes are " +
			"mapped here, and cannot be connected again with the earlier credentials once the target refuses them: drain the node, and it is made anew."}
	case h.guarded() && h.lacksLogin():
		return backend.Finding{Message: "The member serves its volumes. Paths to the LUN are missing, or are to get other credentials. A new session would carry I/O before it has a " +
			"key, so that none is made while volumes are mapped here: drain the node, and they come back."}
	case slices.ContainsFunc(steps, func(s backend.Step) bool { return s.Action() == v1alpha1.ActionLogin }):
		return backend.Finding{Message: "The member serves volumes. Paths to the LUN are missing, or get other credentials."}
	}
	return backend.Finding{}
}

// lacksLogin reports whether a login waits.
func (h host) lacksLogin() bool {
	return h.sessions(sharedlun.SessionNone) > 0 || h.otherChap(h.m.Object.Annotations[v1alpha1.AnnotationChap])
}

// otherChap reports whether there are other credentials than those that the node uses.
func (h host) otherChap(used string) bool {
	chap := h.view.seen.Chap
	return chap.Problem == "" && used != "" && used != chap.Version
}
