package measure

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// cephMark begins what the journey of claims on Ceph has to say.
const cephMark = "CephBench: "

// What the journey times, as its lines call it.
const (
	// BringUp is from the making of a Cluster of type cephfs until it is Ready.
	BringUp = "bring-up"
	// ClaimToBound is from the making of a claim until it is Bound.
	ClaimToBound = "claim to Bound"
	// CreateVolume is what the call took within the CSI controller.
	CreateVolume = "CreateVolume"
	// PodToRunning is from the making of a pod on a volume that is Bound until it is Running.
	PodToRunning = "pod to Running"
)

// Who makes the volumes that the journey times.
const (
	CephFS = "cephfs"
	LVM    = "lvm"
)

// ReadCeph finds the figures in the output of the journey; without any, it did not end well.
func ReadCeph(output io.Reader) (Report, error) {
	var r Report
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		_, figures, ok := strings.Cut(lines.Text(), cephMark)
		if !ok {
			continue
		}
		if err := r.addCeph(figures); err != nil {
			return Report{}, err
		}
	}
	if err := lines.Err(); err != nil {
		return Report{}, err
	}
	if len(r.Samples) == 0 || len(r.Daemons) == 0 {
		return Report{}, errors.New("the journey printed no figures, or did not end")
	}
	return r, nil
}

// addCeph reads "bring-up took 300.5 s", "round 3 cephfs claim to Bound took 1.234 s" or "ceph-osd has 70000 KiB, of it anonymous 50000 KiB".
func (r *Report) addCeph(figures string) error {
	figures = strings.TrimSpace(figures)
	var m Memory
	if n, err := fmt.Sscanf(figures, "%s has %d KiB, of it anonymous %d KiB", &m.Process, &m.ResidentKiB, &m.AnonymousKiB); err == nil && n == 3 {
		m.Samples = 1
		r.Daemons = append(r.Daemons, m)
		return nil
	}
	what, text, ok := strings.Cut(figures, " took ")
	took, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	if !ok || err != nil || took < 0 {
		return fmt.Errorf("the journey printed %q", figures)
	}
	s := Sample{Operation: what, Contender: Contender{Who: CephFS}, Milliseconds: float64(took) / float64(time.Millisecond)}
	if rest, is := strings.CutPrefix(what, "round "); is {
		words := strings.SplitN(rest, " ", 3)
		if n, err := fmt.Sscanf(rest, "%d %s", &s.Round, &s.Who); err != nil || n != 2 || len(words) != 3 || s.Who != CephFS && s.Who != LVM {
			return fmt.Errorf("the journey printed %q", figures)
		}
		s.Operation = words[2]
	}
	switch s.Operation {
	case BringUp, ClaimToBound, CreateVolume, PodToRunning:
	default:
		return fmt.Errorf("the journey printed %q", figures)
	}
	r.Samples = append(r.Samples, s)
	return nil
}
