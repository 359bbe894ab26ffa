// Package table writes docs/benchmarks.md from the reports of measurements. It decides what is compared with what, and prints ratios
// and counts; times of this machine are an aside.
package table

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"quarry.storage/quarry/test/bench/internal/measure"
)

// none is shown where nothing was measured.
const none = "not measured"

// Goals of the design.
const (
	goalPrepare = 1.15
	goalCreate  = 1.05
	goalIdleMiB = 25
)

// Write reads the reports and writes the page. Sections of which nothing was measured are taken from the page that is there; old may name a file that is
// not there.
func Write(w io.Writer, old string, files []string) error {
	var all measure.Report
	before, err := os.ReadFile(old)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var r measure.Report
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("report %s: %w", name, err)
		}
		all.Add(r)
	}
	_, err = io.WriteString(w, Page(all, string(before)))
	return err
}

// Page is the whole page. old is the page before; it may be empty.
func Page(r measure.Report, old string) string {
	var out strings.Builder
	have := sections(old)
	for _, write := range []func(*page){
		(*page).head, (*page).prepare, (*page).commands, (*page).volumes, (*page).shared, (*page).io, (*page).moves, (*page).ceph, (*page).memory, (*page).claims, (*page).times,
	} {
		p := &page{report: r}
		write(p)
		text := p.String()
		if before, ok := have[title(text)]; ok && !p.measured {
			text = before
		}
		out.WriteString(text)
	}
	return out.String()
}

// page is one section of the page that is being written.
type page struct {
	strings.Builder
	report measure.Report
	// measured is true once something was shown that was measured.
	measured bool
}

func (p *page) head() {
	p.measured = p.report.Machine != ""
	p.printf(head, cmp.Or(p.report.Machine, none))
}

func (p *page) printf(format string, args ...any) { fmt.Fprintf(&p.Builder, format, args...) }

// row writes one line of a table.
func (p *page) row(cells ...string) { p.printf("| %s |\n", strings.Join(cells, " | ")) }

// header writes the head of a table.
func (p *page) header(cells ...string) {
	p.row(cells...)
	p.row(strings.Split(strings.Repeat("-", len(cells)), "")...)
}

// ratio shows a contender against a yardstick.
func (p *page) ratio(operation string, of, by measure.Contender) string {
	return p.compare(measure.Series{Contender: of, Operation: operation}, measure.Series{Contender: by, Operation: operation})
}

// compare shows one series against another.
func (p *page) compare(of, by measure.Series) string {
	return p.spread(measure.Compare(p.report.Samples, of, by))
}

func (p *page) rounds(operation string, of, by measure.Contender) string {
	return fmt.Sprint(measure.Ratio(p.report.Samples, operation, of, by).Count)
}

func (p *page) spread(s measure.Spread) string {
	if s.Count == 0 {
		return none
	}
	p.measured = true
	return fmt.Sprintf("%.2f (%.2f to %.2f)", s.Median, s.Low, s.High)
}

func (p *page) prepare() {
	p.printf(prepareHead)
	p.header("disks", "compared with", "median (quartiles)", "rounds", "goal")
	agent := measure.Contender{Who: measure.Quarry, Config: measure.Private}
	for _, disks := range []int{1, 4} {
		for _, config := range configs {
			bare := measure.Contender{Who: measure.Bare, Config: config.name}
			goal := ""
			if config.name == measure.Private {
				goal = fmt.Sprintf("%.2f", goalPrepare)
			}
			op := measure.Prepare(disks)
			p.row(fmt.Sprint(disks), "bare commands, "+config.words, p.ratio(op, agent, bare), p.rounds(op, agent, bare), goal)
		}
	}
	p.printf("\n")
}

// configs in the order of the page.
var configs = []struct{ name, words string }{
	{measure.Private, "Quarry's LVM configuration"},
	{measure.Debian, "Debian's LVM configuration"},
}

func (p *page) commands() {
	p.printf(commandsHead)
	p.counts(calls)
}

// counts shows the commands of the calls that have a name here.
func (p *page) counts(names map[string]string) {
	p.header("call", "by", "during the call", "observing afterwards", "counted")
	counts := map[string]int{}
	var lines []string
	for _, c := range p.report.Commands {
		if names[c.Operation] == "" {
			continue
		}
		line := strings.Join([]string{names[c.Operation], whoWords[c.Who], list(c.During), list(c.After)}, " | ")
		if counts[line] == 0 {
			lines = append(lines, line)
		}
		counts[line]++
	}
	for _, line := range lines {
		p.row(line, fmt.Sprintf("%d times", counts[line]))
	}
	if p.measured = p.measured || len(lines) > 0; len(lines) == 0 {
		p.row(none, "", "", "", "")
	}
	p.printf("\n")
}

var calls = map[string]string{
	measure.Prepare(1): "prepare 1 disk", measure.Prepare(4): "prepare 4 disks",
	measure.Create: "create a volume", measure.Delete: "delete a volume",
}

var whoWords = map[string]string{measure.Bare: "bare command", measure.Quarry: "Quarry's agent", measure.TopoLVM: "TopoLVM's lvmd"}

// list counts and names commands.
func list(commands []measure.Command) string {
	if len(commands) == 0 {
		return "0"
	}
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	return fmt.Sprintf("%d: %s", len(names), strings.Join(names, ", "))
}

func (p *page) volumes() {
	p.printf(volumesHead, goalCreate)
	p.header("operation", "LVM's configuration", "Quarry's agent", "TopoLVM's lvmd", "lvmd against the agent", "rounds")
	for _, op := range []string{measure.Create, measure.Delete, measure.CreateRow, measure.DeleteRow} {
		for _, config := range configs {
			bare, agent, lvmd := contenders(config.name)
			p.row(op, config.words, p.ratio(op, agent, bare), p.ratio(op, lvmd, bare), p.ratio(op, lvmd, agent), p.rounds(op, agent, bare))
		}
	}
	p.printf(configHead)
	p.header("operation", "bare command", "Quarry's agent", "TopoLVM's lvmd")
	for _, op := range []string{measure.Create, measure.Delete} {
		bare, agent, lvmd := contenders(measure.Private)
		bareDebian, agentDebian, lvmdDebian := contenders(measure.Debian)
		p.row(op, p.ratio(op, bareDebian, bare), p.ratio(op, agentDebian, agent), p.ratio(op, lvmdDebian, lvmd))
	}
	p.printf("\n")
}

func contenders(config string) (bare, agent, lvmd measure.Contender) {
	return measure.Contender{Who: measure.Bare, Config: config}, measure.Contender{Who: measure.Quarry, Config: config},
		measure.Contender{Who: measure.TopoLVM, Config: config}
}

func (p *page) memory() {
	p.printf(memoryHead, goalIdleMiB)
	p.header("process", "when", "resident, MiB", "of it anonymous, MiB")
	for _, m := range p.report.Memory {
		p.row(m.Process, m.When, mib(m.ResidentKiB), mib(m.AnonymousKiB))
	}
	if p.measured = len(p.report.Memory) > 0; !p.measured {
		p.row(none, "", "", "")
	}
	p.printf("\n")
}

func mib(kib int) string { return fmt.Sprintf("%.1f", float64(kib)/1024) }

func (p *page) claims() {
	p.printf(claimsHead)
	for _, line := range p.report.Claims {
		p.printf("- %s\n", line)
	}
	if p.measured = len(p.report.Claims) > 0; !p.measured {
		p.printf("- %s\n", none)
	}
	p.printf("\n")
}
