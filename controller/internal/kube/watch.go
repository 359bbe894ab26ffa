package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Predicates that several reconcilers use.
var (
	// Created lets new objects through, and nothing else.
	Created = predicate.Funcs{
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
	// Gone lets deleted objects through, and nothing else.
	Gone = predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
	// ComesAndGoes lets new and deleted objects through, and no change.
	ComesAndGoes = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
	// FinalizersChanged lets changes of the finalizers through: they change neither the generation nor the annotations.
	FinalizersChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
	}}
	// DeletionBegins lets through that an object is being deleted from now on.
	DeletionBegins = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
)

// Definition is the kind of CustomResourceDefinitions, of which only the metadata is read.
func Definition() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return o
}

// Everyone returns a handler that asks for every object of a kind to be looked at; list returns an empty list of the kind.
func Everyone(c client.Reader, list func() client.ObjectList) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		all := list()
		// Reading from the cache fails only while it is being set up, and then every object is looked at anyway.
		if err := c.List(ctx, all, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
			logf.FromContext(ctx).Error(err, "Failed to list objects")
			return nil
		}
		var requests []reconcile.Request
		err := meta.EachListItem(all, func(o runtime.Object) error {
			m, err := meta.Accessor(o)
			if err == nil {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: m.GetNamespace(), Name: m.GetName()}})
			}
			return err
		})
		if err != nil {
			logf.FromContext(ctx).Error(err, "Failed to read a list of objects")
		}
		return requests
	}
}

// Changes returns a source of requests for what a channel names, each after a while in which more may come.
func Changes(changed <-chan string, after time.Duration, requests func(ctx context.Context, name string) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case name, open := <-changed:
					if !open {
						return
					}
					for _, r := range requests(ctx, name) {
						q.AddAfter(r, after)
					}
				}
			}
		}()
		return nil
	})
}

// WatchLate returns a function that lets a controller watch a kind whose definition may come later. Each kind is watched once, from the
// first call on that finds it served; until then the error says so.
func WatchLate(mapper meta.RESTMapper, c controller.Controller, of func(schema.GroupVersionKind) source.Source) func(schema.GroupVersionKind) error {
	var mu sync.Mutex
	watched := map[schema.GroupVersionKind]bool{}
	return func(k schema.GroupVersionKind) error {
		mu.Lock()
		defer mu.Unlock()
		if watched[k] {
			return nil
		}
		// A definition exists a moment before its kind is served, and a watch that begins too early never does.
		if _, err := mapper.RESTMapping(k.GroupKind(), k.Version); err != nil {
			return fmt.Errorf("find kind %s: %w", k.Kind, err)
		}
		if err := c.Watch(of(k)); err != nil {
			return fmt.Errorf("watch %s: %w", k.Kind, err)
		}
		watched[k] = true
		return nil
	}
}

// untilServed is how often it is looked whether a kind is served by now.
const untilServed = 30 * time.Second

// Later returns a source of requests for what happens to objects of a kind whose definition may be missing, and may come later. Unlike a plain watch it keeps no controller from starting: each of them waits for all that the cache
// has begun with. So the cache begins with the kind once api, the API server itself, lists it; list is an empty list of the kind.
func Later(c cache.Cache, api client.Reader, list client.ObjectList, o client.Object, h handler.EventHandler, which ...predicate.Predicate) source.Source {
	return later(untilServed, c, api, list, o, h, which...)
}

func later(pause time.Duration, c cache.Cache, api client.Reader, list client.ObjectList, o client.Object, h handler.EventHandler, which ...predicate.Predicate) source.Source {
	return source.Func(func(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go func() {
			served := func(ctx context.Context) (bool, error) {
				err := api.List(ctx, list, client.Limit(1))
				if err == nil {
					_, err = c.GetInformer(ctx, o, cache.BlockUntilSynced(false))
				}
				if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
					logf.FromContext(ctx).Error(err, "Failed to watch a kind, trying again", "kind", fmt.Sprintf("%T", o))
				}
				return err == nil, nil
			}
			if wait.PollUntilContextCancel(ctx, pause, true, served) != nil {
				return
			}
			if err := source.Kind(c, o, h, which...).Start(ctx, q); err != nil {
				logf.FromContext(ctx).Error(err, "Failed to watch a kind", "kind", fmt.Sprintf("%T", o))
			}
		}()
		return nil
	})
}
