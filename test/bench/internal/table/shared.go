package table

import (
	"fmt"

	"quarry.storage/quarry/test/bench/internal/measure"
)

// goalIO is what of the speed of a LUN is left through the device of a volume, of the design.
const goalIO = 0.99

var sharedCalls = map[string]string{
	measure.SharedCreate: "create a volume", measure.SharedDelete: "delete a volume",
	measure.SharedMapped: "create a volume with its device", measure.SharedUnmapped: "delete a volume with its device",
}

func (p *page) shared() {
	p.printf(sharedHead)
	p.header("operation", "Quarry's agent", "against its own local group", "TopoLVM's lvmd", "lvmd against the agent", "rounds")
	bare, agent, lvmd := contenders(measure.Private)
	local := measure.Contender{Who: measure.Local, Config: measure.Private}
	for _, op := range []string{measure.SharedCreate, measure.SharedDelete, measure.SharedMapped, measure.SharedUnmapped} {
		theirs, against := "", ""
		if op == measure.SharedMapped || op == measure.SharedUnmapped {
			theirs, against = p.ratio(op, lvmd, bare), p.ratio(op, lvmd, agent)
		}
		p.row(sharedWords[op], p.ratio(op, agent, bare), p.ratio(op, agent, local), theirs, against, p.rounds(op, agent, bare))
	}
	p.printf(sharedCounts)
	p.counts(sharedCalls)
}

var sharedWords = map[string]string{
	measure.SharedCreate: "create", measure.SharedDelete: "delete",
	measure.SharedMapped: "create with its device", measure.SharedUnmapped: "delete with its device",
}

func (p *page) io() {
	p.printf(ioHead, measure.FarDelay.Milliseconds())
	p.header("requests", "the network", "median (quartiles)", "the median lies between", "a request past the map, µs", "the map adds, µs", "rounds", "goal")
	for _, op := range []string{measure.ReadSmall, measure.WriteSmall, measure.ReadLarge, measure.WriteLarge} {
		for _, far := range []struct{ config, words string }{{measure.Near, "the lab's"}, {measure.Far, fmt.Sprintf("%d ms longer", measure.FarDelay.Milliseconds())}} {
			p.requests(op, far.words, measure.Contender{Who: measure.Mapped, Config: far.config}, measure.Contender{Who: measure.BareLun, Config: far.config})
		}
	}
	p.printf("\n")
}

// requests shows one kind of requests over one network.
func (p *page) requests(op, network string, mapped, bare measure.Contender) {
	// The faster is what takes less time.
	s := measure.Ratio(p.report.Samples, op, bare, mapped)
	text, between, past, added := none, "", "", ""
	if s.Count > 0 {
		p.measured = true
		text = fmt.Sprintf("%.3f (%.3f to %.3f)", s.Median, s.Low, s.High)
		between = fmt.Sprintf("%.3f and %.3f", s.From, s.To)
		const micro = 1000
		past = fmt.Sprintf("%.0f", micro*measure.Times(p.report.Samples, op, bare).Median)
		more := measure.Added(p.report.Samples, op, mapped, bare)
		added = fmt.Sprintf("%.1f (between %.1f and %.1f)", micro*more.Median, micro*more.From, micro*more.To)
	}
	p.row(op, network, text, between, past, added, fmt.Sprint(s.Count), fmt.Sprint(goalIO))
}

func (p *page) moves() {
	p.printf(movesHead)
	for _, what := range []string{measure.AttachToRunning, measure.MoveToRunning} {
		s, longest := measure.MoveSeconds(p.report.Moves, what)
		switch s.Count {
		case 0:
			p.printf("- %s: %s\n", what, none)
			continue
		case 1:
			p.printf("- %s: after %.1f s\n", what, longest)
		default:
			p.printf("- %s, %d times: median after %.1f s, longest after %.1f s\n", what, s.Count, s.Median, longest)
		}
		p.measured = true
	}
	p.printf("\n")
}
