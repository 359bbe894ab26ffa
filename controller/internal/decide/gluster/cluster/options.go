package cluster

import (
	"slices"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// allowed are the options that the API lets through. Others are never written, whoever set them.
var allowed = []string{
	"cluster.brick-multiplex", "cluster.localtime-logging", "cluster.max-bricks-per-process", "auto-create-block-hosting-volumes",
	"auto-delete-block-hosting-volumes", "block-hosting-volume-size", "block-hosting-volume-replica-count",
}

// Option is one that glusterd2 lists.
type Option struct{ Name, Value, Default string }

// Options returns what is set: options of the spec that have another value, and those that the spec does not have any more, back to their default, since glusterd2
// forgets none. All go in one request, which takes all or nothing (a119). unknown are options of the spec that glusterd2 does not have.
func Options(want map[string]v1alpha1.GlusterOptionValue, have []Option) (set map[string]string, unknown []string) {
	set = map[string]string{}
	listed := map[string]bool{}
	for _, o := range have {
		listed[o.Name] = true
		if !slices.Contains(allowed, o.Name) {
			continue
		}
		value, given := want[o.Name]
		if !given {
			value = v1alpha1.GlusterOptionValue(o.Default)
		}
		if string(value) != o.Value {
			set[o.Name] = string(value)
		}
	}
	for name := range want {
		if !listed[name] {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return set, unknown
}
