package replica

import (
	"fmt"
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
		Name: name, Identity: name, Revision: "new", Created: now.Add(-time.Hour),
		Phase: Running, Readiness: Ready, ReadinessSince: now.Add(-time.Hour), NodeSince: now.Add(-time.Hour),
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
	"old":         func(r *Replica) { r.Revision = "old" },
	"pending":     func(r *Replica) { r.Phase, r.Readiness = Pending, NotReady },
	"ended":       func(r *Replica) { r.Phase, r.Readiness = Finished, NotReady },
	"terminating": func(r *Replica) { r.Terminating = true },
	"unready":     func(r *Replica) { r.Readiness = NotReady },
	"unknown":     func(r *Replica) { r.Readiness = Unknown },
	"just":        func(r *Replica) { r.ReadinessSince, r.NodeSince = now.Add(-time.Minute), now.Add(-time.Minute) },
	"young":       func(r *Replica) { r.Created = now.Add(-time.Minute) },
	"unreachable": func(r *Replica) { r.Node = NodeUnreachable },
	"gone":        func(r *Replica) { r.Node = NodeGone },
}

// input wants a number of replicas and has the described ones.
func input(desired int, descriptions ...string) Input {
	in := Input{Now: now, Desired: desired, Revision: "new", Grace: 5 * time.Minute, NodeGrace: 5 * time.Minute}
	for _, d := range descriptions {
		in.Replicas = append(in.Replicas, with(d))
	}
	return in
}

func (d Decision) String() string {
	out := fmt.Sprintf("%s %s", d.Action, d.Reason)
	if d.Victim != "" {
		out += " " + d.Victim
	}
	if d.Force {
		out += " by force"
	}
	if d.Identity != "" {
		out += " as " + d.Identity
	}
	if d.After > 0 {
		out += " after " + d.After.String()
	}
	return strings.TrimSpace(out)
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		in   Input
		want string
	}{
		"S1: none are wanted, and all go one by one": {input(0, "a", "b"), "Remove ScalingDown a"},
		"S1: none are wanted and none are there":     {input(0), "Rest"},

		"S3: two too many, one goes":                                 {input(3, "a", "b", "c", "d", "e"), "Remove ScalingDown a"},
		"S3: the next waits until the one before has ended":          {input(3, "a terminating", "b", "c", "d", "e"), "Wait ReplicaLeaving"},
		"S3: too many wins though one is pending, which goes first":  {input(1, "a", "b pending"), "Remove ScalingDown b"},
		"S3: too many wins though one is unhealthy":                  {input(1, "a", "b unready"), "Remove ScalingDown b"},
		"S3: a pending one too many does not wait for an ending one": {input(1, "a", "b pending", "c terminating"), "Remove ScalingDown b"},

		"S4: one of two is pending, the third is not made":       {input(3, "a", "b pending"), "Wait ReplicaPending after 5s"},
		"S4: one is pending, an unhealthy one is not removed":    {input(3, "a", "b pending", "c unready"), "Wait ReplicaPending after 5s"},
		"S4: one is pending, and another's patience ends sooner": {func() Input { in := input(2, "a pending", "b unready just"); in.Grace = 61 * time.Second; return in }(), "Wait ReplicaPending after 1s"},
		"S5: an unhealthy one goes":                              {input(3, "a", "b unready", "c"), "Remove ReplicaUnhealthy b"},
		"S5: and a new one is made in the next pass":             {input(3, "a", "b unready terminating", "c"), "Create ReplicaMissing"},
		"S5: the youngest unhealthy one goes first":              {input(3, "a unready", "b unready young", "c"), "Remove ReplicaUnhealthy b"},
		"S6: the first of three":                                 {input(3), "Create ReplicaMissing"},
		"S6: the second only after the first left pending":       {input(3, "a pending"), "Wait ReplicaPending after 5s"},
		"S6: the second while the first starts":                  {input(3, "a unready just"), "Create ReplicaMissing"},
		"S6: the third":                                          {input(3, "a", "b"), "Create ReplicaMissing"},
		"S6: nothing is left to do":                              {input(3, "a", "b", "c"), "Rest"},
		"S13: a pod that could not be made keeps its identity":   {func() Input { in := input(1); in.Reserved = []string{"ff", "aa"}; return in }(), "Create ReplicaMissing as aa"},

		"S11: a terminating one is not one too many":                     {input(1, "a", "b terminating"), "Wait ReplicaLeaving"},
		"S11: a terminating one does not count":                          {input(2, "a", "b terminating"), "Create ReplicaMissing"},
		"S11: one that terminates on a dead node holds nothing up":       {input(1, "a", "b", "c terminating unreachable"), "Remove ScalingDown a"},
		"S11: a terminating unhealthy one blocks nothing":                {input(1, "a", "b terminating unready"), "Wait ReplicaLeaving"},
		"S11: not ready within the grace is starting":                    {input(1, "a unready just"), "Wait ReplicaStarting after 4m0s"},
		"S11: unknown within the grace is waited for":                    {input(1, "a unknown just"), "Wait ReplicaStarting after 4m0s"},
		"S11: unknown for too long is lost":                              {input(1, "a unknown"), "Remove ReplicaLost a"},
		"S11: an unreachable node may come back":                         {input(1, "a unreachable just"), "Wait ReplicaStarting after 4m0s"},
		"S11: unreachable for too long is lost":                          {input(1, "a unreachable"), "Remove ReplicaLost a"},
		"S11: a node that is gone takes its replica with it":             {input(1, "a gone just"), "Remove ReplicaLost a by force"},
		"S11: pending on a gone node is lost, not waited for":            {input(1, "a pending gone"), "Remove ReplicaLost a by force"},
		"S11: pending on an unreachable node is waited for":              {input(1, "a pending unreachable just"), "Wait ReplicaPending after 5s"},
		"S11: pending on a node unreachable for too long is lost":        {input(1, "a pending unreachable"), "Remove ReplicaLost a"},
		"S11: of too many the lost one goes first":                       {input(2, "a", "b pending", "c gone", "d unready"), "Remove ScalingDown c by force"},
		"S11: of too many the unhealthy one goes before the pending one": {input(2, "a", "b pending", "d unready"), "Remove ScalingDown d"},
		"S11: of too many the pending one goes before the starting one":  {input(1, "a unready just", "b pending"), "Remove ScalingDown b"},
		"S11: of too many the starting one goes before a ready one":      {input(1, "a", "b unready just"), "Remove ScalingDown b"},
		"S11: of too many the youngest ready one goes":                   {input(1, "a", "b young"), "Remove ScalingDown b"},
		"a pod that has ended is replaced":                               {input(1, "a ended"), "Remove ReplicaFinished a"},
		"a lost one is replaced though another one starts":               {input(2, "a unready just", "b gone"), "Remove ReplicaLost b by force"},
		"an unhealthy one is kept while another one starts":              {input(2, "a unready just", "b unready"), "Wait ReplicaStarting after 4m0s"},
		"replacing did not help, so the next one gets more time":         {func() Input { in := input(1, "a unready"); in.Futile = 4; return in }(), "Wait ReplicaStarting after 20m0s"},
		"most nodes are unreachable, and nobody is lost for that":        {func() Input { in := input(2, "a unreachable", "b unknown"); in.Blackout = true; return in }(), "Wait ReplicaStarting"},
		"most nodes are unreachable, and one is gone":                    {func() Input { in := input(2, "a unreachable", "b gone"); in.Blackout = true; return in }(), "Remove ReplicaLost b by force"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Decide(c.in).String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDecide_changedTemplate(t *testing.T) {
	onDelete := func(in Input) Input { in.OnDelete = true; return in }
	slow := func(in Input) Input { in.MinReady = 2 * time.Minute; return in }
	for name, c := range map[string]struct {
		in   Input
		want string
	}{
		"the new one comes first":                                     {input(2, "a old", "b old"), "Create Rolling"},
		"the new one is pending":                                      {input(2, "a old", "b old", "c pending"), "Wait ReplicaPending after 5s"},
		"the new one is starting":                                     {input(2, "a old", "b old", "c unready just"), "Wait Rolling after 4m0s"},
		"the new one is ready, and not for long enough":               {slow(input(2, "a old", "b old", "c just")), "Wait Rolling after 1m0s"},
		"the new one is available, and an old one goes":               {input(2, "a old", "b old", "c"), "Remove Rolling a"},
		"the old one that is not ready goes first":                    {input(2, "a old", "b old unready just", "c"), "Remove Rolling b"},
		"the old one ends, and the next new one is made":              {input(2, "a old terminating", "b old", "c"), "Create Rolling"},
		"the last old one waits until the first has ended":            {input(2, "a old terminating", "b old", "c", "d"), "Wait Rolling"},
		"the last old one goes":                                       {input(2, "b old", "c", "d"), "Remove Rolling b"},
		"all are new":                                                 {input(2, "c", "d"), "Rest"},
		"a pending one of the old template is not waited for":         {input(2, "a old", "b old pending"), "Remove Rolling b"},
		"the new template does not work, and each try gets more time": {func() Input { in := input(2, "a old", "b old", "c unready just"); in.Futile = 1; return in }(), "Wait RolloutStalled after 9m0s"},
		"the new one is unhealthy, and is replaced":                   {input(3, "a old", "b old", "c", "d unready"), "Remove ReplicaUnhealthy d"},
		"the broken new one is old now, and goes":                     {input(2, "a", "b", "c old unready"), "Remove ReplicaUnhealthy c"},
		"one is lost during the change":                               {input(2, "a old", "b old gone", "c"), "Remove ReplicaLost b by force"},
		"one is missing during the change":                            {input(2, "a old"), "Create ReplicaMissing"},
		"scaled down during the change":                               {input(1, "a old", "b old", "c"), "Remove ScalingDown a"},
		"scaled to none":                                              {input(0, "a old"), "Remove ScalingDown a"},
		"on delete: the old ones stay":                                {onDelete(input(2, "a old", "b old")), "Rest"},
		"on delete: somebody deleted one":                             {onDelete(input(2, "a old terminating", "b old")), "Create ReplicaMissing"},
		"on delete: no room is made for a new one":                    {onDelete(input(2, "a old", "b old", "c")), "Remove ScalingDown a"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Decide(c.in).String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDecide_explains(t *testing.T) {
	for _, in := range []Input{
		input(1), input(0, "a"), input(1, "a pending"), input(1, "a unready"), input(1, "a unready just"), input(1, "a unreachable just"),
		input(1, "a old"), input(1, "a terminating", "b"),
	} {
		if d := Decide(in); d.Message == "" || !strings.HasSuffix(d.Message, ".") || d.Reason == "" {
			t.Errorf("%+v", d)
		}
	}
	in := input(2, "a unreachable", "b unreachable")
	in.Blackout = true
	if d := Decide(in); !strings.Contains(d.Message, "too many others") || d.Reason != v1alpha1.ReasonReplicaStarting {
		t.Errorf("%+v", d)
	}
}

func TestSummarize(t *testing.T) {
	in := input(3, "a", "b old", "c just", "d terminating", "e unready", "f unreachable just")
	in.MinReady = 2 * time.Minute
	want := Summary{Live: 5, Ready: 3, Available: 2, Updated: 4, Revisions: map[string]int{"new": 4, "old": 1}}
	if diff := cmp.Diff(want, Summarize(in)); diff != "" {
		t.Error(diff)
	}
}
