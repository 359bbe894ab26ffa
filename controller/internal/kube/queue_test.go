package kube

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestOptions_anErrorThatStaysStopsNoClock(t *testing.T) {
	o := Options(3)
	one, other := request("one"), request("other")
	var last time.Duration
	for range 40 {
		last = o.RateLimiter.When(one)
	}
	if last != 30*time.Second || o.MaxConcurrentReconciles != 3 {
		t.Errorf("after 40 errors it waits for %v, with %d workers", last, o.MaxConcurrentReconciles)
	}
	if first := o.RateLimiter.When(other); first > 10*time.Millisecond {
		t.Errorf("another object waits for %v", first)
	}
	if Options(3).RateLimiter == o.RateLimiter {
		t.Error("two controllers share a rate limiter")
	}
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}
}
