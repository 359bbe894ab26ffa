package table

import (
	"fmt"

	"quarry.storage/quarry/test/bench/internal/measure"
)

func (p *page) times() {
	p.printf(timesHead)
	p.header("operation", "LVM's configuration", "bare commands", "Quarry's agent", "TopoLVM's lvmd")
	ops := []string{
		measure.Prepare(1), measure.Prepare(4), measure.Create, measure.Delete, measure.CreateRow, measure.DeleteRow,
	}
	for _, op := range ops {
		for _, config := range configs {
			bare, agent, lvmd := contenders(config.name)
			p.row(op, config.words, p.milliseconds(op, bare), p.milliseconds(op, agent), p.milliseconds(op, lvmd))
		}
	}
}

func (p *page) milliseconds(operation string, c measure.Contender) string {
	s := measure.Times(p.report.Samples, operation, c)
	if s.Count == 0 {
		return ""
	}
	p.measured = true
	return fmt.Sprintf("%.0f", s.Median)
}
