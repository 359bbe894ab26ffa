package nfs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/nfs"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

func leaving() *v1alpha1.Nfs {
	n := object()
	n.DeletionTimestamp, n.Status.ShareID = new(metav1.Now()), fine.ID
	return n
}

func onRecord(state sharedvolume.State, names ...string) []sharedvolume.Directory {
	var out []sharedvolume.Directory
	for _, name := range names {
		out = append(out, sharedvolume.Directory{ID: sharedvolume.ID{Name: name}, Directory: "dir-" + name, State: state})
	}
	return out
}

// neverMade are the records of volumes that nobody was ever given.
func neverMade(state sharedvolume.State, names ...string) []sharedvolume.Directory {
	out := onRecord(state, names...)
	for i := range out {
		out[i].NeverMade = true
	}
	return out
}

func TestDeletion_removesWhatWasNeverMade(t *testing.T) {
	a := &agents{online: []string{"n1"}, reports: map[string]sharedvolume.Seen{"n1": fine}}
	a.records = append(neverMade(sharedvolume.Removing, "a", "b"), neverMade(sharedvolume.Making, "c")...)
	now := time.Now()
	b := &Backend{Agents: a, Now: func() time.Time { return now }}
	v := observe(t, b, leaving(), nil)
	whole := v.Whole(nil)
	if len(whole.Steps) != 3 || len(whole.Holding) != 0 || whole.Steps[0].Via() != "n1" || whole.Steps[0].Destroys() {
		t.Fatalf("%+v", whole)
	}
	if why := whole.Steps[2].API(); why.Action != v1alpha1.ActionFinishRemoval || !strings.Contains(why.Reason, "dir-c") || !strings.Contains(why.Reason, "being made") {
		t.Errorf("%+v", why)
	}
	if done, err := b.Perform(t.Context(), "n1", backend.Checked(whole.Steps, free)); done != 3 || err != nil || len(a.removed) != 3 {
		t.Errorf("%d, %v, %v", done, err, a.removed)
	}
	now = now.Add(time.Second)
	if whole := observe(t, b, leaving(), v).Whole(nil); len(whole.Steps)+len(whole.Holding) != 0 {
		t.Errorf("%+v", whole)
	}
}

// TestDeletion_leavesWhatWasMadeMeanwhile lets a volume that the look saw being made be made before its step begins.
func TestDeletion_leavesWhatWasMadeMeanwhile(t *testing.T) {
	a := &agents{online: []string{"n1"}, reports: map[string]sharedvolume.Seen{"n1": fine}, records: neverMade(sharedvolume.Making, "a", "b")}
	b := &Backend{Agents: a, Now: time.Now}
	steps := observe(t, b, leaving(), nil).Whole(nil).Steps
	if len(steps) != 2 {
		t.Fatalf("%+v", steps)
	}
	a.records[1].State, a.records[1].NeverMade = sharedvolume.Made, false
	done, err := b.Perform(t.Context(), "n1", backend.Checked(steps, free))
	var failed *backend.StepError
	if done != 1 || !errors.As(err, &failed) || !strings.Contains(err.Error(), "it was made") || strings.Join(a.removed, " ") != "a" {
		t.Errorf("%d, %v, removed %v", done, err, a.removed)
	}
	if holding := strings.Join(observe(t, b, leaving(), nil).Whole(nil).Holding, ", "); !strings.Contains(holding, "volume b") {
		t.Errorf("%q", holding)
	}
}

// TestDeletion_waitsForRemovalsOfWhatWasMade: without a PersistentVolume somebody stopped the removal, and may want what is left.
func TestDeletion_waitsForRemovalsOfWhatWasMade(t *testing.T) {
	for policy, where := range map[sharedvolume.Policy]string{
		sharedvolume.Delete: ".quarry/removing/" + string(object().UID) + ".a", sharedvolume.Archive: "archived beside", sharedvolume.Retain: "at its place",
	} {
		a := &agents{online: []string{"n1"}, reports: map[string]sharedvolume.Seen{"n1": fine}}
		a.records = append(onRecord(sharedvolume.Removing, "a"), neverMade(sharedvolume.Making, "b")...)
		a.records[0].Owner, a.records[0].OnDelete = string(object().UID), policy
		b := &Backend{Agents: a, Now: time.Now}
		whole := observe(t, b, leaving(), nil).Whole(nil)
		holding := strings.Join(whole.Holding, ", ")
		for _, says := range []string{"dir-a", "volume a", "has begun", where, v1alpha1.AnnotationRemove + "="} {
			if !strings.Contains(holding, says) {
				t.Errorf("%s: %q does not say %q", policy, holding, says)
			}
		}
		for _, s := range whole.Steps {
			if s.(nfs.Step).Volume == "a" {
				t.Errorf("%s: %+v", policy, s)
			}
		}
	}
}

func TestDeletion_waitsForDirectoriesOnRecord(t *testing.T) {
	a := &agents{online: []string{"n1"}, reports: map[string]sharedvolume.Seen{"n1": fine}, records: onRecord(sharedvolume.Made, "a")}
	b := &Backend{Agents: a, Now: time.Now}
	n := leaving()
	v := observe(t, b, n, nil)
	holding := strings.Join(v.Whole(nil).Holding, ", ")
	for _, says := range []string{"dir-a", "volume a", v1alpha1.AnnotationRemove + "=" + string(n.UID)} {
		if !strings.Contains(holding, says) {
			t.Errorf("%q does not say %q", holding, says)
		}
	}
	n.Annotations = map[string]string{v1alpha1.AnnotationRemove: "another"}
	if v = observe(t, b, n, v); len(v.Whole(nil).Holding) == 0 {
		t.Error("released with another UID")
	}
	n.Annotations[v1alpha1.AnnotationRemove] = string(n.UID)
	if whole := observe(t, b, n, v).Whole(nil); len(whole.Holding)+len(whole.Steps) != 0 {
		t.Errorf("%+v", whole)
	}
}

func TestDeletion_ofAShareThatNobodyReads(t *testing.T) {
	a := &agents{online: []string{"n1"}, reports: map[string]sharedvolume.Seen{"n1": down}, listErr: errors.New("no way to the server")}
	b := &Backend{Agents: a, Now: time.Now}
	n := leaving()
	if holding := strings.Join(observe(t, b, n, nil).Whole(nil).Holding, ", "); !strings.Contains(holding, down.Problem.Message) {
		t.Errorf("%q", holding)
	}
	a.reports["n1"] = fine
	if holding := strings.Join(observe(t, b, n, nil).Whole(nil).Holding, ", "); !strings.Contains(holding, "no way to the server") {
		t.Errorf("%q", holding)
	}
	a.online = nil
	if holding := strings.Join(observe(t, b, n, nil).Whole(nil).Holding, ", "); !strings.Contains(holding, "No agent") {
		t.Errorf("%q", holding)
	}
	// Nothing was ever made on a share that was never reached.
	n.Status.ShareID = ""
	if whole := observe(t, b, n, nil).Whole(nil); len(whole.Holding) != 0 {
		t.Errorf("%+v", whole)
	}
	// An Nfs that stays has nothing to do with what its share has on record, nor one whose volumes hold it up themselves.
	n = object()
	n.Status.ShareID = fine.ID
	if whole := observe(t, b, n, nil).Whole(nil); len(whole.Holding) != 0 {
		t.Errorf("%+v", whole)
	}
	w := backend.World{Volumes: map[string][]backend.Volume{"": {{Name: "pvc-1"}}}}
	if v, err := b.Observe(t.Context(), leaving(), w, nil); err != nil || len(v.Whole(nil).Holding) != 0 {
		t.Errorf("%+v, %v", v.Whole(nil), err)
	}
}

// free lets every step be taken.
func free(backend.Step) error { return nil }

func TestPerform_refusesWhatIsNotIts(t *testing.T) {
	a := &agents{online: []string{"n1"}, reports: map[string]sharedvolume.Seen{"n1": fine}, records: neverMade(sharedvolume.Removing, "a")}
	b := &Backend{Agents: a, Now: time.Now}
	if _, err := b.Perform(t.Context(), "n1", backend.Checked([]backend.Step{backendtest.Step{Through: "n1"}}, free)); err == nil {
		t.Error("a step of another backend was taken")
	}
	steps := observe(t, b, leaving(), nil).Whole(nil).Steps
	if _, err := b.Perform(t.Context(), "n2", backend.Checked(steps, free)); err == nil || len(a.removed) != 0 {
		t.Errorf("%v, %v", err, a.removed)
	}
	b.Agents = failing{a}
	_, err := b.Perform(t.Context(), "n1", backend.Checked(steps, free))
	var failed *backend.StepError
	if !errors.As(err, &failed) || !failed.Passing || failed.Reason != v1alpha1.ReasonStepFailed {
		t.Errorf("%v", err)
	}
}

// failing are agents that are busy.
type failing struct{ *agents }

func (failing) AbandonDirectory(context.Context, string, sharedvolume.Share, string) error {
	return &decide.Fault{Kind: decide.FaultBusy, Message: "busy"}
}

func TestDeletion_readsAgainAfterTheNextLook(t *testing.T) {
	a := &agents{online: []string{"n1"}, reports: map[string]sharedvolume.Seen{"n1": fine}, listErr: errors.New("busy")}
	now := time.Now()
	b := &Backend{Agents: a, Now: func() time.Time { return now }}
	n := leaving()
	v := observe(t, b, n, nil)
	a.listErr = nil
	if v = observe(t, b, n, v); len(v.Whole(nil).Holding) == 0 {
		t.Error("a share that could not be read is asked all the time")
	}
	now = now.Add(nfs.Every)
	if v = observe(t, b, n, v); len(v.Whole(nil).Holding) != 0 {
		t.Errorf("%v", v.Whole(nil).Holding)
	}
}
