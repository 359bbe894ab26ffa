package replica

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// Plan lists replicas that only a person can give up. It is shown before it can be approved.
type Plan struct {
	// Digest is what a person approves. It is of the whole offer, and stays while the replicas of an approved plan are given up.
	Digest string
	// Offer tells one offer from any other, even of the same replicas.
	Offer string
	// Replicas are the identities that are still to be given up, in their order.
	Replicas []string
	// Approved: a person agreed to exactly this.
	Approved bool
}

// allows reports whether a person agreed to give an identity up.
func (p *Plan) allows(identity string) bool {
	return p != nil && p.Approved && slices.Contains(p.Replicas, identity)
}

// Offer returns the plan of now; nil when nobody has to be asked. in.Plan is the one that was shown last, uid that of the StatefulCluster, and
// approval what a person approved. What was not shown is approved by nothing.
func Offer(in Input, uid, approval string) *Plan {
	shown := in.Plan
	in.Plan = nil
	v := look(in)
	need := v.need()
	if shown != nil && approval != "" && approval == shown.Digest {
		left := slices.DeleteFunc(slices.Clone(shown.Replicas), func(id string) bool { return !v.doomed(id) })
		// Whoever else is to be given up by now makes it another plan.
		if len(left) > 0 && !slices.ContainsFunc(need, func(id string) bool { return !slices.Contains(left, id) }) {
			return &Plan{Digest: shown.Digest, Offer: shown.Offer, Replicas: left, Approved: true}
		}
	}
	if len(need) == 0 {
		return nil
	}
	if shown != nil && slices.Equal(shown.Replicas, need) && shown.Digest == digest(uid, shown.Offer, need) && approval != shown.Digest {
		return &Plan{Digest: shown.Digest, Offer: shown.Offer, Replicas: need}
	}
	offer := in.Now.UTC().Format(time.RFC3339)
	return &Plan{Digest: digest(uid, offer, need), Offer: offer, Replicas: need}
}

// doomed reports whether an identity would still be given up if a person let it.
func (v view) doomed(identity string) bool {
	i := slices.IndexFunc(v.live, func(r judged) bool { return r.Identity == identity })
	return i >= 0 && (v.hopeless(v.live[i]) || v.alone() && v.live[i].old)
}

// need returns the identities that a person is asked for: those that the guard keeps or for which no node has room, and a last one whose template has changed.
func (v view) need() []string {
	var out []string
	for _, r := range v.live {
		kept := v.hopeless(r) && (r.Crowded != "" || r.Filled && v.guard(r) != "")
		if kept || v.alone() && r.old && r.Filled {
			out = append(out, r.Identity)
		}
	}
	slices.Sort(out)
	return out
}

// digest is the first 64 bits of the SHA-256 of an offer.
func digest(uid, offer string, identities []string) string {
	sum := sha256.Sum256([]byte(uid + "\n" + offer + "\n" + strings.Join(identities, "\n")))
	return hex.EncodeToString(sum[:8])
}
