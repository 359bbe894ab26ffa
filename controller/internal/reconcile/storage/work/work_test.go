package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// step is a step of tests.
type step struct{ host, name string }

func (s step) Host() string           { return s.host }
func (s step) Via() string            { return "" }
func (s step) Action() string         { return s.name }
func (s step) Destroys() bool         { return false }
func (s step) Vouches() bool          { return false }
func (s step) Later() bool            { return false }
func (s step) Digest() string         { return s.host + s.name }
func (s step) API() v1alpha1.PlanStep { return v1alpha1.PlanStep{} }

// performer performs steps as a function says.
type performer func(ctx context.Context, host string) error

func (p performer) Perform(ctx context.Context, host string, steps []backend.Step) (int, error) {
	if err := p(ctx, host); err != nil {
		return 0, err
	}
	return len(steps), nil
}

var pool = backend.Owner{Kind: "Cluster", Name: "pool", UID: "uid"}

func jobs(hosts ...string) map[Place][]backend.Step {
	out := map[Place][]backend.Step{}
	for _, h := range hosts {
		out[Place{Host: h}] = []backend.Step{step{h, "make"}}
	}
	return out
}

func TestRun_fastHostsReportAtOnceAndSlowOnesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t.Context(), time.Now)
		defer w.Close()
		took := map[string]time.Duration{"fast": 0, "edge": Patience, "slow": time.Minute}
		p := performer(func(ctx context.Context, host string) error {
			time.Sleep(took[host])
			return nil
		})
		began := time.Now()
		out := w.Run(t.Context(), p, pool, jobs("fast", "slow"))
		if !out[Place{Host: "fast"}].Finished || out[Place{Host: "slow"}].Finished || time.Since(began) != Patience {
			t.Errorf("%+v after %s", out, time.Since(began))
		}
		if r := w.Running(pool); len(r) != 1 || !r["slow"] {
			t.Errorf("running %v", r)
		}
		// A job that runs is not begun again, and not waited for.
		began = time.Now()
		if out = w.Run(t.Context(), p, pool, jobs("slow")); len(out) != 0 || time.Since(began) != 0 {
			t.Errorf("%+v after %s", out, time.Since(began))
		}
		if o := <-w.Late(); o != pool || time.Since(began) != time.Minute-Patience {
			t.Errorf("told of %+v after %s", o, time.Since(began))
		}
		// The job and the patience end at the same instant: either the reconcile sees the end, or somebody tells it.
		for range 20 {
			out = w.Run(t.Context(), p, pool, jobs("edge"))
			if !out[Place{Host: "edge"}].Finished {
				<-w.Late()
			}
			synctest.Wait()
			if len(w.Running(pool)) != 0 {
				t.Error("still running")
			}
		}
		select {
		case o := <-w.Late():
			t.Errorf("told of %+v", o)
		default:
		}
	})
}

func TestRun_retriesWithLongerAndLongerPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t.Context(), time.Now)
		defer w.Close()
		tries := 0
		p := performer(func(context.Context, string) error {
			tries++
			return errors.New("broken")
		})
		for i := range 12 {
			out := w.Run(t.Context(), p, pool, jobs("n1"))[Place{Host: "n1"}]
			want := min(minRetry<<i, maxRetry)
			if out.Failure.Reason != v1alpha1.ReasonStepFailed || out.Failure.Message != "broken" || out.RetryIn != want || tries != i+1 {
				t.Fatalf("try %d: %+v, want %s, %d tries", i, out, want, tries)
			}
			time.Sleep(want - time.Millisecond)
			if w.Run(t.Context(), p, pool, jobs("n1")); tries != i+1 {
				t.Fatal("tried too early")
			}
			time.Sleep(time.Millisecond)
		}
		// Other steps are tried at once.
		if w.Run(t.Context(), p, pool, map[Place][]backend.Step{{Host: "n1"}: {step{"n1", "other"}}}); tries != 13 {
			t.Errorf("%d tries", tries)
		}
	})
}

func TestRun_passingErrorIsShownWhenItHappensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t.Context(), time.Now)
		defer w.Close()
		p := performer(func(context.Context, string) error {
			return fmt.Errorf("host: %w", &backend.StepError{Reason: "Busy", Passing: true, Err: errors.New("busy")})
		})
		if out := w.Run(t.Context(), p, pool, jobs("n1"))[Place{Host: "n1"}]; out.Failure != (Failure{}) || out.RetryIn != minRetry {
			t.Errorf("%+v", out)
		}
		time.Sleep(minRetry)
		if out := w.Run(t.Context(), p, pool, jobs("n1"))[Place{Host: "n1"}]; out.Failure != (Failure{"Busy", "host: busy"}) {
			t.Errorf("%+v", out)
		}
	})
}

func TestRun_boundsTheHostsThatAreWorkedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t.Context(), time.Now)
		defer w.Close()
		var mu sync.Mutex
		now, most := 0, 0
		p := performer(func(context.Context, string) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		})
		hosts := make([]string, 0, 3*parallel)
		for i := range 3 * parallel {
			hosts = append(hosts, fmt.Sprintf("n%d", i))
		}
		w.Run(t.Context(), p, pool, jobs(hosts...))
		for len(w.Running(pool)) > 0 {
			<-w.Late()
		}
		if most != parallel {
			t.Errorf("%d at the same time", most)
		}
	})
}

func TestClose_endsJobsAndDeadlinesDoToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t.Context(), time.Now)
		p := performer(func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		})
		began := time.Now()
		w.Run(t.Context(), p, pool, jobs("n1"))
		<-w.Late()
		if time.Since(began) != deadline {
			t.Errorf("a job ran for %s", time.Since(began))
		}
		w.Run(t.Context(), p, pool, map[Place][]backend.Step{{Host: "n1"}: {step{"n1", "other"}}})
		w.Close()
		if out := w.Run(t.Context(), p, pool, jobs("n2")); len(out) != 0 {
			t.Errorf("a job was begun after the end: %+v", out)
		}
	})
}

// A reconcile that is cancelled takes no job with it.
func TestRun_jobsOutliveTheirReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t.Context(), time.Now)
		defer w.Close()
		ctx, cancel := context.WithCancel(t.Context())
		done := false
		p := performer(func(ctx context.Context, _ string) error {
			time.Sleep(time.Second)
			done = ctx.Err() == nil
			return nil
		})
		cancel()
		w.Run(ctx, p, pool, jobs("n1"))
		if o := <-w.Late(); o != pool || !done {
			t.Errorf("%+v, done %t", o, done)
		}
	})
}

func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t.Context(), time.Now)
		defer w.Close()
		fails := performer(func(context.Context, string) error { return errors.New("broken") })
		w.Run(t.Context(), fails, pool, jobs("n1"))
		w.Forget("Nfs", "pool")
		tries := 0
		count := performer(func(context.Context, string) error { tries++; return nil })
		if w.Run(t.Context(), count, pool, jobs("n1")); tries != 0 {
			t.Error("a storage of another kind was forgotten")
		}
		w.Forget("Cluster", "pool")
		if w.Run(t.Context(), count, pool, jobs("n1")); tries != 1 {
			t.Error("not forgotten")
		}
	})
}

// The steps of the whole wait for those of the host that they run via; what fails of the one does not stop the other.
func TestRun_stepsOfTheWholeHaveAJobOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t.Context(), time.Now)
		defer w.Close()
		var mu sync.Mutex
		busy, tries := false, map[string]int{}
		p := named(func(_ context.Context, name string) error {
			mu.Lock()
			if tries[name]++; busy {
				t.Error("two jobs of one host at the same time")
			}
			busy = true
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			busy = false
			if name == "table" {
				return nil
			}
			return errors.New("broken disk")
		})
		member, whole := Place{Host: "n1"}, Place{Host: "n1", Whole: true}
		todo := map[Place][]backend.Step{member: {step{"n1", "make"}}, whole: {step{"", "table"}}}
		w.Patience = time.Minute
		out := w.Run(t.Context(), p, pool, todo)
		if out[member].Failure.Message != "broken disk" || !out[whole].Finished || out[whole].Failure != (Failure{}) {
			t.Errorf("%+v", out)
		}
		// The job of the whole does not wait for the pause after the other one's failure.
		if out = w.Run(t.Context(), p, pool, todo); !out[whole].Finished || tries["table"] != 2 || tries["make"] != 1 {
			t.Errorf("%+v, tries %v", out, tries)
		}
	})
}

// named performs steps as a function says of the name of the first.
type named func(ctx context.Context, name string) error

func (n named) Perform(ctx context.Context, _ string, steps []backend.Step) (int, error) {
	return 0, n(ctx, steps[0].Action())
}

// TestRun_guards: what guards waits for no other job, neither for one that takes long nor for one that fails.
func TestRun_guards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t.Context(), time.Now)
		defer w.Close()
		p := Performer(steps(func(all []backend.Step) error {
			if all[0].Action() == "fence" {
				return nil
			}
			time.Sleep(5 * time.Minute)
			return errors.New("broken")
		}))
		whole, guard := Place{Whole: true}, Place{Whole: true, Guard: "n9"}
		slow := map[Place][]backend.Step{whole: {step{"", "make"}}}
		w.Run(t.Context(), p, pool, slow)
		both := map[Place][]backend.Step{whole: slow[whole], guard: {step{"", "fence"}}}
		if out := w.Run(t.Context(), p, pool, both); !out[guard].Finished {
			t.Errorf("while another job runs: %+v", out)
		}
		<-w.Late()
		if out := w.Run(t.Context(), p, pool, both); !out[guard].Finished || out[whole].Failure.Message != "broken" {
			t.Errorf("while another job waits after a failure: %+v", out)
		}
	})
}

// steps performs steps as a function of them says.
type steps func([]backend.Step) error

func (p steps) Perform(_ context.Context, _ string, all []backend.Step) (int, error) {
	if err := p(all); err != nil {
		return 0, err
	}
	return len(all), nil
}
