package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quarry.storage/quarry/test/bench/internal/direct"
	"quarry.storage/quarry/test/bench/internal/measure"
	"quarry.storage/quarry/test/bench/internal/network"
)

// ioBytes is how large the volume is whose requests are timed.
const ioBytes = 128 << 20

// requests are the kinds of I/O that are measured.
var requests = []struct {
	operation string
	direct.Work
}{
	{measure.ReadSmall, direct.Work{Bytes: 4 << 10, Requests: 128}},
	{measure.WriteSmall, direct.Work{Bytes: 4 << 10, Requests: 128, Write: true}},
	{measure.ReadLarge, direct.Work{Bytes: 1 << 20, Requests: 16, Sequential: true}},
	{measure.WriteLarge, direct.Work{Bytes: 1 << 20, Requests: 16, Sequential: true, Write: true}},
}

// ways are how long a request is on its way to the LUN besides.
var ways = []struct {
	config string
	delay  time.Duration
}{{measure.Near, 0}, {measure.Far, measure.FarDelay}}

// IO measures requests through the device of a volume against the same bytes of the LUN itself, over the network that is there and over a longer one.
func (b *Bench) IO(ctx context.Context) (measure.Report, error) {
	if err := b.onSAN(ctx, lvmBinary, b.ioRounds); err != nil {
		return measure.Report{}, err
	}
	return b.finish()
}

func (b *Bench) ioRounds(ctx context.Context, s site) error {
	m, err := s.CreateMapped(ctx, volumeName, ioBytes)
	if err != nil {
		return err
	}
	if n := len(m.GetRanges()); n != 1 {
		return fmt.Errorf("the volume has %d ranges, and one is compared", n)
	}
	if err := quiet(ctx, s.process); err != nil {
		return err
	}
	s.rest()
	err = b.compare(ctx, m.GetDevice(), s.Devices()[0], m.GetRanges()[0].GetStartBytes())
	// udev looks at devices that were written, once they are closed, and holds them.
	return errors.Join(err, quiet(ctx, nil))
}

// compare times requests to the device of a volume, and to the bytes of the LUN that it shows. The same place has its turn through both.
func (b *Bench) compare(ctx context.Context, volume, lun string, start int64) error {
	mapped, err := direct.Open(volume, 0, ioBytes)
	if err != nil {
		return err
	}
	defer mapped.Close()
	bare, err := direct.Open(lun, start, ioBytes)
	if err != nil {
		return err
	}
	defer bare.Close()
	pair, err := direct.NewPair(mapped, bare, 1<<20)
	if err != nil {
		return err
	}
	defer pair.Close()
	way, err := network.To(b.cfg.Target.Portals)
	if err != nil {
		return err
	}
	var turns []turn
	for _, r := range requests {
		for _, far := range ways {
			turns = append(turns, turn{measure.Contender{Who: r.operation, Config: far.config}, func(ctx context.Context, round int) error {
				if err := way.Delay(far.delay); err != nil {
					return err
				}
				more, past, err := pair.Run(r.Work)
				if err != nil {
					return err
				}
				b.keep(measure.Contender{Who: measure.Mapped, Config: far.config}, r.operation, round, past+more)
				b.keep(measure.Contender{Who: measure.BareLun, Config: far.config}, r.operation, round, past)
				return ctx.Err()
			}})
		}
	}
	return errors.Join(b.rounds(ctx, turns), way.Delay(0))
}
