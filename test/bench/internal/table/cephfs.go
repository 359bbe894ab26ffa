package table

import (
	"fmt"

	"quarry.storage/quarry/test/bench/internal/measure"
)

// goalSubvolume is how many milliseconds a volume of Ceph may take within the CSI controller at the median, of the design.
const goalSubvolume = 1000

func (p *page) ceph() {
	p.printf(cephHead)
	p.header("what", "of Ceph against local (quartiles)", "of Ceph, ms", "local, ms", "rounds", "goal, ms")
	ceph, local := measure.Contender{Who: measure.CephFS}, measure.Contender{Who: measure.LVM}
	for _, op := range []string{measure.CreateVolume, measure.ClaimToBound, measure.PodToRunning} {
		goal := ""
		if op == measure.CreateVolume {
			goal = fmt.Sprint(goalSubvolume)
		}
		p.row(op, p.ratio(op, ceph, local), p.median(op, ceph), p.median(op, local), p.rounds(op, ceph, local), goal)
	}
	p.printf("\n")
	if up := measure.Times(p.report.Samples, measure.BringUp, ceph); up.Count > 0 {
		const second = 1000
		p.printf("From the making of the Cluster until it was Ready: %.0f s.\n\n", up.Median/second)
	}
	p.header("daemon", "how many", "resident, MiB, median", "of it anonymous, MiB, median")
	for _, name := range []string{"ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds"} {
		p.daemon(name)
	}
	p.printf("\n")
}

// daemon shows what the daemons of a name held.
func (p *page) daemon(name string) {
	var resident, anonymous []float64
	for _, m := range p.report.Daemons {
		if m.Process == name {
			resident, anonymous = append(resident, float64(m.ResidentKiB)), append(anonymous, float64(m.AnonymousKiB))
		}
	}
	if len(resident) == 0 {
		p.row(name, "0", none, none)
		return
	}
	p.measured = true
	p.row(name, fmt.Sprint(len(resident)), mib(int(measure.NewSpread(resident).Median)), mib(int(measure.NewSpread(anonymous).Median)))
}

// median is of the times of a contender, in milliseconds.
func (p *page) median(operation string, of measure.Contender) string {
	s := measure.Times(p.report.Samples, operation, of)
	if s.Count == 0 {
		return none
	}
	return fmt.Sprintf("%.0f", s.Median)
}
