package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// udev looks at a volume that was just activated: a deletion in that moment succeeds a little later. One that a pod uses stays.
func TestEngine_DeleteVolume_waitsForAShortLook(t *testing.T) {
	want := volume.Spec{Group: "vg", OwnerUID: "uid", Name: "v", ID: "id", SizeBytes: 4 << 20}
	present := []plan.Volume{{Name: "v", ID: "id", SizeBytes: 4 << 20, Active: true}}
	refused := failed("  Logical volume vg/v in use.")
	open := report(ownerTag, strings.Replace(row("id"), `"lv_device_open":"0"`, `"lv_device_open":"1"`, 1))
	t.Run("closed soon", func(t *testing.T) {
		e, fake, _ := lvmEngine(t, present, refused, open, refused, open, said("successfully removed"))
		if err := e.DeleteVolume(t.Context(), want); err != nil || fake.Left() > 0 {
			t.Errorf("%v; %d commands were not run", err, fake.Left())
		}
	})
	t.Run("open for good", func(t *testing.T) {
		var script []run.Step
		for range openPatience/openPause + 2 {
			script = append(script, refused, open)
		}
		e, _, _ := lvmEngine(t, present, script...)
		began := time.Now()
		if err := e.DeleteVolume(t.Context(), want); !errors.Is(err, plan.ErrInUse) || time.Since(began) < openPatience {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
