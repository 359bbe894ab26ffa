package drain

import (
	"testing"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestLacks(t *testing.T) {
	kind := func(k gluster.Kind) edit { return func(f *Facts) { f.volume().Subvolumes[0].Kind = k } }
	unhealed := func(f *Facts) { f.volume().Heal, f.volume().SelfHeal = nil, gluster.Unknown }
	for name, row := range map[string]struct {
		edits []edit
		want  string
	}{
		"nothing":                         {nil, ""},
		"it is stopped":                   {[]edit{func(f *Facts) { f.volume().Started = false; f.brick(0).Online = gluster.No }}, ""},
		"it is cut":                       {[]edit{func(f *Facts) { f.volume().Subvolumes = nil }}, v1alpha1.ReasonPoolUnknown},
		"a brick does not run":            {[]edit{func(f *Facts) { f.brick(1).Online = gluster.No }}, v1alpha1.ReasonBrickDown},
		"nobody knows whether it does":    {[]edit{func(f *Facts) { f.brick(1).Online = gluster.Unknown }}, v1alpha1.ReasonPoolUnknown},
		"a server of it is away":          {[]edit{func(f *Facts) { (*f.Pool.Peers)[2].Online = false }}, v1alpha1.ReasonBrickDown},
		"it does not heal itself":         {[]edit{func(f *Facts) { f.volume().SelfHeal = gluster.No }}, v1alpha1.ReasonHealing},
		"nobody knows whether it heals":   {[]edit{func(f *Facts) { f.volume().SelfHeal = gluster.Unknown }}, v1alpha1.ReasonPoolUnknown},
		"files are to be healed":          {[]edit{func(f *Facts) { f.volume().Heal.Pending = 1 }}, v1alpha1.ReasonHealing},
		"nobody knows whether there are":  {[]edit{func(f *Facts) { f.volume().Heal = nil }}, v1alpha1.ReasonPoolUnknown},
		"copies contradict each other":    {[]edit{func(f *Facts) { f.volume().Heal.SplitBrain = 1 }}, v1alpha1.ReasonSplitBrain},
		"a brick is as good as empty":     {[]edit{func(f *Facts) { f.brick(0).Size.Used = gi }}, v1alpha1.ReasonHealing},
		"nobody knows how much is on one": {[]edit{func(f *Facts) { f.brick(2).Size = nil }}, v1alpha1.ReasonPoolUnknown},
		"one copy has nothing to heal":    {[]edit{kind(gluster.Distribute), unhealed}, ""},
		"one copy, and it does not run":   {[]edit{kind(gluster.Distribute), unhealed, func(f *Facts) { f.brick(0).Online = gluster.No }}, v1alpha1.ReasonBrickDown},
		"dispersed, as nobody can say":    {[]edit{kind(gluster.Disperse), unhealed}, v1alpha1.ReasonPoolUnknown},
	} {
		f := apply(row.edits...)
		got := ""
		if lack := Lacks(f.Pool, *f.volume()); lack != nil {
			if got = lack.Reason; lack.Message == "" || lack.Status == "" {
				t.Errorf("%s: says too little: %+v", name, lack)
			}
		}
		if got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}
