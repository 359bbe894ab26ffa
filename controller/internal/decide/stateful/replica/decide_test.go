package replica

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// with builds a replica of the present template; its name says how it is. What follows the name changes it: see words.
func with(description string) Replica {
	name, rest, _ := strings.Cut(description, " ")
	r := Replica{
		Name: name, Identity: name, Revision: "new", Created: now.Add(-time.Hour), PendingSince: now.Add(-time.Hour),
		Phase: Running, Readiness: Ready, ReadinessSince: now.Add(-time.Hour), Claims: ClaimsWhole, Filled: true, Placed: true,
		Steady: Steady{For: time.Hour}, Late: Late{For: time.Hour},
	}
	for _, word := range strings.Fields(rest) {
		edit, ok := words[word]
		if !ok {
			panic("unknown word " + word)
		}
		edit(&r)
	}
	return r
}

var words = map[string]func(*Replica){
	"old": func(r *Replica) { r.Revision = "old" },
	"pending": func(r *Replica) {
		r.Phase, r.Readiness, r.PendingSince, r.Late.For = Pending, NotReady, now.Add(-time.Minute), time.Minute
	},
	"stuck":       func(r *Replica) { r.Phase, r.Readiness = Pending, NotReady },
	"absent":      func(r *Replica) { r.Phase, r.Readiness, r.Revision = Absent, NotReady, "" },
	"ended":       func(r *Replica) { r.Phase, r.Readiness = Finished, NotReady },
	"terminating": func(r *Replica) { r.Terminating = true },
	"unready":     func(r *Replica) { r.Readiness = NotReady },
	"unknown":     func(r *Replica) { r.Readiness, r.Away = Unknown, time.Hour },
	"just": func(r *Replica) {
		r.ReadinessSince, r.PendingSince, r.Away = now.Add(-time.Minute), now.Add(-5*time.Second), min(r.Away, time.Minute)
		r.Steady.For, r.Late.For = time.Minute, time.Minute
		if r.Phase == Pending {
			r.Late.For = 5 * time.Second
		}
	},
	"young":       func(r *Replica) { r.Created = now.Add(-time.Minute) },
	"unreachable": func(r *Replica) { r.Node, r.Away = NodeUnreachable, time.Hour },
	"notready":    func(r *Replica) { r.Node, r.Away = NodeUnready, time.Hour },
	"shutdown":    func(r *Replica) { r.Node, r.Away = NodeShutDown, time.Hour },
	"closed":      func(r *Replica) { r.Node, r.Away = NodeClosed, time.Hour },
	"gone":        func(r *Replica) { r.Node, r.Away = NodeGone, time.Hour },
	"fresh":       func(r *Replica) { r.Filled = false },
	"served":      func(r *Replica) { r.Filled, r.Served = false, true },
	"unplaced":    func(r *Replica) { r.Placed = false },
	"claimless":   func(r *Replica) { r.Claims = NoClaims },
	"torn":        func(r *Replica) { r.Claims = ClaimsMissing },
	"occupied":    func(r *Replica) { r.Occupied = "copy" },
	"dying":       func(r *Replica) { r.Claims = ClaimsEnding },
	"synced":      func(r *Replica) { r.InSync = true },
	"diskfailed":  func(r *Replica) { r.Disk, r.Away = DiskFailed, time.Hour },
	"disklost":    func(r *Replica) { r.Disk = DiskLost },
	"maintained":  func(r *Replica) { r.Disk = DiskSuspended },
	"doubtful":    func(r *Replica) { r.Doubtful = true },
	"crowded":     func(r *Replica) { r.Crowded = "Node n2 is short of cpu." },
	"busy":        func(r *Replica) { r.Busy = true },
	"patchable":   func(r *Replica) { r.Patchable = true },
	"cheap":       func(r *Replica) { r.Cost = -1 },
	"Scaled":      func(r *Replica) { r.Fate = Scaled },
	"Replaced":    func(r *Replica) { r.Fate = Replaced },
	"Rolled":      func(r *Replica) { r.Fate = Rolled },
	"spared":      func(r *Replica) { r.GivenUp = now.Add(-time.Hour) },
}

// input wants a number of replicas and has the described ones.
func input(desired int, descriptions ...string) Input {
	in := Input{Now: now, Desired: desired, Revision: "new", Surge: 1, Grace: 5 * time.Minute, NodeGrace: 5 * time.Minute}
	for _, d := range descriptions {
		in.Replicas = append(in.Replicas, with(d))
	}
	return in
}

func change(in Input, edit func(*Input)) Input { edit(&in); return in }

func (d Decision) String() string {
	out := fmt.Sprintf("%s %s", d.Action, d.Reason)
	if d.Victim != "" {
		out += " " + d.Victim
	}
	if d.Fate != "" {
		out += " for good"
	}
	if d.Force {
		out += " by force"
	}
	if d.Action == Create && d.Identity != "" {
		out += " as " + d.Identity
	}
	if d.After > 0 {
		out += " after " + d.After.String()
	}
	return strings.TrimSpace(out)
}

// try runs a table of inputs and decisions.
func try(t *testing.T, table map[string]expectation) {
	t.Helper()
	for name, c := range table {
		t.Run(name, func(t *testing.T) {
			t.Helper()
			if got := Decide(c.in); got.String() != c.want {
				t.Errorf("got %q, want %q: %s", got, c.want, got.Message)
			}
		})
	}
}

type expectation struct {
	in   Input
	want string
}

func TestDecide(t *testing.T) {
	try(t, map[string]expectation{
		"S1: none are wanted, and all go one by one": {input(0, "a", "b"), "Remove ScalingDown a"},
		"S1: none are wanted and none are there":     {input(0), "Rest"},

		"S3: two too many, one goes":                                 {input(3, "a", "b", "c", "d", "e"), "Remove ScalingDown a for good"},
		"S3: the next waits until the one before has ended":          {input(3, "a Scaled terminating", "b", "c", "d", "e"), "Wait ReplicaLeaving"},
		"S3: too many wins even if one is pending, which goes first": {input(1, "a", "b pending"), "Remove ScalingDown b for good"},
		"S3: too many wins even if one is unhealthy":                 {input(1, "a", "b unready"), "Remove ScalingDown b for good"},
		"S3: a pending one too many does not wait for an ending one": {input(1, "a", "b pending", "c Scaled terminating"), "Remove ScalingDown b for good"},
		"S3: one whose pod ends anyway is the one too many":          {input(1, "a", "b terminating"), "GiveUp ScalingDown b for good"},

		"S4: one of two is pending, the third is not made":       {input(3, "a", "b pending"), "Wait ReplicaPending after 5s"},
		"S4: one is pending, an unhealthy one is not removed":    {input(3, "a", "b pending", "c unready"), "Wait ReplicaPending after 5s"},
		"S4: one is pending, and another's patience ends sooner": {change(input(2, "a pending", "b unready just"), func(in *Input) { in.Grace = 61 * time.Second }), "Wait ReplicaPending after 1s"},
		"S5: an unhealthy one goes":                              {input(3, "a", "b unready", "c"), "Remove ReplicaUnhealthy b for good"},
		"S5: and a new one is made in the next pass":             {input(3, "a", "b Replaced unready terminating", "c"), "Create ReplicaMissing"},
		"S5: the youngest unhealthy one goes first":              {input(4, "a unready", "b unready young", "c", "d"), "Remove ReplicaUnhealthy b for good"},
		"S6: the first of three":                                 {input(3), "Create ReplicaMissing"},
		"S6: the second only after the first left pending":       {input(3, "a pending fresh"), "Wait ReplicaPending after 5s"},
		"S6: the second while the first starts":                  {input(3, "a unready just fresh"), "Create ReplicaMissing"},
		"S6: the third":                                          {input(3, "a", "b"), "Create ReplicaMissing"},
		"S6: nothing is left to do":                              {input(3, "a", "b", "c"), "Rest"},
		"S13: a pod that could not be made keeps its identity":   {input(1, "aa absent fresh"), "Create ReplicaMissing as aa"},
		"S13: nor does one of whose claims not all were made":    {input(1, "aa absent fresh torn"), "Create ReplicaMissing as aa"},

		"S11: a terminating one is made again on its claims":             {input(2, "a", "b terminating"), "Wait ReplicaStarting"},
		"S11: a terminating one without claims does not count":           {input(2, "a claimless", "b terminating claimless"), "Create ReplicaMissing"},
		"S11: one that terminates on a dead node holds nothing up":       {input(1, "a", "b", "c Replaced terminating unreachable"), "Remove ScalingDown a for good"},
		"S11: nor does one on a node that is not ready for long":         {input(1, "a", "b", "c Replaced terminating notready"), "Remove ScalingDown a for good"},
		"S11: on a node that is not ready it is waited for a while":      {input(1, "a", "b", "c Replaced terminating notready just"), "Wait ReplicaLeaving after 30s"},
		"S11: not ready within the grace is starting":                    {input(1, "a unready just"), "Wait ReplicaStarting after 30s"},
		"S11: unknown within the grace is waited for":                    {input(1, "a unknown just"), "Wait ReplicaStarting after 30s"},
		"S11: unknown for too long is lost":                              {input(2, "a unknown", "b"), "GiveUp ReplicaLost a for good"},
		"S11: an unreachable node may come back":                         {input(1, "a unreachable just"), "Wait ReplicaStarting after 30s"},
		"S11: unreachable for too long is lost":                          {input(2, "a unreachable", "b"), "GiveUp ReplicaLost a for good"},
		"S11: a node that is gone may be registered again":               {input(2, "a gone just", "b"), "Wait ReplicaStarting after 30s"},
		"S11: a node that is gone takes its replica with it":             {input(2, "a gone", "b"), "GiveUp ReplicaLost a for good"},
		"S11: and then its pod by force":                                 {input(2, "a Replaced gone", "b", "c"), "Remove ReplicaLeaving a for good by force"},
		"S11: pending on a gone node is lost, not waited for":            {input(2, "a pending gone", "b"), "GiveUp ReplicaLost a for good"},
		"S11: pending on an unreachable node holds nothing up":           {input(2, "a pending unreachable just"), "Create ReplicaMissing"},
		"S11: of too many the lost one goes first":                       {input(2, "a", "b pending", "c gone", "d unready"), "GiveUp ScalingDown c for good"},
		"S11: of too many the unhealthy one goes before the pending one": {input(2, "a", "b pending", "d unready"), "Remove ScalingDown d for good"},
		"S11: of too many the pending one goes before the starting one":  {input(2, "a unready just", "b pending", "c"), "Remove ScalingDown b for good"},
		"S11: of too many the starting one goes before a ready one":      {input(1, "a", "b unready just"), "Remove ScalingDown b for good"},
		"S11: of too many the youngest ready one goes":                   {input(1, "a", "b young"), "Remove ScalingDown b for good"},
		"of too many the one that costs less goes, even if it is older":  {input(1, "a cheap", "b young"), "Remove ScalingDown a for good"},
		"of too many the one without the data goes":                      {input(1, "a young", "b fresh"), "Remove ScalingDown b for good"},
		"a pod without claims that has ended is replaced":                {input(1, "a ended claimless fresh"), "Remove ReplicaFinished a for good"},
		"an unhealthy one is kept while another one starts":              {input(3, "a unready just", "b unready", "c"), "Wait ReplicaStarting after 30s"},
		"replacing did not help, so the next one gets more time":         {change(input(1, "a unready"), func(in *Input) { in.Futile = 4 }), "Wait ReplicaStarting after 30s"},
		"most nodes are unreachable, and nobody is lost for that":        {change(input(2, "a unreachable", "b unknown"), func(in *Input) { in.Blackout = true }), "Wait ReplicaStarting after 30s"},
		"most nodes are unreachable, and one is gone":                    {change(input(2, "a unreachable", "b gone"), func(in *Input) { in.Blackout = true }), "Wait ReplicaStarting after 30s"},
	})
}

// TestDecide_sameClaims: while an identity can come back on its claims, it does.
func TestDecide_sameClaims(t *testing.T) {
	blocked := func(in Input, names ...string) Input {
		in.Blocked = map[string]bool{}
		for _, n := range names {
			in.Blocked[n] = true
		}
		return in
	}
	try(t, map[string]expectation{
		"a pod ended with a reboot, and makes room for one on the same claims": {input(1, "a ended"), "Remove ReplicaFinished a"},
		"one that ended at once is not made again at once":                     {input(1, "a ended just"), "Wait ReplicaStarting"},
		"the pod is made on the same claims":                                   {input(1, "a absent"), "Create ReplicaMissing as a"},
		"even if another one is pending":                                       {input(2, "a absent", "b pending"), "Create ReplicaMissing as a"},
		"one whose pod is away during a change is not one too many":            {input(3, "a absent", "b", "c", "d unready just fresh"), "Create ReplicaMissing as a"},
		"nor is one whose node is being drained":                               {input(3, "a absent closed just", "b", "c", "d unready just fresh"), "Wait ReplicaStarting after 30s"},
		"its node takes no pods, and may do so soon":                           {input(2, "a absent closed just", "b"), "Wait ReplicaStarting after 30s"},
		"its node takes no pods for too long":                                  {input(2, "a absent closed", "b"), "GiveUp ReplicaLost a for good"},
		"its node does not answer":                                             {input(2, "a absent unreachable just", "b"), "Wait ReplicaStarting after 30s"},
		"its claims were deleted, and there is nothing to come back to":        {input(3, "a absent torn", "b", "c"), "GiveUp ReplicaLost a for good"},
		"its claims are being deleted":                                         {input(3, "a absent dying", "b", "c"), "GiveUp ReplicaLost a for good"},
		"claims that are being deleted under a pod that runs":                  {input(1, "a dying"), "Rest"},
		"a claim was deleted before its pod started":                           {input(1, "a pending fresh torn"), "Create ReplicaMissing as a"},
		"a claim is being deleted before its pod started":                      {input(1, "a pending fresh dying"), "Wait ReplicaPending after 5s"},

		"a budget keeps the unhealthy one, and the missing one is made":   {blocked(input(3, "a", "b unready"), "b"), "Create ReplicaMissing"},
		"a budget keeps the pod that was given up, and a new one is made": {blocked(input(2, "a", "b Replaced"), "b"), "Create ReplicaMissing"},
		"a budget keeps the one too many, and no other goes for it":       {blocked(input(1, "a", "b young"), "b"), "Rest"},
		"a budget keeps one, and another unhealthy one goes":              {blocked(input(5, "a unready young fresh", "b unready fresh", "c", "d", "e"), "a"), "Remove ReplicaUnhealthy b for good"},

		"pending for too long, and the missing one is made":             {input(3, "a", "b stuck"), "Create ReplicaMissing"},
		"pending for too long, and a lost one is replaced":              {input(4, "a gone", "b stuck unplaced", "c", "d"), "GiveUp ReplicaLost a for good"},
		"pending for too long on its node is replaced":                  {input(2, "a", "b stuck fresh"), "Remove ReplicaUnhealthy b for good"},
		"preparing itself for long, and the missing one is made":        {input(3, "a", "b stuck fresh busy"), "Create ReplicaMissing"},
		"preparing itself for long, and not replaced for it":            {input(2, "a", "b stuck fresh busy"), "Wait ReplicaPending"},
		"pending for too long and without a place: none would have one": {input(2, "a", "b stuck fresh unplaced"), "Wait ReplicaPending"},
	})
}

// TestDecide_guard: at most one is given up at a time, and never a majority.
func TestDecide_guard(t *testing.T) {
	const held = "Wait QuorumGuard"
	approved := func(in Input, who ...string) Input {
		in.Plan = &Plan{Digest: "d", Replicas: who, Approved: true}
		return in
	}
	shown := func(in Input, who ...string) Input { in.Plan = &Plan{Digest: "d", Replicas: who}; return in }
	try(t, map[string]expectation{
		"two of five are silent, and one is replaced":                {input(5, "a unreachable", "b unreachable", "c", "d", "e"), "GiveUp ReplicaLost a for good"},
		"the second waits for the new one":                           {input(5, "f unready just fresh", "b unreachable", "c", "d", "e"), held + " after 30s"},
		"and goes when it has the data":                              {input(5, "f", "b unreachable", "c", "d", "e"), "GiveUp ReplicaLost b for good"},
		"three of five are silent at once":                           {input(5, "a unreachable", "b unreachable", "c unreachable", "d", "e"), held},
		"two of three are silent at once":                            {input(3, "a unreachable", "b unreachable", "c"), held},
		"one of three while another one starts again":                {input(3, "a unreachable", "b unready just", "c"), held + " after 30s"},
		"one of two is silent, and replaced":                         {input(2, "a unreachable", "b"), "GiveUp ReplicaLost a for good"},
		"the only one is silent and stays":                           {input(1, "a unreachable"), held},
		"the only one that has the data of three":                    {input(3, "a unreachable", "b fresh unready just", "c fresh unready just"), held + " after 30s"},
		"one that never had the data goes at any time":               {input(3, "a unreachable fresh", "b unreachable", "c unreachable"), "GiveUp ReplicaLost a for good"},
		"two of three are not ready":                                 {input(3, "a unready", "b unready", "c"), held},
		"a person agreed to both":                                    {approved(input(3, "a unreachable", "b unreachable", "c"), "a", "b"), "GiveUp ReplicaLost a for good"},
		"a person agreed, and it need not wait for the new one":      {approved(input(3, "n fresh unready just", "b unreachable", "c"), "b"), "GiveUp ReplicaLost b for good"},
		"a person was asked, and agreed to nothing":                  {shown(input(3, "a unreachable", "b unreachable", "c"), "a", "b"), held},
		"a person agreed to another one":                             {approved(input(3, "a unreachable", "b unreachable", "c"), "x"), held},
		"what a person agreed to is back":                            {approved(input(3, "a", "b unreachable just", "c"), "a", "b"), "Wait ReplicaStarting after 30s"},
		"one of three, and of another nobody knows":                  {input(3, "a unreachable", "b doubtful", "c"), held + " after 30s"},
		"one of three, and another failed under maintenance":         {input(3, "a unreachable", "b doubtful maintained", "c"), held + " after 30s"},
		"one of which nobody knows is not given up":                  {input(3, "a doubtful", "b", "c"), "Wait ReplicaStarting after 30s"},
		"no other node has room":                                     {input(3, "a unreachable crowded", "b", "c"), "Wait NoRoom after 30s"},
		"no other node has room, and a person agreed":                {approved(input(3, "a unreachable crowded", "b", "c"), "a"), "GiveUp ReplicaLost a for good"},
		"a person was asked for it, and agreed to nothing":           {shown(input(3, "a unreachable crowded", "b", "c"), "a"), "Wait NoRoom after 30s"},
		"no other node has room for one of two":                      {input(5, "a unreachable crowded", "b unreachable", "c", "d", "e"), "GiveUp ReplicaLost b for good"},
		"its disks failed while its node lives":                      {input(3, "a diskfailed", "b", "c"), "GiveUp ReplicaLost a for good"},
		"its disks failed just now":                                  {input(3, "a diskfailed just", "b", "c"), "Wait ReplicaStarting after 30s"},
		"disks fail while nodes are silent":                          {change(input(3, "a diskfailed", "b", "c"), func(in *Input) { in.Blackout = true }), "GiveUp ReplicaLost a for good"},
		"a person said that its disks are lost":                      {input(3, "a disklost", "b", "c"), "Remove ReplicaLost a for good"},
		"a person maintains its disks, and its node is silent":       {input(3, "a maintained unreachable", "b", "c"), "Wait ReplicaStarting after 30s"},
		"a person maintains its disks, and it is not ready":          {input(3, "a maintained unready", "b", "c"), "Wait ReplicaStarting"},
		"a node that is not ready counts as silent":                  {input(3, "a notready", "b", "c"), "GiveUp ReplicaLost a for good"},
		"so does one that a person took out of service":              {input(3, "a shutdown", "b", "c"), "GiveUp ReplicaLost a for good"},
		"fewer are wanted, and none of those that stay has the data": {input(1, "a unready just", "b unready just"), "Wait LastCopy after 30s"},
		"fewer are wanted, and the one that has the data stays":      {input(1, "a fresh unready just", "b"), "Remove ScalingDown a for good"},
		"none are wanted, and the last one goes":                     {input(0, "a unready"), "Remove ScalingDown a"},
	})
}

// TestDecide_synced: ready is not enough where replicas tell when they have the data.
func TestDecide_synced(t *testing.T) {
	declared := func(in Input) Input { in.Declared = true; return in }
	try(t, map[string]expectation{
		"all have the data":                              {declared(input(2, "a synced", "b synced")), "Rest"},
		"one copies it still":                            {declared(input(2, "a synced", "b fresh")), "Wait ReplicaNotSynced"},
		"the next is not given up before it has it":      {declared(input(3, "a synced", "b fresh", "c unreachable")), "Wait QuorumGuard"},
		"a ready one that lacks it is no copy":           {declared(input(2, "a", "b unreachable")), "Wait QuorumGuard"},
		"of too many the one that lacks it goes":         {declared(input(1, "a synced young", "b")), "Remove ScalingDown b for good"},
		"of too many the last that has it stays":         {declared(input(1, "a synced unready just", "b")), "Wait LastCopy after 30s"},
		"none ever told, and one is lost":                {declared(input(3, "a served unreachable", "b served", "c served")), "Wait QuorumGuard"},
		"none ever told, and one never served":           {declared(input(3, "a fresh unreachable", "b served", "c served")), "GiveUp ReplicaLost a for good"},
		"none ever told, and the claims are gone":        {declared(input(3, "a served absent torn", "b served", "c served")), "Wait QuorumGuard"},
		"none ever told, and fewer are wanted":           {declared(input(1, "a served", "b served")), "Wait LastCopy"},
		"none ever told, and none are wanted":            {declared(input(0, "a served")), "Remove ScalingDown a"},
		"one told, and one that did not goes":            {declared(input(2, "a synced", "b served unreachable")), "GiveUp ReplicaLost b for good"},
		"they need not tell any more":                    {input(3, "a served unreachable", "b unreachable", "c"), "Wait QuorumGuard"},
		"an old one stays until the new one has it":      {declared(input(2, "a old synced", "b old synced", "c fresh")), "Wait Rolling"},
		"an old one goes when the new one has it":        {declared(input(2, "a old synced", "b old synced", "c synced")), "Remove Rolling a for good"},
		"the old one that has it is not the first to go": {declared(input(2, "a old synced young", "b old", "c synced")), "Remove Rolling b for good"},
	})
}

// TestDecide_parked: with none wanted the copies stay, and are taken up again.
func TestDecide_parked(t *testing.T) {
	discard := func(in Input) Input { in.Discard = true; return in }
	try(t, map[string]expectation{
		"the pod goes, and the replica stays":              {input(0, "a", "b"), "Remove ScalingDown a"},
		"the next waits until the one before has ended":    {input(0, "a terminating", "b"), "Wait ReplicaLeaving"},
		"not for one on a node that does not answer":       {input(0, "a terminating unreachable", "b"), "Remove ScalingDown b"},
		"the last one is ending":                           {input(0, "a absent", "b terminating"), "Wait ReplicaLeaving"},
		"all rest":                                         {input(0, "a absent", "b absent", "c absent fresh"), "Rest"},
		"one whose node is gone for long is not given up":  {input(0, "a absent gone"), "Rest"},
		"nor one whose claims are gone":                    {input(0, "a absent torn"), "Rest"},
		"what has no claims has nothing to come back on":   {input(0, "a claimless"), "Remove ScalingDown a for good"},
		"if their claims go, they are given up":            {discard(input(0, "a", "b absent")), "GiveUp ScalingDown b for good"},
		"they come back":                                   {input(2, "a absent", "b absent"), "Create ReplicaMissing as b"},
		"the next one, too":                                {input(2, "a absent", "b pending"), "Create ReplicaMissing as a"},
		"and none is made beside them":                     {input(2, "a unready just", "b unready just"), "Wait ReplicaStarting after 30s"},
		"fewer are wanted than before":                     {input(1, "a absent", "b absent", "c absent young"), "Create ReplicaMissing as b"},
		"those that were not wanted wait":                  {input(1, "a unready just", "b absent", "c absent"), "Wait LastCopy after 30s"},
		"and go when the one that is has the data":         {input(1, "a", "b absent", "c absent"), "GiveUp ScalingDown b for good"},
		"but come if it does not become ready":             {input(1, "a unready", "b absent", "c absent"), "Create ReplicaMissing as c"},
		"or has no data":                                   {input(1, "a unready just fresh", "b absent", "c absent"), "Create ReplicaMissing as c"},
		"one was on a node that is gone, and others serve": {input(3, "a absent gone", "b", "c"), "GiveUp ReplicaLost a for good"},
		"one was on a node that is gone, and others come":  {input(3, "a absent gone", "b absent", "c absent"), "Create ReplicaMissing as c"},
	})
}

// TestDecide_unrecorded: nothing begins empty while claims that nobody knows may hold the data.
func TestDecide_unrecorded(t *testing.T) {
	unknown := func(in Input) Input { in.Unrecorded = 2; return in }
	unowned := func(in Input) Input { in.Unowned = 2; return in }
	standing := func(in Input) Input { in.Unowned, in.Standing = 1, 1; return in }
	undecided := func(in Input) Input { in.Undecided = []string{"db-data-1"}; return in }
	declared := func(in Input) Input { in.Declared = true; return in }
	try(t, map[string]expectation{
		"none is known, and none is made":             {unknown(input(3)), "Wait ReplicasUnknown"},
		"nor is one that never had data begun":        {unknown(input(3, "a absent fresh")), "Wait ReplicasUnknown"},
		"what was given up says nothing of them":      {unknown(input(3, "a absent Replaced")), "Wait ReplicasUnknown"},
		"one that has the data comes back":            {unknown(input(1, "a absent")), "Create ReplicaMissing as a"},
		"the one that a person took up comes back":    {unknown(input(3, "a absent")), "Create ReplicaMissing as a"},
		"beside it no other one is made":              {unknown(input(3, "a")), "Wait ReplicasUnknown"},
		"nor while it starts":                         {unknown(input(3, "a unready just")), "Wait ReplicasUnknown after 30s"},
		"nor beside one that serves without a record": {unknown(input(3, "a fresh")), "Wait ReplicasUnknown"},
		"nor beside half":                             {unknown(input(4, "a", "b")), "Wait ReplicasUnknown"},
		"beside a majority one is made":               {unknown(input(3, "a", "b")), "Create ReplicaMissing"},
		"so it is in the place of one that was lost":  {unknown(input(2, "a", "b absent Replaced spared")), "Create ReplicaMissing"},
		"those that never told are no majority":       {declared(unknown(input(3, "a fresh", "b fresh"))), "Wait ReplicasUnknown"},
		"none is wanted":                              {unknown(input(0)), "Rest"},
		"pods run that nobody controls":               {unowned(input(3)), "Wait ReplicasUnknown"},
		"nor is a minority filled up beside them":     {unowned(input(3, "a")), "Wait ReplicasUnknown"},
		"one with the data comes back beside them":    {unowned(input(1, "a absent")), "Create ReplicaMissing as a"},
		"beside a majority they matter no more":       {unowned(input(3, "a", "b")), "Create ReplicaMissing"},
		"but if one has the place, it waits":          {standing(input(3, "a", "b")), "Wait ReplicasUnknown"},
		"and what may come back is not given up":      {standing(input(3, "a", "b", "c absent gone")), "Wait ReplicasUnknown"},
		"one with the data comes back all the same":   {standing(input(3, "a", "b", "c absent")), "Create ReplicaMissing as c"},
		"more are wanted than it stands for":          {standing(input(4, "a", "b", "c absent Replaced spared")), "Create ReplicaMissing"},
		"a pod that is not its own has its name":      {input(2, "a", "b absent occupied"), "Wait ReplicaMissing"},
		"so it has if its claims are not seen":        {input(2, "a", "b absent torn occupied"), "Wait ReplicaMissing"},
		"the pods are gone, and nobody decided":       {undecided(input(3)), "Wait ReplicasUnknown"},
		"nor is a minority filled up then":            {undecided(input(3, "a")), "Wait ReplicasUnknown"},
		"beside a majority one is made, too":          {undecided(input(3, "a", "b")), "Create ReplicaMissing"},
		"what was given up is ended all the same":     {unknown(input(3, "a Replaced")), "Remove ReplicaLeaving a for good"},
		"one too many that never had the data leaves": {unknown(input(1, "a fresh unready just", "b fresh pending")), "Remove ScalingDown b for good"},
	})
}

func TestDecide_changedTemplate(t *testing.T) {
	onDelete := func(in Input) Input { in.OnDelete = true; return in }
	slow := func(in Input) Input { in.MinReady = 2 * time.Minute; return in }
	set := func(surge, unavailable, partition int, in Input) Input {
		in.Surge, in.Unavailable, in.Partition = surge, unavailable, partition
		return in
	}
	try(t, map[string]expectation{
		"the new one comes first":                                     {input(2, "a old", "b old"), "Create Rolling"},
		"the new one is pending":                                      {input(2, "a old", "b old", "c pending fresh"), "Wait ReplicaPending after 5s"},
		"the new one is starting":                                     {input(2, "a old", "b old", "c unready just fresh"), "Wait Rolling after 30s"},
		"the new one is ready, and not for long enough":               {slow(input(2, "a old", "b old", "c just fresh")), "Wait Rolling after 30s"},
		"the new one is available, and an old one goes":               {input(2, "a old", "b old", "c"), "Remove Rolling a for good"},
		"the old one that is not ready goes first":                    {input(2, "a old", "b old unready just", "c"), "Remove Rolling b for good"},
		"the old one ends, and the next new one is made":              {input(2, "a old Rolled terminating", "b old", "c"), "Create Rolling"},
		"the last old one waits until the first has ended":            {input(2, "a old Rolled terminating", "b old", "c", "d"), "Wait Rolling"},
		"the last old one goes":                                       {input(2, "b old", "c", "d"), "Remove Rolling b for good"},
		"all are new":                                                 {input(2, "c", "d"), "Rest"},
		"a pending one of the old template is not waited for":         {input(2, "a old", "b old pending fresh"), "Remove Rolling b for good"},
		"if it has data, only its pod is made anew":                   {input(2, "a old", "b old pending"), "Remove Rolling b"},
		"the new template does not work, and each try gets more time": {change(input(2, "a old", "b old", "c unready just fresh"), func(in *Input) { in.Futile = 1 }), "Wait RolloutStalled after 30s"},
		"the new one is unhealthy, and is replaced":                   {input(3, "a old", "b old", "c", "d unready fresh"), "Remove ReplicaUnhealthy d for good"},
		"the broken new one is old now, and goes":                     {input(2, "a", "b", "c old unready fresh"), "Remove ReplicaUnhealthy c for good"},
		"one is lost during the change":                               {input(3, "a old", "b old gone", "c", "d"), "GiveUp ReplicaLost b for good"},
		"one is missing during the change":                            {input(2, "a old"), "Create ReplicaMissing"},
		"scaled down during the change":                               {input(1, "a old", "b old", "c"), "Remove ScalingDown a for good"},
		"scaled to none":                                              {input(0, "a old"), "Remove ScalingDown a"},
		"on delete: the old ones stay":                                {onDelete(input(2, "a old", "b old")), "Rest"},
		"on delete: somebody deleted one":                             {onDelete(input(2, "a old terminating", "b old")), "Wait ReplicaStarting"},
		"on delete: and its pod is made again":                        {onDelete(input(2, "a absent", "b old")), "Create ReplicaMissing as a"},
		"on delete: no room is made for a new one":                    {onDelete(input(2, "a old", "b old", "c")), "Remove ScalingDown a for good"},

		"the only one waits for a person":           {input(1, "a old"), "Wait ApprovalNeeded"},
		"the only one that never had data does not": {input(1, "a old fresh"), "Create Rolling"},
		"a person agreed":                           {change(input(1, "a old"), func(in *Input) { in.Plan = &Plan{Replicas: []string{"a"}, Approved: true} }), "Create Rolling"},
		"and the new one is there":                  {change(input(1, "a old", "b"), func(in *Input) { in.Plan = &Plan{Replicas: []string{"a"}, Approved: true} }), "Remove Rolling a for good"},
		"the only one, on its claims":               {set(0, 1, 0, input(1, "a old")), "Remove Rolling a"},

		"as many nodes as replicas: pods are made anew on their claims": {set(0, 1, 0, input(3, "a old", "b old", "c old")), "Remove Rolling a"},
		"one at a time":                   {set(0, 1, 0, input(3, "a unready just", "b old", "c old")), "Wait Rolling after 30s"},
		"two at a time":                   {set(0, 2, 0, input(3, "a unready just", "b old", "c old")), "Remove Rolling b"},
		"the one that is not ready first": {set(0, 1, 0, input(3, "a old", "b old unready just", "c old")), "Remove Rolling b"},
		"the changed one does not become ready, and is not given up": {set(0, 1, 0, input(3, "a unready", "b old", "c old")), "Wait RolloutStalled"},
		"the template is corrected, and it is made anew":             {set(0, 1, 0, input(3, "a old unready", "b old", "c old")), "Remove Rolling a"},
		"only its image has changed":                                 {set(0, 1, 0, input(3, "a old patchable", "b old patchable", "c old patchable")), "Update Rolling a"},
		"but its pod never ran":                                      {set(0, 1, 0, input(3, "a old patchable stuck", "b old patchable", "c old patchable")), "Remove Rolling a"},
		"one image at a time":                                        {set(0, 1, 0, input(3, "a unready just", "b old patchable", "c old patchable")), "Wait Rolling after 30s"},
		"with one more nothing is in place":                          {set(1, 0, 0, input(3, "a old patchable", "b old patchable", "c old patchable")), "Create Rolling"},
		"nor where a person deletes the pods":                        {onDelete(set(0, 1, 0, input(2, "a old patchable", "b old patchable"))), "Rest"},
		"the partition keeps the others":                             {set(0, 1, 2, input(3, "a", "b old", "c old")), "Rest"},
		"the partition lets one go":                                  {set(1, 0, 2, input(3, "a old", "b old", "c old")), "Create Rolling"},
		"the partition is reached":                                   {set(1, 0, 2, input(3, "d", "b old", "c old")), "Rest"},
		"two more at a time":                                         {set(2, 0, 0, input(3, "a old", "b old", "c old", "d unready just fresh")), "Create Rolling"},
		"two more at a time, and no third":                           {set(2, 0, 0, input(3, "a old", "b old", "c old", "d unready just fresh", "e unready just fresh")), "Wait Rolling after 30s"},
	})
}

func TestDecide_explains(t *testing.T) {
	for _, in := range []Input{
		input(1), input(0, "a"), input(1, "a pending"), input(1, "a unready"), input(1, "a unready just"), input(1, "a unreachable just"),
		input(1, "a old"), input(2, "a old", "b old"), input(1, "a Scaled terminating", "b"), input(3, "a gone", "b gone", "c"), input(1, "a diskfailed"),
	} {
		if d := Decide(in); d.Message == "" || !strings.HasSuffix(d.Message, ".") || d.Reason == "" {
			t.Errorf("%+v", d)
		}
	}
	// The claims come first: what nobody named begins empty once the pods are gone.
	in := input(1)
	in.Unowned = 2
	if d := Decide(in); strings.Contains(d.Message, "spec.adopt") || !strings.Contains(d.Message, "Then delete these pods") {
		t.Errorf("%+v", d)
	}
	for i := range 12 {
		in.Undecided = append(in.Undecided, fmt.Sprintf("c%02d", i))
	}
	d := Decide(in)
	if before, _, found := strings.Cut(d.Message, "delete these pods"); !found || !strings.Contains(before, "spec.adopt") || !strings.Contains(before, "c09 and 2 more") {
		t.Errorf("%+v", d)
	}
	in = input(2, "a unreachable", "b unreachable")
	in.Blackout = true
	if d := Decide(in); !strings.Contains(d.Message, "too many others") || d.Reason != v1alpha1.ReasonReplicaStarting || strings.Contains(d.Message, "do not exist") {
		t.Errorf("%+v", d)
	}
}

// TestDecide_namesNodesThatDoNotExist: whoever waits for nodes that never come back learns which, and what to do.
func TestDecide_namesNodesThatDoNotExist(t *testing.T) {
	in := input(2, "a unreachable", "b unreachable")
	in.Blackout, in.Vanished = true, []string{"n7", "n3"}
	if d := Decide(in); !strings.Contains(d.Message, "Nodes that do not exist and that count: n3, n7.") || !strings.Contains(d.Message, "delete these claims") {
		t.Errorf("%+v", d)
	}
}

func TestSummarize(t *testing.T) {
	in := input(3, "a", "b old", "c just", "d terminating", "e unready", "f unreachable just", "g absent", "h Scaled")
	in.MinReady = 2 * time.Minute
	want := Summary{Live: 7, Pods: 5, Ready: 3, Available: 2, Synced: 2, Updated: 4, Revisions: map[string]int{"new": 4, "old": 1}, Full: []string{"b", "a"}}
	if diff := cmp.Diff(want, Summarize(in)); diff != "" {
		t.Error(diff)
	}
}

// TestOffer: a plan is approved by its own digest only, once, and after it was shown.
func TestOffer(t *testing.T) {
	in := input(3, "a unreachable", "b unreachable", "c")
	first := Offer(in, "uid", "")
	if first == nil || !slices.Equal(first.Replicas, []string{"a", "b"}) || first.Approved {
		t.Fatalf("%+v", first)
	}
	if early := Offer(in, "uid", first.Digest); early.Approved {
		t.Error("what was not shown is approved")
	}
	in.Plan = first
	if diff := cmp.Diff(first, Offer(in, "uid", "another")); diff != "" {
		t.Errorf("a wrong approval changes it: %s", diff)
	}
	agreed := Offer(in, "uid", first.Digest)
	if !agreed.Approved || agreed.Digest != first.Digest {
		t.Errorf("%+v", agreed)
	}
	in.Plan = agreed
	in.Replicas[0].Fate = Replaced
	if rest := Offer(in, "uid", first.Digest); !rest.Approved || !slices.Equal(rest.Replicas, []string{"b"}) {
		t.Errorf("the second of two: %+v", rest)
	}
	in.Replicas[0].Fate, in.Replicas[0].Node = "", NodeFine
	in.Replicas[1].Node = NodeFine
	if p := Offer(in, "uid", first.Digest); p != nil {
		t.Errorf("all are back: %+v", p)
	}
	in = input(3, "a unreachable", "b unreachable", "c")
	in.Now = now.Add(time.Hour)
	if again := Offer(in, "uid", first.Digest); again.Approved || again.Digest == first.Digest {
		t.Errorf("an approval of before counts: %+v", again)
	}
	in.Plan = first
	if another := Offer(in, "other", first.Digest[1:]); another.Digest == first.Digest {
		t.Error("two StatefulClusters have one digest")
	}
}

// TestOffer_more: one more that would be given up makes another plan.
func TestOffer_more(t *testing.T) {
	in := input(3, "b unreachable", "c", "d unreachable")
	in.Plan = &Plan{Digest: "d", Replicas: []string{"b"}, Approved: true}
	if more := Offer(in, "uid", "d"); more.Approved || !slices.Equal(more.Replicas, []string{"b", "d"}) {
		t.Errorf("nobody agreed to that: %+v", more)
	}
}

// TestOffer_noRoom: a person may know of room that nobody else does.
func TestOffer_noRoom(t *testing.T) {
	if p := Offer(input(3, "a unreachable crowded", "b", "c"), "uid", ""); p == nil || !slices.Equal(p.Replicas, []string{"a"}) {
		t.Errorf("%+v", p)
	}
	// One that never had the data is kept for that, too: a person lets it go the same way.
	in := input(3, "a unreachable crowded fresh", "b", "c")
	p := Offer(in, "uid", "")
	if p == nil || !slices.Equal(p.Replicas, []string{"a"}) {
		t.Fatalf("%+v", p)
	}
	in.Plan = p
	if d := Decide(in); d.Reason != v1alpha1.ReasonNoRoom || !strings.Contains(d.Message, "room for it. Node n2 is short of cpu. To give up a all the same") {
		t.Errorf("%+v", d)
	}
	if in.Plan = Offer(in, "uid", p.Digest); !in.Plan.Approved || Decide(in).Action != GiveUp {
		t.Errorf("%+v", Decide(in))
	}
}

// TestSteady: ready time is what was seen, whatever the clock says.
func TestSteady(t *testing.T) {
	in, r := change(input(1), func(in *Input) { in.MinReady = 45 * time.Second }), with("a just")
	steady := Steady{}
	look := func(after, want time.Duration) {
		t.Helper()
		in.Now = in.Now.Add(after)
		if steady = steady.Next(in, r); steady.For != want {
			t.Errorf("%+v, want %s", steady, want)
		}
	}
	look(time.Hour, 0)
	look(10*time.Second, 10*time.Second)
	look(time.Hour, 40*time.Second)
	look(-2*time.Hour, 40*time.Second)
	r.Steady = steady
	if h, after := in.Health(r); h != Young || after != 5*time.Second {
		t.Errorf("%d after %s", h, after)
	}
	r.Node = NodeUnreachable
	look(time.Minute, 40*time.Second)
	r.Node = NodeFine
	look(20*time.Second, 45*time.Second)
	r.Steady = steady
	if h, _ := in.Health(r); h != Available || !steady.Looked.IsZero() {
		t.Errorf("%d, %+v", h, steady)
	}
	written := steady
	if look(time.Hour, 45*time.Second); steady != written {
		t.Errorf("it changes on and on: %+v", steady)
	}
	r.ReadinessSince = in.Now
	look(time.Second, 0)
	look(30*time.Second, 30*time.Second)
	in.MinReady = time.Minute
	look(40*time.Second, time.Minute)
	in.MinReady = 90 * time.Second
	look(40*time.Second, time.Minute)
	look(40*time.Second, 90*time.Second)
	r.Readiness = NotReady
	if look(time.Second, 0); steady != (Steady{}) {
		t.Errorf("%+v", steady)
	}
}

// TestLate: a replica that starts is given its time by what was seen, whatever the clock says.
func TestLate(t *testing.T) {
	for name, c := range map[string]struct {
		description string
		waits, gone Health
	}{
		"it is pending":   {"a pending", Waiting, Stuck},
		"it is not ready": {"a unready", Starting, Unhealthy},
	} {
		t.Run(name, func(t *testing.T) {
			in, r := change(input(1), func(in *Input) { in.Grace = 45 * time.Second }), with(c.description)
			late := Late{}
			look := func(after, want time.Duration, health Health) {
				t.Helper()
				in.Now = in.Now.Add(after)
				late = late.Next(in, r)
				r.Late = late
				if h, change := in.Health(r); late.For != want || h != health || health == c.waits && (change <= 0 || change > Look) {
					t.Errorf("%+v, want %s; health %d, again after %s", late, want, h, change)
				}
			}
			look(time.Hour, 0, c.waits)
			look(10*time.Second, 10*time.Second, c.waits)
			look(time.Hour, 40*time.Second, c.waits)
			look(-3*time.Hour, 40*time.Second, c.waits)
			// What its pod tells may go back: its containers were restarted so often that nobody knows when they started first.
			r.PendingSince, r.ReadinessSince = r.PendingSince.Add(-time.Minute), r.ReadinessSince.Add(-time.Minute)
			look(2*time.Second, 42*time.Second, c.waits)
			look(20*time.Second, 45*time.Second, c.gone)
			written := late
			if look(time.Hour, 45*time.Second, c.gone); late != written || !late.Looked.IsZero() {
				t.Errorf("it changes on and on: %+v", late)
			}
			// Each replacement that did not help doubles the time.
			in.Futile = 1
			look(10*time.Second, 45*time.Second, c.waits)
			look(time.Minute, 75*time.Second, c.waits)
			look(time.Minute, 90*time.Second, c.gone)
			// It starts anew.
			r.PendingSince, r.ReadinessSince = in.Now, in.Now
			look(time.Hour, 0, c.waits)
			look(20*time.Second, 20*time.Second, c.waits)
			r.Node = NodeUnreachable
			if late = late.Next(change(in, func(in *Input) { in.Now = in.Now.Add(20 * time.Second) }), r); late.For != 20*time.Second {
				t.Errorf("out of reach: %+v", late)
			}
			if (Late{}).Next(in, r) != (Late{}) {
				t.Error("nobody knows when it began")
			}
			r.Node = NodeFine
			for _, word := range []string{"terminating", "absent", "ended"} {
				other := r
				words[word](&other)
				if late.Next(in, other) != (Late{}) {
					t.Errorf("%s: it is not on its way", word)
				}
			}
		})
	}
}

// TestDiskState_With: maintenance of what holds one volume outweighs the failure of what holds another; that a person said that one is lost does not.
func TestDiskState_With(t *testing.T) {
	for _, c := range [][3]DiskState{
		{DiskFine, DiskFine, DiskFine},
		{DiskFine, DiskFailed, DiskFailed},
		{DiskFine, DiskSuspended, DiskSuspended},
		{DiskSuspended, DiskFailed, DiskSuspended},
		{DiskFailed, DiskFailed, DiskFailed},
		{DiskLost, DiskFailed, DiskLost},
		{DiskLost, DiskSuspended, DiskLost},
		{DiskLost, DiskFine, DiskLost},
	} {
		if a, b := c[0].With(c[1]), c[1].With(c[0]); a != c[2] || b != c[2] {
			t.Errorf("%d and %d: %d, %d", c[0], c[1], a, b)
		}
	}
}

// TestSound: what has no pod is tried before a device beside it is held against it.
func TestSound(t *testing.T) {
	for description, want := range map[string]bool{
		"a": true, "a absent": true, "a ended": true, "a unready": false, "a pending": false, "a unknown": false,
	} {
		if with(description).Sound() != want {
			t.Errorf("%s: %t", description, !want)
		}
	}
}

func TestTally(t *testing.T) {
	in, r := input(1), with("a unreachable")
	look := func(tally Tally, after time.Duration) Tally { in.Now = in.Now.Add(after); return tally.Next(in, r) }
	tally := look(Tally{}, 0)
	if tally.Away != 0 {
		t.Errorf("the first look counts: %+v", tally)
	}
	if tally = look(tally, 10*time.Second); tally.Away != 10*time.Second {
		t.Errorf("%+v", tally)
	}
	if tally = look(tally, 24*time.Hour); tally.Away != 40*time.Second {
		t.Errorf("a clock that jumps counts: %+v", tally)
	}
	if tally = look(tally, -48*time.Hour); tally.Away != 40*time.Second {
		t.Errorf("a clock that jumps back counts: %+v", tally)
	}
	for range 100 {
		if tally = look(tally, 10*time.Millisecond); tally.Away > 41*time.Second {
			t.Fatalf("looking often counts more: %+v", tally)
		}
	}
	in.Blackout = true
	if tally = look(tally, 30*time.Second); tally.Away > 42*time.Second {
		t.Errorf("a blackout counts: %+v", tally)
	}
	in.Blackout = false
	r.Node = NodeFine
	if tally = look(tally, 10*time.Second); tally.Away > 32*time.Second || tally.Away < 30*time.Second {
		t.Errorf("back for a while: %+v", tally)
	}
	r.Node = NodeGone
	if tally = look(tally, 30*time.Second); tally.Away < time.Minute {
		t.Errorf("it does not add up: %+v", tally)
	}
	r.Node = NodeFine
	for range 3 {
		tally = look(tally, 30*time.Second)
	}
	if tally != (Tally{}) {
		t.Errorf("it is never forgotten: %+v", tally)
	}
}

// TestDispose: the policy and the history name claims of replicas that were given up, and no others, and never what may be the only copy.
func TestDispose(t *testing.T) {
	given := func(description string, ago time.Duration) Replica {
		r := with(description + " absent")
		if ago > 0 {
			r.GivenUp = now.Add(-ago)
		}
		return r
	}
	orphans := func(in Input) Input {
		in.Replicas = append(in.Replicas, given("s Scaled", time.Hour), given("r Replaced", 2*time.Hour), given("o Rolled", 3*time.Hour), given("u Replaced", 0), with("p Replaced"))
		return in
	}
	all, history := input(1, "a"), Policy{History: 2}
	for name, c := range map[string]struct {
		in     Input
		policy Policy
		want   string
		after  time.Duration
	}{
		"everything is kept":                      {orphans(all), Policy{History: -1}, "", 0},
		"what was scaled away goes":               {orphans(all), Policy{Scaled: true, History: -1}, "s", 0},
		"what was replaced goes":                  {orphans(all), Policy{Replaced: true, History: -1}, "r o u", 0},
		"nothing before the replacement is there": {orphans(input(1, "a unready")), Policy{Replaced: true}, "", 0},
		"but what was scaled away does":           {orphans(input(1, "a unready")), Policy{Scaled: true}, "s", 0},
		"the last two are kept":                   {orphans(all), history, "o", 0},
		"of those that are kept at all":           {orphans(all), Policy{Scaled: true, History: 1}, "s o", 0},
		"what may be the only copy is":            {orphans(all), Policy{}, "s r o", 0},
		"none while fewer than wanted have data":  {orphans(input(2, "a")), history, "", 0},
		"nothing when none are wanted":            {orphans(input(0)), history, "", 0},
		"nothing by age when none are wanted":     {orphans(input(0)), Policy{History: -1, MaxAge: time.Minute}, "", 0},
		"for two hours and a half":                {orphans(all), Policy{History: -1, MaxAge: 150 * time.Minute}, "o", 30 * time.Minute},
	} {
		ids, after := Dispose(c.in, c.policy)
		if got := strings.Join(ids, " "); got != c.want || after != c.after {
			t.Errorf("%s: %q after %s", name, got, after)
		}
	}
}

// TestDecide_spare: when a replica is given up it is known whether another one serves with the data.
func TestDecide_spare(t *testing.T) {
	approved := func(in Input, who ...string) Input {
		in.Plan = &Plan{Digest: "d", Replicas: who, Approved: true}
		return in
	}
	for name, c := range map[string]struct {
		in   Input
		want bool
	}{
		"another one serves":                 {input(2, "a unreachable", "b"), true},
		"it is the only one":                 {approved(input(1, "a unreachable"), "a"), false},
		"none serves":                        {approved(input(2, "a unreachable", "b unready just"), "a"), false},
		"it never had the data":              {input(1, "a unreachable fresh"), true},
		"none ever told, and it served":      {change(approved(input(1, "a unreachable served"), "a"), func(in *Input) { in.Declared = true }), false},
		"fewer are wanted":                   {input(1, "a", "b"), true},
		"none are wanted, and the claims go": {change(input(0, "a"), func(in *Input) { in.Discard = true }), false},
		"a new one of the changed template":  {input(2, "b old", "c", "d"), true},
	} {
		if d := Decide(c.in); d.Fate == "" || d.Spare != c.want {
			t.Errorf("%s: %s, spare %t", name, d, d.Spare)
		}
	}
}
