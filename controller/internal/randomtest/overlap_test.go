package randomtest

import (
	"math/rand/v2"
	"time"
)

// overlap lets a second controller begin while the first one does not know yet that it leads no more, and knows nothing new.
func (w *world) overlap(r *rand.Rand) {
	old := w.ctl
	old.lagging = r.IntN(2) == 0
	w.ctl = w.start()
	for range 4 + r.IntN(20) {
		if r.IntN(2) == 0 {
			old.reconcile(w.t.Context(), r)
		}
		w.ctl.reconcile(w.t.Context(), r)
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
		}
	}
	old.stop()
}
