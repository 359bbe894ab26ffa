package backend

import (
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestSummary_approvalThatLosesVolumes: what is wrong comes before the plan, and the plan says what is lost by it before it says how to approve it.
func TestSummary_approvalThatLosesVolumes(t *testing.T) {
	s := summaryOf(hostOf("n2", refuses))
	s.Class = Class{Exists: true}
	s.Profile.Effects = map[string]Effect{"Forget": {GivesUp: true}}
	s.Plan = &v1alpha1.Plan{Digest: "d1", Count: 1, Steps: []v1alpha1.PlanStep{{
		Host: "n1", Action: "Forget", Volumes: []string{"pvc-1 (claim a/b)"},
	}}}
	got := s.Message()
	for _, part := range []string{
		"n2: no clean device", "1 step waits for approval", "Approving it deletes for good: pvc-1 (claim a/b).", "quarry.storage/approve=d1",
	} {
		_, rest, found := strings.Cut(got, part)
		if !found {
			t.Fatalf("%q is not in its place in %q", part, s.Message())
		}
		got = rest
	}
}

// TestSummary_approvalThatKeepsVolumes: a plan that names volumes because they move, or are in a pool that is repaired, does not say that they go.
func TestSummary_approvalThatKeepsVolumes(t *testing.T) {
	for _, action := range []string{v1alpha1.ActionImportVolumeGroup, v1alpha1.ActionRepairThinPool} {
		s := summaryOf(hostOf("n2", refuses))
		s.Class = Class{Exists: true}
		s.Profile.Effects = map[string]Effect{"Forget": {GivesUp: true}}
		s.Plan = &v1alpha1.Plan{Digest: "d1", Count: 1, Steps: []v1alpha1.PlanStep{{Host: "n1", Action: action, Volumes: []string{"pvc-1 (claim a/b)"}}}}
		if got := s.Message(); strings.Contains(got, "deletes") || !strings.Contains(got, "quarry.storage/approve=d1") {
			t.Errorf("%s: %s", action, got)
		}
	}
}

// TestSummary_consents: what whoever approves says by that comes before the command, each sentence once, and not more of them than a person reads.
func TestSummary_consents(t *testing.T) {
	steps := func(consents ...string) (out []v1alpha1.PlanStep) {
		for _, c := range consents {
			out = append(out, v1alpha1.PlanStep{Action: v1alpha1.ActionFenceNode, Consent: c})
		}
		return out
	}
	for name, c := range map[string]struct {
		steps []v1alpha1.PlanStep
		count int32
		want  string
	}{
		"a step that needs no word": {steps(""), 1, "see status.plan. To approve"},
		"a word":                    {steps("A."), 1, "see status.plan. A. To approve"},
		"the same word twice":       {steps("A.", "", "A.", "B."), 4, "see status.plan. A. B. To approve"},
		"too many words":            {steps("A.", "B.", "C.", "D."), 4, "A. B. C. status.plan, and those of the Members, have the rest of what is said by approving. To approve"},
		"steps that are not shown":  {steps("A."), 30, "A. status.plan, and those of the Members, have the rest of what is said by approving. To approve"},
	} {
		s := summaryOf()
		s.Plan = &v1alpha1.Plan{Digest: "d1", Count: c.count, Steps: c.steps}
		if got := s.planApproved().Message; !strings.Contains(got, c.want) {
			t.Errorf("%s: %q lacks %q", name, got, c.want)
		}
	}
}
