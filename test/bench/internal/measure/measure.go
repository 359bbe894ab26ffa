// Package measure holds what a benchmark saw, and turns it into ratios and counts. It is pure: it starts nothing and takes no time
// itself.
package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Contender is one way to do the same work: who does it, and with which configuration of LVM.
type Contender struct {
	Who    string `json:"who"`
	Config string `json:"config"`
}

// Who works, and with which configuration.
const (
	Bare    = "bare"
	Quarry  = "quarry"
	TopoLVM = "topolvm"
	// Local is Quarry with a local group, beside a shared one.
	Local   = "local group"
	Private = "private"
	Debian  = "debian"
)

// Operations on volumes, one at a time and several in a row.
const (
	Create    = "create"
	Delete    = "delete"
	CreateRow = "create in a row"
	DeleteRow = "delete in a row"
)

// Operations on volumes of a group on a shared LUN: alone, and with the device on this node.
const (
	SharedCreate   = "shared create"
	SharedDelete   = "shared delete"
	SharedMapped   = "shared create with its device"
	SharedUnmapped = "shared delete with its device"
)

// Requests that are timed through the device of a volume and past it, and who carries them.
const (
	ReadSmall  = "read 4 KiB at random"
	WriteSmall = "write 4 KiB at random"
	ReadLarge  = "read 1 MiB in sequence"
	WriteLarge = "write 1 MiB in sequence"
	Mapped     = "map"
	BareLun    = "bare LUN"
)

// How far the LUN is: a configuration of those who carry requests. Far is a network that takes FarDelay longer than the one that is there, Near.
const (
	Near     = ""
	Far      = "far"
	FarDelay = time.Millisecond
)

// Prepare names the making of a group on that many disks.
func Prepare(disks int) string { return fmt.Sprintf("prepare %d", disks) }

// Sample is the time of one operation. Samples of one round were taken shortly after one another.
type Sample struct {
	Contender
	// Operation names what was done, for example "create".
	Operation string `json:"operation"`
	Round     int    `json:"round"`
	// Milliseconds are per single operation where a round did several.
	Milliseconds float64 `json:"milliseconds"`
}

// Commands are the LVM commands that one operation ran.
type Commands struct {
	Contender
	Operation string `json:"operation"`
	// During the call, in order, and afterwards, until nothing moved any more.
	During []Command `json:"during"`
	After  []Command `json:"after"`
	// Milliseconds of the whole call. Counting makes each command slower.
	Milliseconds float64 `json:"milliseconds"`
}

// Command is one LVM command.
type Command struct {
	// Name is the subcommand, for example "lvcreate".
	Name         string  `json:"name"`
	Milliseconds float64 `json:"milliseconds"`
}

// Memory is what a process held at a moment, or at most over some time, in KiB.
type Memory struct {
	// Process and When are words for a person.
	Process string `json:"process"`
	When    string `json:"when"`
	// ResidentKiB and AnonymousKiB are VmRSS and RssAnon of the kernel.
	ResidentKiB  int `json:"residentKiB"`
	AnonymousKiB int `json:"anonymousKiB"`
	// Samples is how often was looked.
	Samples int `json:"samples"`
}

// Report is all that some runs saw.
type Report struct {
	// Machine is the node's kernel and LVM, in words.
	Machine  string     `json:"machine,omitempty"`
	Samples  []Sample   `json:"samples,omitempty"`
	Commands []Commands `json:"commands,omitempty"`
	Memory   []Memory   `json:"memory,omitempty"`
	// Daemons are what daemons of Ceph held at the end of the journey of claims, one entry each.
	Daemons []Memory `json:"daemons,omitempty"`
	// Claims are lines about claims, as the test printed them.
	Claims []string `json:"claims,omitempty"`
	// Moves are what a journey printed of a volume that moves between nodes.
	Moves []Move `json:"moves,omitempty"`
}

// Add joins another run's report. Rounds of different runs are kept apart: samples are compared within a round only.
func (r *Report) Add(other Report) {
	first := 0
	for _, s := range r.Samples {
		first = max(first, s.Round+1)
	}
	for _, s := range other.Samples {
		s.Round += first
		r.Samples = append(r.Samples, s)
	}
	r.Machine = cmp.Or(r.Machine, other.Machine)
	r.Commands = append(r.Commands, other.Commands...)
	r.Memory = append(r.Memory, other.Memory...)
	r.Daemons = append(r.Daemons, other.Daemons...)
	r.Claims = append(r.Claims, other.Claims...)
	r.Moves = append(r.Moves, other.Moves...)
}

// Spread is a median with its quartiles.
type Spread struct {
	Low, Median, High float64
	// From and To are the values between which the median of ever more of them lies, in 95 of 100 such measurements.
	From, To float64
	// Count is the number of values.
	Count int
}

// NewSpread sums the values up.
func NewSpread(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	out := Spread{Low: quantile(sorted, 0.25), Median: quantile(sorted, 0.5), High: quantile(sorted, 0.75), Count: len(sorted)}
	out.From, out.To = interval(sorted)
	return out
}

// interval returns the values of the ranks between which the median lies with 95 percent: how many values are below it is a binomial number.
func interval(sorted []float64) (from, to float64) {
	if len(sorted) == 0 {
		return 0, 0
	}
	const deviations = 1.96
	n := float64(len(sorted))
	away := deviations * math.Sqrt(n) / 2
	below := max(int(math.Floor(n/2-away))-1, 0)
	above := min(int(math.Ceil(n/2+away)), len(sorted)-1)
	return sorted[below], sorted[above]
}

// quantile interpolates between the two values beside the place.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	place := q * float64(len(sorted)-1)
	below := int(place)
	if below+1 == len(sorted) {
		return sorted[below]
	}
	return sorted[below] + (place-float64(below))*(sorted[below+1]-sorted[below])
}

// Series are the samples of one operation by one contender.
type Series struct {
	Contender
	Operation string
}

// Ratio compares a contender with a yardstick that does the same.
func Ratio(samples []Sample, operation string, contender, yardstick Contender) Spread {
	return Compare(samples, Series{contender, operation}, Series{yardstick, operation})
}

// Compare divides the times of one series by those of another, round by round: what the machine did besides in a round met both.
func Compare(samples []Sample, contender, yardstick Series) Spread {
	return pairs(samples, contender, yardstick, func(ms, base float64) float64 { return ms / base })
}

// Added is how many milliseconds a contender takes more than a yardstick that does the same, round by round.
func Added(samples []Sample, operation string, contender, yardstick Contender) Spread {
	return pairs(samples, Series{contender, operation}, Series{yardstick, operation}, func(ms, base float64) float64 { return ms - base })
}

// pairs sums up what is made of the times of two series in each round that has both.
func pairs(samples []Sample, contender, yardstick Series, of func(ms, base float64) float64) Spread {
	times, bases := byRound(samples, contender.Operation, contender.Contender), byRound(samples, yardstick.Operation, yardstick.Contender)
	var values []float64
	for round, ms := range times {
		if base := bases[round]; base > 0 {
			values = append(values, of(ms, base))
		}
	}
	return NewSpread(values)
}

// Times are the milliseconds themselves.
func Times(samples []Sample, operation string, contender Contender) Spread {
	var values []float64
	for _, ms := range byRound(samples, operation, contender) {
		values = append(values, ms)
	}
	return NewSpread(values)
}

func byRound(samples []Sample, operation string, contender Contender) map[int]float64 {
	out := map[int]float64{}
	for _, s := range samples {
		if s.Operation == operation && s.Contender == contender {
			out[s.Round] = s.Milliseconds
		}
	}
	return out
}
