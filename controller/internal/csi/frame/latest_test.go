package frame

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// slowServer is an API server that takes a second for a list of what it had when the list began.
type slowServer struct {
	client.Reader
	mu    sync.Mutex
	items []corev1.PersistentVolume
	lists int
	// hung lists end with their context.
	hung bool
}

func (s *slowServer) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	s.mu.Lock()
	s.lists++
	items, hung := append([]corev1.PersistentVolume(nil), s.items...), s.hung
	s.mu.Unlock()
	if hung {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(time.Second)
	l, ok := list.(*corev1.PersistentVolumeList)
	if !ok {
		return fmt.Errorf("unexpected list %T", list)
	}
	l.Items = items
	return nil
}

func (s *slowServer) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := corev1.PersistentVolume{}
	v.Name, v.Spec.CSI = name, &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: name}
	s.items = append(s.items, v)
}

// TestLatest: fifty who ask while a list is under way share the next one, which has what was made before they asked; the list under way does not have it.
func TestLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowServer{}
		l := newLatest(PersistentVolumes{Reader: s, Driver: "d"})
		var asking sync.WaitGroup
		ask := func(want int) {
			asking.Go(func() {
				if got, err := l.all(t.Context()); err != nil || len(got) != want {
					t.Errorf("%d PersistentVolumes, want %d: %v", len(got), want, err)
				}
			})
		}
		s.add("one")
		ask(1)
		time.Sleep(500 * time.Millisecond)
		s.add("two")
		for range 50 {
			ask(2)
		}
		asking.Wait()
		if s.lists != 2 {
			t.Errorf("%d lists, want 2", s.lists)
		}
		// Nobody waits any more: who asks now gets a list of now.
		s.add("three")
		ask(3)
		asking.Wait()
	})
}

// TestLatest_givesUp: who gives up ends alone, and a list that nobody waits for ends at its limit, so that others are not held up for good.
func TestLatest_givesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowServer{hung: true}
		l := newLatest(PersistentVolumes{Reader: s, Driver: "d"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.all(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		s.mu.Lock()
		s.hung = false
		s.mu.Unlock()
		s.add("one")
		if got, err := l.all(t.Context()); err != nil || len(got) != 1 {
			t.Errorf("%d PersistentVolumes, %v", len(got), err)
		}
	})
}
