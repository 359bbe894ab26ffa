package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// versions answers lists with one resource version after the other. "down" is an API server that does not answer.
type versions struct {
	client.Reader
	left []string
	end  context.CancelFunc
}

func (v *versions) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := &client.ListOptions{}
	o.ApplyOptions(opts)
	if o.Limit != 1 {
		return errors.New("more is read than the version")
	}
	next := v.left[0]
	if v.left = v.left[1:]; len(v.left) == 0 {
		v.end()
	}
	if next == "down" {
		return errors.New("connection refused")
	}
	list.SetResourceVersion(next)
	return nil
}

// TestRewind: a process ends when the API server knows less than it did, also when it was away in between, and for nothing else.
func TestRewind(t *testing.T) {
	for name, c := range map[string]struct {
		versions []string
		want     string
	}{
		"nothing happens":                      {versions: []string{"5", "5", "7", "1000"}},
		"restored":                             {versions: []string{"7", "1000", "999"}, want: "resource version 999, and 1000 before"},
		"restored while nobody looked":         {versions: []string{"1000", "down", "down", "12"}, want: "resource version 12, and 1000 before"},
		"away for a while":                     {versions: []string{"1000", "down", "1000", "1001"}},
		"away at first":                        {versions: []string{"down", "3", "4"}},
		"versions that cannot be compared":     {versions: []string{"b", "a", ""}},
		"one that cannot be compared, between": {versions: []string{"1000", "x", "12"}, want: "resource version 12, and 1000 before"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			err := (&Rewind{Live: &versions{left: c.versions, end: end}, pause: time.Millisecond}).Start(ctx)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!errors.Is(err, ErrRewound) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
